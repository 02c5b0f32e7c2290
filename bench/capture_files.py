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


def places(rng, rows):
    """Texts one after the other, and a position in each of equal parts of a text's 131,072."""
    texts = max(97, -(-rows // 8000))
    example = np.arange(rows) * texts // rows
    place = np.arange(rows) - np.searchsorted(example, example)
    part = 131072 // np.bincount(example)[example]
    return example, (place * part + rng.integers(0, part)).astype(np.int32)


def write_head(path, rows, dim, seed, big_table=False):
    """One head. big_table: repeat a block of content instead of drawing every row, so that one
    write_table call (one row group) of very many rows is quick to make."""
    rng = np.random.default_rng(seed)
    example, position = places(rng, rows)
    axis = rng.standard_normal(dim)
    axis /= np.linalg.norm(axis)
    scale = np.linspace(2.0, 0.3, dim)
    mean = 2 * rng.standard_normal(dim)
    drift = 4 * rng.standard_normal() * (position / 131072 - 0.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([("bucket", pa.int32()), ("example_id", pa.int32()),
                        ("position", pa.int32()), ("vector", pa.list_(pa.float32(), dim)),
                        ("sliding_window", pa.null())])
    drawn = min(rows, 8000) if big_table else rows
    x = (mean + rng.standard_normal((drawn, dim)) * scale).astype(np.float32)
    x = np.resize(x, (rows, dim))
    x += (drift[:, None] * axis).astype(np.float32)
    vector = pa.FixedSizeListArray.from_arrays(bfloat16(x).ravel(), dim)
    table = pa.table([pa.array(position // 8192), pa.array(example, pa.int32()),
                      pa.array(position), vector, pa.nulls(rows)], schema=schema)
    pq.write_table(table, path, compression="zstd", use_dictionary=True)


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
