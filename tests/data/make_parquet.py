# SPDX-License-Identifier: Apache-2.0
"""Makes the small files in tests/data/parquet/: `python3 make_parquet.py`. They are committed,
so that the unit tests need no Python; each is a few hundred bytes to a few kilobytes."""
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = pathlib.Path(__file__).resolve().parent / "parquet"


def capture(rows, dim, layout=pa.list_):
    """Values that tests can work out: element j of row i is (31 i + j) % 97 / 8 - 6."""
    row = np.arange(rows)
    values = ((31 * row[:, None] + np.arange(dim)) % 97 / 8 - 6).astype(np.float32)
    return pa.table({
        "bucket": pa.array(row // 10, pa.int32()),
        "example_id": pa.array(row % 3, pa.int32()),
        "position": pa.array(row * 5, pa.int32()),
        "vector": pa.array(values.tolist(), layout(pa.float32())),
        "sliding_window": pa.nulls(rows),
    })


def write(name, table, **options):
    pq.write_table(table, FOLDER / f"{name}.parquet", store_schema=False, **options)


def main():
    FOLDER.mkdir(exist_ok=True)
    small = capture(12, 4)
    write("capture", small, compression="zstd", row_group_size=7)
    write("v2", small, compression="snappy", data_page_version="2.0", write_page_checksum=True)
    write("split", small, compression="none", use_dictionary=False,
          column_encoding={"vector.list.element": "BYTE_STREAM_SPLIT",
                           "bucket": "DELTA_BINARY_PACKED", "example_id": "PLAIN",
                           "position": "DELTA_BINARY_PACKED", "sliding_window": "PLAIN"})
    # Pages that cut rows apart.
    write("pages", capture(40, 10), compression="none", data_page_size=64, write_batch_size=7,
          write_statistics=False)
    # Rows that read_f32 must refuse, one kind a column.
    good = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    bad = {"short": [5.0], "long": [5.0, 6.0, 7.0], "null": None, "empty": [],
           "element": [5.0, None]}
    ragged = {name: pa.array(good + [row] + good, pa.list_(pa.float32()))
              for name, row in bad.items()}
    ragged["long_last"] = pa.array(good * 2 + [bad["long"]], pa.list_(pa.float32()))
    ragged["text"] = pa.array(["a", "b", None, "d", "", "f", "g"])
    ragged["number"] = pa.array([1, 2, None, 4, 5, 6, 7], pa.int64())
    ragged["half"] = pa.array(np.arange(7).astype(np.float16))
    write("ragged", pa.table(ragged), compression="none", use_dictionary=False,
          write_statistics=False)


if __name__ == "__main__":
    main()
