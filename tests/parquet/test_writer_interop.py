# SPDX-License-Identifier: Apache-2.0
"""Files that the Parquet writer makes for heads of a capture, read back by pyarrow, DuckDB and Polars."""
import itertools

import numpy as np
import pytest

from conftest import VERSION

pq = pytest.importorskip("pyarrow.parquet")
qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
from qkscope._call import call, ffi, lib  # noqa: E402

BFLOAT16, RANDOM, CONSTANT = range(3)
COUNTER = itertools.count()


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


def write(folder, columns, group=0):
    """The file of a head with these rows."""
    capture, head, folder = ffi.new("qk_capture_writer **"), ffi.new("qk_head_writer **"), folder / str(next(COUNTER))
    block, keep = ffi.new("qk_block *"), []
    block.rows, block.dim = columns["vector"].shape
    for name, member in (("bucket", "bucket"), ("example_id", "example"), ("position", "position"), ("sliding_window", "window")):
        keep.append(np.array([v or 0 for v in columns[name]], np.int64))
        setattr(block, member, ffi.cast("int64_t *", keep[-1].ctypes.data))
    keep.append(np.ascontiguousarray(columns["vector"]).view(np.float32))
    block.f32 = ffi.cast("float *", keep[-1].ctypes.data)
    keep += [ffi.new("char[]", text.encode()) for text in columns["token_str"]]
    strings = ffi.new("char *[]", keep[len(keep) - block.rows:])
    call(lib.qk_capture_writer_open, capture, str(folder).encode(), ffi.NULL)
    call(lib.qk_head_writer_open, head, capture[0], (0, 0, lib.QK_QUERY), block.dim, True, group)
    call(lib.qk_head_writer_add, head[0], block, strings)
    call(lib.qk_head_writer_finish, head)
    call(lib.qk_capture_writer_finish, capture)
    return folder / "l00h00q" / "data.parquet"


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


def check(folder, want, group=0):
    """Reads a file back with pyarrow and compares everything."""
    file = pq.ParquetFile(write(folder, want, group), page_checksum_verification=True)
    check_table(file.read(), want)
    check_ranges(file.metadata, want)
    return file.metadata


def encodings(metadata, path="vector.list.element"):
    group = metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    return set(columns[path].encodings)


@pytest.mark.parametrize("nulls", [0, 1, 2])
def test_rows_around_borders(tmp_path, nulls):
    """Row groups of 64 rows."""
    for rows in (0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256):
        metadata = check(tmp_path, rows_of(rows, nulls=nulls, seed=rows), group=64)
        assert metadata.num_rows == rows and metadata.num_row_groups == (rows + 63) // 64


@pytest.mark.parametrize("values", [BFLOAT16, RANDOM])
def test_pages(tmp_path, values):
    """Pages of 1 MiB of vectors: 1,024 of these; the last page full, with one vector, and all but full."""
    for rows in (1023, 1024, 1025, 5000):
        check(tmp_path, rows_of(rows, 256, values=values, nulls=1))


@pytest.mark.parametrize("values", [BFLOAT16, RANDOM, CONSTANT])
def test_widths(tmp_path, values):
    for dim in (1, 2, 3, 7, 8, 9, 64, 80, 129):
        check(tmp_path, rows_of(301, dim, values=values))


def test_vectors_take_the_smaller_encoding(tmp_path):
    """70,000 random floats are no dictionary, which a few thousand distinct ones are."""
    few = check(tmp_path, rows_of(3000, 64))
    assert "RLE_DICTIONARY" in encodings(few)
    assert encodings(few) & {"BYTE_STREAM_SPLIT"} == set()
    assert few.row_group(0).column(3).total_compressed_size < 3000 * 64 * 2
    many = encodings(check(tmp_path, rows_of(1100, 64, values=RANDOM)))
    assert "BYTE_STREAM_SPLIT" in many and "RLE_DICTIONARY" not in many


def test_integer_encodings(tmp_path):
    """Few values: dictionary; ascending, or with wide steps: differences, also of those that overflow."""
    metadata = check(tmp_path, rows_of(5000, nulls=2))
    assert "RLE_DICTIONARY" in encodings(metadata, "sliding_window") & encodings(metadata, "token_str")
    assert encodings(metadata, "bucket") & {"DELTA_BINARY_PACKED", "RLE_DICTIONARY"}
    metadata = check(tmp_path, rows_of(70001, 1), group=70001)
    assert "DELTA_BINARY_PACKED" in encodings(metadata, "position")
    for rows in (2, 129, 1000):
        metadata = check(tmp_path, rows_of(rows, wide=True))
        assert rows == 2 or "DELTA_BINARY_PACKED" in encodings(metadata, "example_id") & encodings(metadata, "position")


def test_schema_and_creator(tmp_path):
    metadata = check(tmp_path, rows_of(50))
    assert metadata.created_by == f"qkscope version {VERSION}"
    schema = metadata.schema
    assert [schema.column(i).path for i in range(len(schema))] == [
        "bucket", "example_id", "position", "vector.list.element", "sliding_window", "token_str"]
    assert [schema.column(i).max_definition_level for i in range(6)] == [1, 1, 1, 3, 1, 1]
    assert schema.column(3).max_repetition_level == 1
    assert str(schema.to_arrow_schema().field("vector").type) == "list<element: float>"
    assert str(schema.to_arrow_schema().field("token_str").type) == "string"
    assert metadata.metadata is None


@pytest.mark.test_all
@pytest.mark.parametrize("options", [{"rows": 0}, {"rows": 1}, {"rows": 1500, "nulls": 1}, {"rows": 129, "wide": True},
                                     {"rows": 1500, "values": RANDOM}])
def test_other_readers(tmp_path, options):
    duckdb = pytest.importorskip("duckdb")
    polars = pytest.importorskip("polars")
    want = rows_of(dim=12, **options)
    path = write(tmp_path, want, group=1000)
    result = duckdb.sql(f"select * from read_parquet('{path}')").arrow()
    check_table(result.read_all() if hasattr(result, "read_all") else result, want)
    frame = polars.read_parquet(path)
    for column in ("example_id", "position", "sliding_window", "token_str"):
        assert frame[column].to_list() == list(want[column])
    flat = np.array(frame["vector"].explode().to_list() if options["rows"] else [], dtype=np.float32)
    bits, nan = want["vector"].ravel(), np.isnan(want["vector"].ravel().view(np.float32))
    assert np.array_equal(flat.view(np.uint32)[~nan], bits[~nan]) and np.isnan(flat[nan]).all()  # a list has one NaN
