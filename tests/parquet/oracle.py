# SPDX-License-Identifier: Apache-2.0
"""What the reader should find in a file, worked out from pyarrow's nested arrays.

pyarrow gives whole values, the reader (definition, repetition, value) per slot: the arrays are shredded here, one step of
the schema at a time, independently of any level decoder."""
import contextlib
import os
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("qkscope", reason="the Python package is not in this build")
from qkscope._call import Error, call, ffi, lib  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT / os.environ.get("QKSCOPE_SHARED", "../shared")
TOGETHER = 1000  # slots; not a power of two, to cross page borders at odd places
# Of each physical type: how it is stored, and its text.
TYPES = {lib.QK_PARQUET_BOOLEAN: ("uint8_t", str), lib.QK_PARQUET_INT32: ("int32_t", str), lib.QK_PARQUET_INT64: ("int64_t", str),
         lib.QK_PARQUET_FLOAT: ("uint32_t", "{:08x}".format), lib.QK_PARQUET_DOUBLE: ("uint64_t", "{:016x}".format)}
BYTES = ("qk_parquet_bytes", lambda b: "x" + bytes(ffi.buffer(b.data, b.size)).hex() if b.size else "x")


@contextlib.contextmanager
def opened(path):
    file = ffi.new("qk_parquet **")
    call(lib.qk_parquet_open, file, os.fsencode(path))
    yield file[0]
    lib.qk_parquet_close(file)


def read_paths(path):
    """Leaf paths, in order."""
    with opened(path) as file:
        return [ffi.string(lib.qk_parquet_column_at(file, i).path).decode()
                for i in range(lib.qk_parquet_num_columns(file))]


def read_slots(path, column):
    """Each slot of a column: definition, repetition, and the text of a value: floating-point numbers as their bits, byte
    strings as their bytes, "-" where there is none."""
    slots, cursor = [], ffi.new("qk_parquet_cursor **")
    definition, repetition = ffi.new("uint8_t[]", TOGETHER), ffi.new("uint8_t[]", TOGETHER)
    num, count = ffi.new("size_t *"), ffi.new("size_t *")
    with opened(path) as file:
        info = lib.qk_parquet_column_at(file, column)
        name, text = TYPES.get(info.type, BYTES)
        values, top = ffi.new(f"{name}[]", TOGETHER), info.max_definition
        call(lib.qk_parquet_cursor_open, cursor, file, column)
        try:
            num[0] = 1
            while num[0] > 0:
                call(lib.qk_parquet_read_slots, cursor[0], TOGETHER, definition, repetition, values, num, count)
                texts = map(text, values[0:count[0]])
                slots += [(d, r, next(texts) if d == top else "-")
                          for d, r in zip(definition[0:num[0]], repetition[0:num[0]])]
        finally:
            lib.qk_parquet_cursor_close(cursor)
    return slots


class Slots:
    """Slots of a partly shredded column: levels, and the place in the array reached (-1 where
    an ancestor is null or empty)."""

    def __init__(self, definition, repetition, place):
        self.definition, self.repetition, self.place = definition, repetition, place

    def through_nullable(self, array):
        live = self.place >= 0
        valid = np.zeros(len(live), bool)
        if len(array) > 0:
            valid[live] = np.asarray(array.is_valid())[self.place[live]]
        return Slots(self.definition + valid, self.repetition, np.where(valid, self.place, -1))

    def through_list(self, starts, ends, level):
        definition, repetition, place = [], [], []
        for d, r, p in zip(self.definition, self.repetition, self.place):
            if p < 0 or starts[p] == ends[p]:
                definition.append(d), repetition.append(r), place.append(-1)
                continue
            for i in range(starts[p], ends[p]):
                definition.append(d + 1), place.append(i)
                repetition.append(r if i == starts[p] else level)
        return Slots(*(np.array(x, np.int64) for x in (definition, repetition, place)))


def list_bounds(array):
    if pa.types.is_fixed_size_list(array.type):
        starts = np.arange(len(array), dtype=np.int64) * array.type.list_size
        return starts, starts + array.type.list_size
    offsets = np.asarray(array.offsets).astype(np.int64)
    return offsets[:-1], offsets[1:]


def shred(array, field, slots, level=0):
    """Yields (leaf array, leaf field, slots) for every leaf under a field."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if field.nullable:
        slots = slots.through_nullable(array)
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from shred(array.field(i), kind.field(i), slots, level)
    elif pa.types.is_map(kind):
        starts, ends = list_bounds(array)
        inner = slots.through_list(starts, ends, level + 1)
        yield from shred(array.keys, kind.key_field, inner, level + 1)
        yield from shred(array.items, kind.item_field, inner, level + 1)
    elif (pa.types.is_list(kind) or pa.types.is_large_list(kind)
          or pa.types.is_fixed_size_list(kind)):
        starts, ends = list_bounds(array)
        inner = slots.through_list(starts, ends, level + 1)
        yield from shred(array.values, kind.value_field, inner, level + 1)
    else:
        yield array, field, slots


def value_text(array, column):
    """Texts of all places of a leaf array, as read_slots has them."""
    kind, physical = array.type, column.physical_type
    if pa.types.is_null(kind):
        return ["-"] * len(array)
    if pa.types.is_decimal(kind):
        raw = [None if v is None else int(v.scaleb(kind.scale)) for v in array.to_pylist()]
        if physical in ("INT32", "INT64"):
            return [str(v) for v in raw]
        if physical == "FIXED_LEN_BYTE_ARRAY":
            return [None if v is None else
                    "x" + v.to_bytes(column.length, "big", signed=True).hex() for v in raw]
        return raw  # of any length: compared as numbers
    if physical in ("FLOAT", "DOUBLE"):
        bits = pa.uint32() if physical == "FLOAT" else pa.uint64()
        width = 8 if physical == "FLOAT" else 16
        return [None if v is None else f"{v:0{width}x}" for v in array.view(bits).to_pylist()]
    if pa.types.is_float16(kind):
        return [None if v is None else "x" + v.to_bytes(2, "little").hex()
                for v in array.view(pa.uint16()).to_pylist()]
    if physical in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            array = array.cast(pa.large_binary())
        return [None if v is None else "x" + v.hex() for v in array.to_pylist()]
    if pa.types.is_boolean(kind):
        return [None if v is None else str(int(v)) for v in array.to_pylist()]
    if pa.types.is_temporal(kind):
        array = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    bits = 32 if physical == "INT32" else 64
    return [None if v is None else str((v + 2 ** (bits - 1)) % 2 ** bits - 2 ** (bits - 1))
            for v in array.to_pylist()]


def expected_leaves(file, top):
    """Slots of every leaf under top-level field number `top` of a pq.ParquetFile."""
    field = file.schema_arrow.field(top)
    table = file.read(columns=[field.name])
    column = table.column(0).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = (pa.concat_arrays(column.chunks) if column.num_chunks
                  else pa.array([], field.type))
    rows = np.arange(len(column), dtype=np.int64)
    start = Slots(np.zeros_like(rows), np.zeros_like(rows), rows)
    return list(shred(column, field, start))


def check_leaf(array, slots, column, read):
    """Compares the slots of one leaf; names the first slot that differs."""
    texts = value_text(array, column)
    top = column.max_definition_level
    assert len(read) == len(slots.place), "number of slots"
    for i, (definition, repetition, value) in enumerate(read):
        place = slots.place[i]
        expect = "-" if place < 0 else texts[place]
        if isinstance(expect, int):
            value = int.from_bytes(bytes.fromhex(value[1:]), "big", signed=True)
        want = (slots.definition[i], slots.repetition[i], expect)
        assert (definition, repetition, value) == want, f"slot {i}"
        assert (slots.definition[i] == top) == (place >= 0)


def compare_file(path, expected_failures=None):
    """Compares every leaf column; expected_failures maps leaf paths to a text that the error
    must contain."""
    failures = dict(expected_failures or {})
    file = pq.ParquetFile(path)
    columns = [file.schema.column(i) for i in range(len(file.schema))]
    assert read_paths(path) == [c.path for c in columns]
    leaf = 0
    for top in range(len(file.schema_arrow)):
        name = file.schema_arrow.field(top).name
        count = 0
        while leaf + count < len(columns) and columns[leaf + count].path.split(".")[0] == name:
            count += 1
        wanted = [c for c in columns[leaf:leaf + count] if c.path not in failures]
        leaves = expected_leaves(file, top) if wanted else [None] * count
        assert len(leaves) == count, name
        for i in range(count):
            column = columns[leaf + i]
            if column.path in failures:
                try:
                    read_slots(path, leaf + i)
                except Error as error:
                    assert failures.pop(column.path) in str(error)
                    assert column.path in str(error)
                    continue
                raise AssertionError(f"{column.path} was read")
            array, _, slots = leaves[i]
            try:
                check_leaf(array, slots, column, read_slots(path, leaf + i))
            except AssertionError as error:
                raise AssertionError(f"{path}: {column.path}: {error}") from error
        leaf += count
    assert leaf == len(columns)
    assert not failures, failures
