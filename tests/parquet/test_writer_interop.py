# SPDX-License-Identifier: Apache-2.0
"""Files that the Parquet writer makes, read back by pyarrow, DuckDB and Polars."""
import numpy as np
import pytest

from conftest import VERSION

pq = pytest.importorskip("pyarrow.parquet")
qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
from qkscope._call import call, ffi, lib  # noqa: E402

CODECS = {0: "UNCOMPRESSED", 1: "SNAPPY", 2: "GZIP", 4: "BROTLI", 6: "ZSTD", 7: "LZ4"}
AUTO, PLAIN, DICTIONARY, SPLIT = range(4)
BFLOAT16, RANDOM, CONSTANT = range(3)
FIELDS = [("bucket", lib.QK_FIELD_INT32), ("example_id", lib.QK_FIELD_INT64), ("position", lib.QK_FIELD_INT32),
          ("vector", lib.QK_FIELD_VECTOR), ("sliding_window", lib.QK_FIELD_INT32), ("token_str", lib.QK_FIELD_STRING)]


def rows_of(rows=100, dim=8, seed=0, values=BFLOAT16, nulls=0, wide=False):
    """Columns by name, with vectors as bit patterns. values: 16 bits each, all bits random, or constant; nulls:
    sliding_window all null, every third row set, none null; wide: integers whose differences overflow."""
    random, row = np.random.default_rng(seed), np.arange(rows)
    bits = random.integers(0, 2**32, (rows, dim), dtype=np.uint32)
    if values == BFLOAT16:
        bits = (bits & 0x87FF) << 16 | 0x3C000000
    elif values == CONSTANT:
        bits[:] = 0x3F800000
    window = [4096 if nulls == 2 or (nulls == 1 and i % 3 == 0) else None for i in range(rows)]
    columns = {"bucket": row // 10, "example_id": row // 100 - 3, "position": random.integers(-10**6, 10**6 + 1, rows),
               "vector": bits.astype(np.uint32), "sliding_window": window,
               "token_str": [f"tok\u00e9{i % 1000}" if i % 7 else "" for i in range(rows)]}
    if wide:
        columns["example_id"] = (row.astype(np.uint64) * np.uint64(0x7FFFFFFFFFFFFFF1)).view(np.int64)
        columns["position"] = (row * 0x7FFFFFF1 % 2**32).astype(np.uint32).view(np.int32).astype(np.int64)
    return columns


def write(path, columns, codec=6, level=0, group=65536, page=1 << 20, version=1, encoding=AUTO, checksum=True):
    dim, keep = columns["vector"].shape[1], []
    settings = ffi.new("qk_parquet_writer_settings *", [codec, level, group, page, version, checksum, encoding])
    names = [ffi.new("char[]", name.encode()) for name, _ in FIELDS]
    fields = ffi.new("qk_parquet_field[]", [(name, kind, dim) for name, (_, kind) in zip(names, FIELDS)])
    values = ffi.new("qk_parquet_values[]", len(FIELDS))
    for value, (name, kind) in zip(values, FIELDS):
        column = columns[name]
        if kind == lib.QK_FIELD_VECTOR:
            keep.append(np.ascontiguousarray(column).view(np.float32))
            value.f32 = ffi.cast("float *", keep[-1].ctypes.data)
        elif kind == lib.QK_FIELD_STRING:
            keep += [ffi.new("char[]", text.encode()) for text in column]
            keep.append(ffi.new("char *[]", keep[-len(column):] if column else []))
            value.strings = ffi.cast("char **", keep[-1])
        else:
            keep.append(np.array([0 if v is None else v for v in column], np.int64))
            value.i64 = ffi.cast("int64_t *", keep[-1].ctypes.data)
            keep.append(np.array([v is not None for v in column], np.uint8))
            value.valid = ffi.cast("uint8_t *", keep[-1].ctypes.data)
    writer = ffi.new("qk_parquet_writer **")
    call(lib.qk_parquet_writer_open, writer, str(path).encode(), fields, len(FIELDS), settings)
    call(lib.qk_parquet_writer_add, writer[0], values, len(columns["vector"]))
    call(lib.qk_parquet_writer_finish, writer)
    return path


def check_table(table, want):
    assert table.column_names == list(want)
    for name in ("bucket", "example_id", "position"):
        assert np.array_equal(table[name].to_numpy(), want[name]), name
    vector, dim = table["vector"].combine_chunks(), want["vector"].shape[1]
    assert vector.null_count == 0
    assert np.array_equal(np.asarray(vector.value_lengths()), np.full(len(table), dim))
    assert np.array_equal(vector.flatten().to_numpy().view(np.uint32).reshape(-1, dim), want["vector"])
    for name in ("sliding_window", "token_str"):
        assert table[name].to_pylist() == want[name]


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


def check(path, want, **settings):
    """Reads a file back with pyarrow and compares everything."""
    file = pq.ParquetFile(write(path, want, **settings), page_checksum_verification=settings.get("checksum", True))
    check_table(file.read(), want)
    check_ranges(file.metadata, want)
    return file.metadata


def encodings(metadata, path="vector.list.element"):
    group = metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    return set(columns[path].encodings)


@pytest.mark.cases(6)
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_version_and_encoding(tmp_path, codec):
    want = rows_of(1777, 20, nulls=1)
    for version in (1, 2):
        for encoding, name in enumerate((None, "PLAIN", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT")):
            metadata = check(tmp_path / "f", want, codec=codec, version=version, encoding=encoding, group=1000, page=4096)
            assert metadata.row_group(0).column(3).compression == CODECS[codec]
            assert [metadata.row_group(i).num_rows for i in range(2)] == [1000, 777]
            assert name is None or name in encodings(metadata)
    for level in {2: (1, 9), 4: (1, 11), 6: (1, 19), 7: (9,)}.get(codec, ()):
        check(tmp_path / "f", rows_of(500), codec=codec, level=level)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("nulls", [0, 1, 2])
def test_rows_around_borders(tmp_path, nulls, version):
    """Pages of 16 vectors, row groups of 64 rows."""
    for rows in (0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256):
        metadata = check(tmp_path / "f", rows_of(rows, nulls=nulls, seed=rows), group=64, page=512, version=version)
        assert metadata.num_rows == rows and metadata.num_row_groups == (rows + 63) // 64


@pytest.mark.parametrize("values", [BFLOAT16, RANDOM, CONSTANT])
def test_widths(tmp_path, values):
    for dim in (1, 2, 3, 7, 8, 9, 64, 80, 129):
        for encoding in (AUTO, DICTIONARY):
            check(tmp_path / "f", rows_of(301, dim, values=values), page=3000, encoding=encoding)


def test_too_many_values_for_a_dictionary(tmp_path):
    """70,000 random floats: AUTO splits bytes, DICTIONARY falls back to PLAIN."""
    want = rows_of(1100, 64, values=RANDOM)
    assert "BYTE_STREAM_SPLIT" in encodings(check(tmp_path / "a", want, encoding=AUTO))
    plain = encodings(check(tmp_path / "d", want, encoding=DICTIONARY))
    assert "PLAIN" in plain and "RLE_DICTIONARY" not in plain


@pytest.mark.parametrize("values", [BFLOAT16, CONSTANT])
def test_auto_takes_the_smaller(tmp_path, values):
    want = rows_of(3000, 64, values=values)
    sizes = [check(tmp_path / "f", want, encoding=encoding).row_group(0).column(3).total_compressed_size
             for encoding in (AUTO, DICTIONARY, SPLIT)]
    assert sizes[0] == min(sizes)


def test_integer_encodings(tmp_path):
    """Few values: dictionary; ascending, or with wide steps: differences, also of those that overflow."""
    metadata = check(tmp_path / "f", rows_of(5000, nulls=2))
    assert "RLE_DICTIONARY" in encodings(metadata, "sliding_window") & encodings(metadata, "token_str")
    assert encodings(metadata, "bucket") & {"DELTA_BINARY_PACKED", "RLE_DICTIONARY"}
    metadata = check(tmp_path / "f", rows_of(70001, 1), group=70001, page=100000)
    assert "DELTA_BINARY_PACKED" in encodings(metadata, "position")
    for rows in (2, 129, 1000):
        metadata = check(tmp_path / "f", rows_of(rows, wide=True))
        assert rows == 2 or "DELTA_BINARY_PACKED" in encodings(metadata, "example_id") & encodings(metadata, "position")


def test_schema_and_creator(tmp_path):
    metadata = check(tmp_path / "f", rows_of(50))
    assert metadata.created_by == f"qkscope version {VERSION}"
    schema = metadata.schema
    assert [schema.column(i).path for i in range(len(schema))] == [
        "bucket", "example_id", "position", "vector.list.element", "sliding_window", "token_str"]
    assert [schema.column(i).max_definition_level for i in range(6)] == [1, 1, 1, 3, 1, 1]
    assert schema.column(3).max_repetition_level == 1
    assert str(schema.to_arrow_schema().field("vector").type) == "list<element: float>"
    assert str(schema.to_arrow_schema().field("token_str").type) == "string"
    assert metadata.metadata is None
    size = (tmp_path / "f").stat().st_size
    check(tmp_path / "f", rows_of(50), checksum=False)
    assert (tmp_path / "f").stat().st_size < size


@pytest.mark.test_all
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("options", [{"rows": 0}, {"rows": 1}, {"rows": 1500, "nulls": 1}, {"rows": 129, "wide": True}])
def test_other_readers(tmp_path, options, codec):
    duckdb = pytest.importorskip("duckdb")
    polars = pytest.importorskip("polars")
    want = rows_of(dim=12, **options)
    for version in (1, 2):
        for encoding in (PLAIN, DICTIONARY, SPLIT):
            path = write(tmp_path / f"{version}-{encoding}.parquet", want, codec=codec, version=version, encoding=encoding,
                         group=1000, page=3000)
            result = duckdb.sql(f"select * from read_parquet('{path}')").arrow()
            check_table(result.read_all() if hasattr(result, "read_all") else result, want)
            frame = polars.read_parquet(path)
            for column in ("example_id", "position", "sliding_window", "token_str"):
                assert frame[column].to_list() == list(want[column])
            flat = np.array(frame["vector"].explode().to_list() if options["rows"] else [], dtype=np.float32)
            assert np.array_equal(flat.view(np.uint32), want["vector"].ravel())
