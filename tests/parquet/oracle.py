# SPDX-License-Identifier: Apache-2.0
"""What the reader should find in a file, worked out from pyarrow's arrays, row by row."""
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq

from conftest import BUILD

LISTS_OF_LISTS = "lists of lists are not supported"


class Column:
    """What was read: the lines of rows, and an error or None."""

    def __init__(self, path):
        self.path, self.rows, self.error = path, [], None


def read_columns(path, **options):
    """Every column of a file, by a program with the library in it; an error of the file is a CalledProcessError."""
    out = subprocess.run([BUILD / "tests/parquet/read_columns", path], check=True, capture_output=True, text=True, **options).stdout
    columns = []
    for line in out.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "column":
            columns.append(Column(rest))
        elif kind == "error":
            columns[-1].error = rest
        elif line != "end":
            columns[-1].rows.append(line)
    return columns


def texts(array, column):
    """Values of a leaf array as the reader has them: integers, reals, bytes; None for null. NotImplemented: it has no such
    numbers."""
    kind, physical = array.type, column.physical_type
    if pa.types.is_null(kind):
        return [None] * len(array)
    if pa.types.is_decimal(kind):
        numbers = [None if v is None else int(v.scaleb(kind.scale)) for v in array.to_pylist()]
        if physical == "BYTE_ARRAY":
            return [None if v is None else v.to_bytes(v.bit_length() // 8 + 1, "big", signed=True) for v in numbers]
        return NotImplemented if physical == "FIXED_LEN_BYTE_ARRAY" else numbers
    if physical == "BYTE_ARRAY":
        return (array if pa.types.is_binary(kind) else array.cast(pa.large_binary())).to_pylist()
    if pa.types.is_float16(kind) or physical in ("FLOAT", "DOUBLE"):
        return [None if v is None else float(v) for v in array.to_pylist()]
    if physical == "FIXED_LEN_BYTE_ARRAY":
        return NotImplemented
    if pa.types.is_temporal(kind):
        array = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    half = 2 ** (31 if physical == "INT32" else 63)
    return [None if v is None else (int(v) + half) % (2 * half) - half for v in array.to_pylist()]


def leaves(array, columns):
    """Of every leaf under an array its values row by row, None where it or what is above it is null; lists as lists."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_struct(kind):
        for child in array.flatten():
            yield from leaves(child, columns)
    elif pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        valid = array.is_valid().to_pylist()
        if pa.types.is_fixed_size_list(kind):
            borders = [(array.offset + i) * kind.list_size for i in range(len(array) + 1)]
        else:
            borders = array.offsets.to_pylist()
        for inner in [array.keys, array.items] if pa.types.is_map(kind) else [array.values]:
            for values in leaves(inner, columns):
                yield values if values is NotImplemented else [values[a:b] if v else None
                                                               for v, a, b in zip(valid, borders, borders[1:])]
    else:
        yield texts(array, next(columns))


def same_number(text, value):
    return float.fromhex(text) == value or (value != value and text.lstrip("-").startswith("nan"))


def check_vectors(read, values):
    """Rows of numbers, up to the first that is null, empty or has a null in it, which is refused."""
    bad = next((i for i, row in enumerate(values) if not isinstance(row, list) or not row or None in row), len(values))
    assert len(read.rows) == bad
    for i, (line, row) in enumerate(zip(read.rows, values)):
        numbers = line.split()
        assert len(numbers) == len(row) and all(map(same_number, numbers, row)), f"row {i}"
    assert (read.error is None) == (bad == len(values)), read.error
    assert read.error is None or f"row {bad} is empty, null or holds a null" in read.error


def check_rows(read, values):
    wanted = ["-" if v is None else "x" + v.hex() if isinstance(v, bytes) else str(v) for v in values]
    assert read.error is None and read.rows == wanted


def check_leaf(read, values, column):
    lists = column.max_repetition_level
    real = column.physical_type in ("FLOAT", "DOUBLE") or str(column.logical_type) == "Float16"
    numeric = real or (column.physical_type in ("INT32", "INT64") and str(column.logical_type) != "Null")
    if values is NotImplemented or (lists and not numeric):
        assert read.error and not read.rows
    elif lists > 1:
        assert LISTS_OF_LISTS in read.error
    elif lists or real:
        check_vectors(read, values if lists else [v if v is None else [v] for v in values])
    else:
        check_rows(read, values)


def combined(file, name):
    column = file.read(columns=[name]).column(0).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def compare_file(path, expected_failures=None):
    """Compares every leaf column; expected_failures maps leaf paths to a text that the error must contain."""
    failures = dict(expected_failures or {})
    file, read = pq.ParquetFile(path), read_columns(path)
    columns = [file.schema.column(i) for i in range(len(file.schema))]
    assert [r.path for r in read] == [c.path for c in columns]
    for field in file.schema_arrow:
        here = [i for i, c in enumerate(columns) if c.path.split(".")[0] == field.name]
        for i in here:
            if columns[i].path in failures:
                assert failures.pop(columns[i].path) in read[i].error and columns[i].path in read[i].error
                here = []
        if here:
            values = list(leaves(combined(file, field.name), iter(columns[i] for i in here)))
            assert len(values) == len(here), field.name
            for i, of_leaf in zip(here, values):
                try:
                    check_leaf(read[i], of_leaf, columns[i])
                except AssertionError as error:
                    raise AssertionError(f"{path}: {columns[i].path}: {error}") from error
    assert not failures, failures
