# SPDX-License-Identifier: Apache-2.0
"""Files that the Parquet writer makes, read back by pyarrow, DuckDB and Polars."""
import os
import pathlib
import subprocess

import numpy as np
import pytest

from conftest import VERSION

pq = pytest.importorskip("pyarrow.parquet")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build"))
PROGRAM = BUILD / "tests" / "parquet" / "parquet-write-sample"
CODECS = {0: "UNCOMPRESSED", 1: "SNAPPY", 2: "GZIP", 4: "BROTLI", 6: "ZSTD", 7: "LZ4"}
AUTO, PLAIN, DICTIONARY, SPLIT = range(4)
BFLOAT16, RANDOM, CONSTANT = range(3)

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def write(path, **options):
    subprocess.run([PROGRAM, path] + [f"{k}={v}" for k, v in options.items()], check=True)
    return path


def mix(x):
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def expected(rows=100, dim=8, seed=0, values=BFLOAT16, nulls=0, strings=1, wide=0, **_):
    """The same values as write_sample.c; vectors as bit patterns."""
    row = np.arange(rows, dtype=np.uint64)
    bits = mix(np.uint64(seed * 1000003) + np.arange(rows * dim, dtype=np.uint64))
    if values == BFLOAT16:
        word = (bits & np.uint64(0x87FF)) << np.uint64(16) | np.uint64(0x3C000000)
    elif values == RANDOM:
        word = bits & np.uint64(0xFFFFFFFF)
    else:
        word = np.full(rows * dim, 0x3F800000, dtype=np.uint64)
    window = [4096 if nulls == 2 or (nulls == 1 and i % 3 == 0) else None for i in range(rows)]
    table = {
        "bucket": (row // np.uint64(10)).astype(np.int64),
        "example_id": (row // np.uint64(100)).astype(np.int64) - 3,
        "position": (mix(np.uint64(seed) + row) % np.uint64(2000001)).astype(np.int64) - 1000000,
        "vector": word.astype(np.uint32).reshape(rows, dim),
        "sliding_window": window,
    }
    if wide:
        table["example_id"] = (row * np.uint64(0x7FFFFFFFFFFFFFF1)).view(np.int64)
        position = (row * np.uint64(0x7FFFFFF1)).astype(np.uint32)
        table["position"] = position.view(np.int32).astype(np.int64)
    if strings:
        table["token_str"] = [f"tok\u00e9{i % 1000}" if i % 7 else "" for i in range(rows)]
    return table


def check_table(table, want, dim):
    assert table.column_names == list(want)
    for name in ("bucket", "example_id", "position"):
        assert np.array_equal(table[name].to_numpy(), want[name]), name
    vector = table["vector"].combine_chunks()
    assert vector.null_count == 0
    assert np.array_equal(np.asarray(vector.value_lengths()), np.full(len(table), dim))
    flat = vector.flatten().to_numpy().view(np.uint32).reshape(len(table), dim)
    assert np.array_equal(flat, want["vector"])
    assert table["sliding_window"].to_pylist() == want["sliding_window"]
    if "token_str" in want:
        assert table["token_str"].to_pylist() == want["token_str"]


def check_ranges(metadata, want):
    start = 0
    for g in range(metadata.num_row_groups):
        group = metadata.row_group(g)
        end = start + group.num_rows
        for c, name in enumerate(("bucket", "example_id", "position")):
            statistics = group.column(c).statistics
            assert statistics.null_count == 0
            assert statistics.min == want[name][start:end].min()
            assert statistics.max == want[name][start:end].max()
        window = want["sliding_window"][start:end]
        statistics = group.column(4).statistics
        assert statistics.null_count == window.count(None)
        assert statistics.has_min_max == any(w is not None for w in window)
        start = end


def check(path, **options):
    """Reads a file back with pyarrow and compares everything."""
    write(path, **options)
    want = expected(**options)
    file = pq.ParquetFile(path, page_checksum_verification=True)
    check_table(file.read(), want, options.get("dim", 8))
    check_ranges(file.metadata, want)
    return file.metadata


def encodings(metadata, column="vector.list.element", group=0):
    chunks = metadata.row_group(group)
    for i in range(chunks.num_columns):
        if chunks.column(i).path_in_schema == column:
            return set(chunks.column(i).encodings)
    raise KeyError(column)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("encoding", [AUTO, PLAIN, DICTIONARY, SPLIT])
def test_every_codec_version_and_encoding(tmp_path, codec, version, encoding):
    metadata = check(tmp_path / "f.parquet", rows=1777, dim=20, codec=codec, version=version,
                     encoding=encoding, group=1000, page=4096, nulls=1)
    assert metadata.row_group(0).column(3).compression == CODECS[codec]
    assert [metadata.row_group(i).num_rows for i in range(2)] == [1000, 777]
    wanted = {PLAIN: "PLAIN", DICTIONARY: "RLE_DICTIONARY", SPLIT: "BYTE_STREAM_SPLIT"}
    if encoding != AUTO:
        assert wanted[encoding] in encodings(metadata)


@pytest.mark.parametrize("codec,level", [(2, 1), (2, 9), (4, 1), (4, 11), (6, 1), (6, 19), (7, 9)])
def test_levels(tmp_path, codec, level):
    check(tmp_path / "f.parquet", rows=500, codec=codec, level=level)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("nulls", [0, 1, 2])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256])
def test_rows_around_borders(tmp_path, rows, nulls, version):
    """Pages of 16 vectors, row groups of 64 rows."""
    metadata = check(tmp_path / "f.parquet", rows=rows, dim=8, group=64, page=512, nulls=nulls,
                     version=version, seed=rows)
    assert metadata.num_rows == rows
    assert metadata.num_row_groups == (rows + 63) // 64


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 8, 9, 64, 80, 129])
@pytest.mark.parametrize("values", [BFLOAT16, RANDOM, CONSTANT])
def test_widths(tmp_path, dim, values):
    for encoding in (AUTO, DICTIONARY):
        check(tmp_path / f"{encoding}", rows=301, dim=dim, values=values, page=3000,
              encoding=encoding)


def test_too_many_values_for_a_dictionary(tmp_path):
    """70,000 random floats: AUTO splits bytes, DICTIONARY falls back to PLAIN."""
    options = dict(rows=1100, dim=64, values=RANDOM)
    assert "BYTE_STREAM_SPLIT" in encodings(check(tmp_path / "a", encoding=AUTO, **options))
    plain = encodings(check(tmp_path / "d", encoding=DICTIONARY, **options))
    assert "PLAIN" in plain and "RLE_DICTIONARY" not in plain


def test_auto_takes_the_smaller(tmp_path):
    for values in (BFLOAT16, CONSTANT):
        sizes = {}
        for encoding in (AUTO, DICTIONARY, SPLIT):
            metadata = check(tmp_path / "f", rows=3000, dim=64, values=values, encoding=encoding)
            sizes[encoding] = metadata.row_group(0).column(3).total_compressed_size
        assert sizes[AUTO] == min(sizes.values())


def test_integer_encodings(tmp_path):
    """Few values: dictionary; ascending: differences; random over a wide range: neither."""
    metadata = check(tmp_path / "f", rows=5000, nulls=2)
    assert "RLE_DICTIONARY" in encodings(metadata, "sliding_window")
    assert "DELTA_BINARY_PACKED" in encodings(metadata, "bucket") or \
        "RLE_DICTIONARY" in encodings(metadata, "bucket")
    assert "RLE_DICTIONARY" in encodings(metadata, "token_str")


def test_delta_with_wide_steps(tmp_path):
    """Positions jump by up to 2 million either way: still smaller than 32 bits a value."""
    metadata = check(tmp_path / "f", rows=70001, dim=1, group=70001, page=100000, strings=0)
    assert "DELTA_BINARY_PACKED" in encodings(metadata, "position")


def test_differences_that_overflow(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    polars = pytest.importorskip("polars")
    for rows in (2, 129, 1000):
        path = tmp_path / f"{rows}.parquet"
        metadata = check(path, rows=rows, wide=1)
        want = expected(rows=rows, wide=1)
        if rows > 2:
            assert "DELTA_BINARY_PACKED" in encodings(metadata, "example_id")
            assert "DELTA_BINARY_PACKED" in encodings(metadata, "position")
        for column in ("example_id", "position"):
            read = duckdb.sql(f"select {column} from read_parquet('{path}')").fetchall()
            assert [r[0] for r in read] == want[column].tolist()
            assert polars.read_parquet(path)[column].to_list() == want[column].tolist()


def test_schema_and_creator(tmp_path):
    metadata = check(tmp_path / "f", rows=3)
    assert metadata.created_by == f"qkscope version {VERSION}"
    schema = metadata.schema
    assert [schema.column(i).path for i in range(len(schema))] == [
        "bucket", "example_id", "position", "vector.list.element", "sliding_window", "token_str"]
    assert [schema.column(i).max_definition_level for i in range(6)] == [1, 1, 1, 3, 1, 1]
    assert schema.column(3).max_repetition_level == 1
    assert str(schema.to_arrow_schema().field("vector").type) == "list<element: float>"
    assert str(schema.to_arrow_schema().field("token_str").type) == "string"
    assert metadata.metadata is None


def test_bytes_do_not_depend_on_the_cut(tmp_path):
    options = dict(rows=3000, dim=16, group=700, page=5000, nulls=1)
    files = [write(tmp_path / str(cut), cut=cut, **options).read_bytes()
             for cut in (1, 3, 699, 700, 701, 5000)]
    assert all(f == files[0] for f in files)


def test_checksums_are_optional(tmp_path):
    with_crc = write(tmp_path / "1", rows=50, checksum=1).stat().st_size
    without = write(tmp_path / "0", rows=50, checksum=0).stat().st_size
    assert without < with_crc


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("rows", [0, 1, 1500])
def test_other_readers(tmp_path, rows, codec, version):
    duckdb = pytest.importorskip("duckdb")
    polars = pytest.importorskip("polars")
    for encoding in (PLAIN, DICTIONARY, SPLIT):
        options = dict(rows=rows, dim=12, codec=codec, version=version, encoding=encoding,
                       group=1000, page=3000, nulls=1)
        path = write(tmp_path / f"{encoding}.parquet", **options)
        want = expected(**options)
        result = duckdb.sql(f"select * from read_parquet('{path}')").arrow()
        result = result.read_all() if hasattr(result, "read_all") else result
        check_table(result, want, 12)
        frame = polars.read_parquet(path)
        assert frame["position"].to_list() == want["position"].tolist()
        assert frame["sliding_window"].to_list() == want["sliding_window"]
        assert frame["token_str"].to_list() == want["token_str"]
        flat = np.array(frame["vector"].explode().to_list() if rows else [], dtype=np.float32)
        assert np.array_equal(flat.view(np.uint32), want["vector"].ravel())
