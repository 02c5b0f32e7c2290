# SPDX-License-Identifier: Apache-2.0
"""Writes a capture as the original tool does: pyarrow, zstd, dictionary on, FixedSizeList,
values rounded to bfloat16. Content is random with a drift along position, so that the
analyses have something to find."""
import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def bfloat16(x):
    """Rounds float32 to the nearest bfloat16, kept as float32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    bits = bits + 0x7FFF + ((bits >> 16) & 1)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def write_head(path, rows, dim, seed, row_group_size=None):
    rng = np.random.default_rng(seed)
    position = np.sort(rng.integers(0, 131072, rows)).astype(np.int32)
    axis = rng.standard_normal(dim)
    axis /= np.linalg.norm(axis)
    scale = np.linspace(2.0, 0.3, dim)
    mean = 2 * rng.standard_normal(dim)
    drift = 4 * rng.standard_normal() * (position / 131072 - 0.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([("bucket", pa.int32()), ("example_id", pa.int32()),
                        ("position", pa.int32()), ("vector", pa.list_(pa.float32(), dim)),
                        ("sliding_window", pa.null())])
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=True) as out:
        # One write_table call, as the original does, unless the head is too large for memory.
        step = rows if rows * dim <= 1 << 25 else (1 << 25) // dim
        for start in range(0, rows, step):
            t = position[start:start + step]
            x = mean + rng.standard_normal((len(t), dim)) * scale
            x += drift[start:start + step, None] * axis
            vector = pa.FixedSizeListArray.from_arrays(bfloat16(x).ravel(), dim)
            table = pa.table([pa.array(t // 8192), pa.array(t % 97, pa.int32()), pa.array(t),
                              vector, pa.nulls(len(t))], schema=schema)
            out.write_table(table, row_group_size=row_group_size or 1 << 20)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--q-heads", type=int, default=8)
    parser.add_argument("--k-heads", type=int, default=4)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--rows", type=int, default=8000)
    args = parser.parse_args()
    jobs = [(args.dir / f"l{layer:02d}h{head:02d}{kind}" / "data.parquet", args.rows, args.dim,
             [layer, head, ord(kind)])
            for layer in range(args.layers)
            for kind, heads in (("q", args.q_heads), ("k", args.k_heads))
            for head in range(heads)]
    with ProcessPoolExecutor() as pool:
        for done in [pool.submit(write_head, *job) for job in jobs]:
            done.result()


if __name__ == "__main__":
    main()
