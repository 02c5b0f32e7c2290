# SPDX-License-Identifier: Apache-2.0
"""Captures written by pyarrow, DuckDB and Polars over the matrix of what writers do, read back
row for row."""
import itertools

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
import oracle  # noqa: E402

CODECS = ["NONE", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4"]
ENCODINGS = ["dictionary", "PLAIN", "BYTE_STREAM_SPLIT"]
LAYOUTS = ["fixed", "list", "large", "legacy"]
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def numbers(rows, dim, dtype, seed):
    """Few enough distinct values for a dictionary, with the special ones among them."""
    rng = np.random.default_rng(seed)
    values = rng.choice(rng.standard_normal(500), rows * dim).astype(dtype)
    values[:4] = [np.nan, np.inf, -np.inf, -0.0][:len(values)]
    return values


def vectors(values, dim, layout, nulls):
    """The vector column; nulls puts null and empty rows, and null elements, among them."""
    flat = pa.array(values)
    rows = len(flat) // dim
    if layout == "fixed":
        mask = pa.array(np.arange(rows) % 7 == 3) if nulls else None
        return pa.FixedSizeListArray.from_arrays(flat, dim, mask=mask)
    kind = pa.list_(flat.type) if layout != "large" else pa.large_list(flat.type)
    if not nulls:
        offsets = pa.array(np.arange(rows + 1) * dim,
                           pa.int64() if layout == "large" else pa.int32())
        make = pa.LargeListArray if layout == "large" else pa.ListArray
        return make.from_arrays(offsets, flat)
    lists = np.asarray(flat).reshape(rows, dim).tolist()
    for i in range(0, rows, 7):
        lists[i] = None
    for i in range(1, rows, 9):
        lists[i] = []
    for i in range(2, rows, 11):
        if lists[i]:
            lists[i][i % dim] = None
    if flat.type == pa.float16():
        lists = [x and [v and np.float16(v) for v in x] for x in lists]
    return pa.array(lists, kind)


def capture(rows, dim, dtype, layout, nulls, seed=0):
    row = np.arange(rows)
    window = [None if nulls and i % 3 else i for i in range(rows)]
    return pa.table({
        "bucket": pa.array(row // 10, pa.int32()),
        "example_id": pa.array((row * 7919) % 31 - 5, pa.int64()),
        "position": pa.array(row, pa.int32()),
        "vector": vectors(numbers(rows, dim, dtype, seed), dim, layout, nulls),
        "sliding_window": pa.array(window, pa.int32()),
        "none": pa.nulls(rows),
        "flag": pa.array(row % 5 == 0),
        "token_str": pa.array([None if nulls and i % 4 == 1 else f"t{i % 13}é" for i in row]),
    })


def write(table, path, encoding, **options):
    options.setdefault("store_schema", True)
    if encoding != "dictionary":
        leaf = "vector.list.element" if options.get("use_compliant_nested_type", True) \
            else "vector.list.item"
        options.update(use_dictionary=False, column_encoding={leaf: encoding})
    pq.write_table(table, path, **options)
    return path


@pytest.mark.sample(5)
@pytest.mark.parametrize("layout,value", list(itertools.product(LAYOUTS, FLOATS)))
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("nulls", [False, True], ids=["valid", "nulls"])
def test_layouts(tmp_path, layout, value, version, nulls):
    """Every list layout and type, in pages that cut rows apart."""
    for encoding in ENCODINGS:
        table = capture(211, 24, FLOATS[value], layout, nulls)
        path = write(table, tmp_path / f"{encoding}.parquet", encoding, compression="zstd",
                     data_page_version=version, data_page_size=1500, write_batch_size=64,
                     row_group_size=100, use_compliant_nested_type=layout != "legacy")
        oracle.compare_file(path)


@pytest.mark.parametrize("codec", CODECS)
def test_codecs(tmp_path, codec):
    for version, encoding, nulls in itertools.product(("1.0", "2.0"), ENCODINGS, (False, True)):
        table = capture(130, 16, np.float32, "list", nulls)
        path = write(table, tmp_path / f"{version}-{encoding}-{nulls}.parquet", encoding, compression=codec,
                     data_page_version=version, row_group_size=50 if nulls else 1000,
                     data_page_size=1 << 20 if version == "2.0" and nulls else 300, write_page_checksum=nulls)
        oracle.compare_file(path)


@pytest.mark.parametrize("limit", [64, 700, 1 << 20])
@pytest.mark.parametrize("distinct", [1, 2, 3, 200, 5000])
def test_dictionary_widths(tmp_path, distinct, limit):
    """Index widths, and dictionaries that fall back to plain pages."""
    rng = np.random.default_rng(distinct)
    values = rng.standard_normal(distinct).astype(np.float32)[rng.integers(0, distinct, 12000)]
    table = pa.table({"vector": pa.FixedSizeListArray.from_arrays(pa.array(values), 30)})
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, dictionary_pagesize_limit=limit, data_page_size=2000)
    oracle.compare_file(path)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["NONE", "ZSTD"])
def test_other_encodings(tmp_path, version, codec):
    rng = np.random.default_rng(1)
    big = rng.integers(-2 ** 63, 2 ** 63 - 1, 1000, dtype=np.int64)
    small = rng.integers(-2 ** 31, 2 ** 31 - 1, 1000, dtype=np.int32)
    table = pa.table({
        "i64": pa.array(np.where(np.arange(1000) < 300, np.arange(1000), big)),
        "i32": pa.array([None if i % 10 == 0 else int(v) for i, v in enumerate(small)],
                        pa.int32()),
        "split32": pa.array(small), "split64": pa.array(big),
        "fixed": pa.array([bytes([i % 256] * 5) for i in range(1000)], pa.binary(5)),
        "text": pa.array([None if i % 7 == 0 else "x" * (i % 40) for i in range(1000)]),
        "flag": pa.array([None if i % 3 == 0 else i % 64 < 32 for i in range(1000)]),
        "f64": pa.array(rng.standard_normal(1000)),
    })
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, use_dictionary=False, compression=codec, version="2.6",
                   data_page_version=version, data_page_size=1000, column_encoding={
                       "i64": "DELTA_BINARY_PACKED", "i32": "DELTA_BINARY_PACKED",
                       "split32": "BYTE_STREAM_SPLIT", "split64": "BYTE_STREAM_SPLIT",
                       "fixed": "BYTE_STREAM_SPLIT", "text": "DELTA_LENGTH_BYTE_ARRAY",
                       "flag": "RLE", "f64": "BYTE_STREAM_SPLIT"})
    oracle.compare_file(path)
    refused = tmp_path / "refused.parquet"
    pq.write_table(table.select(["text"]), refused, use_dictionary=False,
                   column_encoding={"text": "DELTA_BYTE_ARRAY"})
    oracle.compare_file(refused, {"text": "DELTA_BYTE_ARRAY"})


def test_empty(tmp_path):
    table = capture(0, 4, np.float32, "list", False)
    oracle.compare_file(write(table, tmp_path / "x.parquet", "dictionary"))
    assert not any(column.rows or column.error for column in oracle.read_columns(tmp_path / "x.parquet"))


def test_nested(tmp_path):
    rows = [{"a": [[1, None], [], None], "m": [("k", {"x": 1.5})]}, None,
            {"a": None, "m": []}, {"a": [], "m": None}, {"a": [[7]], "m": [("l", None)]}]
    kind = pa.struct([("a", pa.list_(pa.list_(pa.int32()))),
                      ("m", pa.map_(pa.string(), pa.struct([("x", pa.float64())])))])
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"s": pa.array(rows * 40, kind)}), path, data_page_size=100,
                   write_batch_size=8)
    oracle.compare_file(path)


@pytest.mark.test_all
@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4_raw"])
@pytest.mark.parametrize("version", ["V1", "V2"])
def test_duckdb(tmp_path, codec, version):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "x.parquet"
    table = capture(3000, 16, np.float32, "list", True)
    table = table.drop(["none"])
    db = duckdb.connect()
    db.register("t", table)
    db.execute(f"COPY t TO '{path}' (FORMAT parquet, CODEC '{codec}', ROW_GROUP_SIZE 2048,"
               f" PARQUET_VERSION '{version}')")
    refused = {}
    for column in range(pq.ParquetFile(path).metadata.num_columns):
        chunk = pq.ParquetFile(path).metadata.row_group(0).column(column)
        if "DELTA_BYTE_ARRAY" in chunk.encodings:
            refused[chunk.path_in_schema] = "DELTA_BYTE_ARRAY"
    oracle.compare_file(path, refused)


@pytest.mark.test_all
@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_polars(tmp_path, codec):
    polars = pytest.importorskip("polars")
    path = tmp_path / "x.parquet"
    frame = polars.from_arrow(capture(3000, 16, np.float32, "list", True).drop(["none"]))
    frame.write_parquet(path, compression=codec, row_group_size=900, data_page_size=5000)
    oracle.compare_file(path)
