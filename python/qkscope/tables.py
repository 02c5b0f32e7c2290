# SPDX-License-Identifier: Apache-2.0
"""Tables of results: their columns as NumPy arrays, and all of them for pandas, polars, pyarrow and DuckDB."""
from __future__ import annotations

import collections
import csv
import html
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ._call import call, damaged, ffi, files_of, lib, text
from ._checks import words

_PARTS = ("unit", "range", "symbol", "label", "about", "read", "method", "option")
_SHOWN = 10  # rows in a notebook


class Column(NamedTuple):
    """What a column is. `type` is "text", "integer" or "real"; the others are None where there is nothing to say."""

    name: str
    type: str
    unit: str | None = None
    range: str | None = None
    symbol: str | None = None
    label: str | None = None
    about: str | None = None
    read: str | None = None
    method: str | None = None
    option: str | None = None

    def __repr__(self) -> str:
        kind = ", ".join(part for part in (self.type, self.unit, self.range) if part)
        return f"<Column {self.name}: {kind}{f'; {self.about}' if self.about else ''}>"


def _column(info: Any) -> Column:
    return Column(text(info.name), text(lib.qk_column_type_name(info.type)),
                  *(text(getattr(info, part)) for part in _PARTS))


# ---- a table ------------------------------------------------------------------------------

class Table:
    """One table of results, such as `results.heads`.

    `table["r_q"]` is a column: a NumPy array that views the library's memory, without a copy and read-only, for
    numbers; a list of str for texts. In an array of reals NaN stands for a field that the CSV leaves empty, in
    one of integers 0. `table.column("r_q")` is a list in which None does, and needs no NumPy. `len(table)` is the
    number of rows; iterating gives them one by one, as named tuples.

    Where pyarrow is installed, pandas, polars and DuckDB take a table as it is, with nulls where fields are empty:

        table.to_pandas()              # or pandas.DataFrame.from_arrow(table)
        polars.DataFrame(table)
        pyarrow.table(table)
        duckdb.sql("select layer, count(*) from heads group by layer")  # with heads = results.heads
    """

    def __init__(self, columns: Any, name: str) -> None:
        self._columns = columns
        self.name = name
        infos: list[Column] = []
        while (info := lib.qk_columns_info(columns, len(infos))) != ffi.NULL:
            infos.append(_column(info))
        self.schema: dict[str, Column] = {column.name: column for column in infos}
        """What each column is: type, unit, range, a sentence, how to read it."""

    @classmethod
    def make(cls, name: str, schema: Sequence[Column], values: Mapping[str, Sequence[Any]]) -> Table:
        """A table of one's own: for each column of `schema`, a sequence of values, None where there is none."""
        return _make(name, schema, values)

    @property
    def names(self) -> list[str]:
        """The columns, in the order of the CSV file."""
        return list(self.schema)

    def __len__(self) -> int:
        return int(lib.qk_columns_num_rows(self._columns))

    def __contains__(self, name: object) -> bool:
        return name in self.schema

    def _find(self, name: str) -> Column:
        try:
            return self.schema[name]
        except (KeyError, TypeError):
            others = [table for table in known() if table != self.name and name in schema_of(table)]
            where = f", but {' and '.join(others)} may; this" if others else "; it"
            raise KeyError(f"{self.name} has no column {name!r}{where} has {', '.join(self.schema)}") from None

    def _pointer(self, column: Column) -> Any:
        get = {"real": lib.qk_columns_reals, "integer": lib.qk_columns_integers,
               "text": lib.qk_columns_texts}[column.type]
        return get(self._columns, column.name.encode())

    def __getitem__(self, name: str) -> Any:
        column = self._find(name)
        if column.type == "text":
            return self.column(name)
        import numpy
        kind = numpy.float64 if column.type == "real" else numpy.int64
        if len(self) == 0:
            return numpy.empty(0, kind)
        held = self._columns  # as long as the array is there
        pointer = ffi.gc(self._pointer(column), lambda _: held)
        array = numpy.frombuffer(ffi.buffer(pointer, 8 * len(self)), kind)
        array.flags.writeable = False
        return array

    def column(self, name: str) -> list[Any]:
        """The values of a column as Python's own, None where the CSV's field is empty (but for texts)."""
        column = self._find(name)
        pointer = self._pointer(column)
        if column.type == "text":
            return [text(pointer[i]) for i in range(len(self))]
        values: list[Any] = ffi.unpack(pointer, len(self)) if len(self) else []
        if column.type == "real":
            return [None if math.isnan(value) else value for value in values]
        empty = lib.qk_columns_empty(self._columns, column.name.encode())
        return values if empty == ffi.NULL else [None if empty[i] else value for i, value in enumerate(values)]

    def __iter__(self) -> Iterator[Any]:
        named: Any = collections.namedtuple
        return map(named("Row", self.names, rename=True)._make, zip(*(self.column(name) for name in self.names)))

    # ---- for others ---------------------------------------------------------------------

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Arrow's PyCapsule interface, by pyarrow. Numbers are not copied."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self.to_arrow().schema.__arrow_c_schema__()

    def to_arrow(self) -> Any:
        """A pyarrow.Table; units and sentences are in the metadata of its fields."""
        import pyarrow
        types = {"real": pyarrow.float64(), "integer": pyarrow.int64(), "text": pyarrow.string()}
        arrays, fields = [], []
        for column in self.schema.values():
            values, kind = self.column(column.name), types[column.type]
            if column.type == "text" or not values:
                arrays.append(pyarrow.array(values, kind))
            else:
                there = pyarrow.array([value is not None for value in values], pyarrow.bool_()).buffers()[1]
                address = int(ffi.cast("uintptr_t", self._pointer(column)))
                numbers = pyarrow.foreign_buffer(address, 8 * len(self), self._columns)  # which keeps the columns
                arrays.append(pyarrow.Array.from_buffers(kind, len(self), [there, numbers]))
            about = {part: value for part, value in column._asdict().items() if part in _PARTS and value is not None}
            fields.append(pyarrow.field(column.name, kind, metadata=about))
        return pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))

    def to_polars(self) -> Any:
        """A polars.DataFrame."""
        import polars
        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """A pandas.DataFrame, by pyarrow where that is installed."""
        import pandas
        try:
            return self.to_arrow().to_pandas()
        except ImportError:
            return pandas.DataFrame({name: self.column(name) for name in self.names}, columns=self.names)

    def __repr__(self) -> str:
        return f"<Table {self.name}: {len(self)} rows, {len(self.names)} columns>"

    def _repr_html_(self) -> str:
        columns = [self.column(name)[:_SHOWN] for name in self.names]
        sides = [f"style='text-align:{'left' if c.type == 'text' else 'right'}'" for c in self.schema.values()]
        head = "".join(f'<th {side} title="{html.escape(c.about or "")}">{html.escape(c.name)}</th>'
                       for side, c in zip(sides, self.schema.values()))
        rows = "".join(f"<tr>{''.join(f'<td {side}>{_shown(value)}</td>' for side, value in zip(sides, row))}</tr>"
                       for row in zip(*columns))
        more = f", of which the first {_SHOWN}" if len(self) > _SHOWN else ""
        return (f"<div style='overflow-x:auto'><table><caption>{html.escape(self.name)}: {len(self)} rows{more}"
                f"</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>")

    def __reduce__(self) -> Any:
        return _make, (self.name, list(self.schema.values()), {name: self.column(name) for name in self.names})


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return html.escape(f"{value:.6g}" if isinstance(value, float) else str(value))


# ---- tables of one's own ------------------------------------------------------------------

_TYPES = {"text": lib.QK_COLUMN_TEXT, "integer": lib.QK_COLUMN_INTEGER, "real": lib.QK_COLUMN_REAL}


def _values(column: Column, values: Sequence[Any], keep: list[Any]) -> Any:
    if column.type == "real":
        return ffi.new("double[]", [math.nan if value is None else value for value in values] or 1)
    if column.type == "integer":
        return ffi.new("int64_t[]", [-(2**63) if value is None else value for value in values] or 1)
    texts = [ffi.NULL if value is None else ffi.new("char[]", words(value, column.name).encode()) for value in values]
    keep += texts
    return ffi.new("char *[]", texts or 1)


def _make(name: str, schema: Sequence[Column], values: Mapping[str, Sequence[Any]]) -> Table:
    keep: list[Any] = []

    def owned(part: str | None) -> Any:
        keep.append(ffi.NULL if part is None else ffi.new("char[]", part.encode()))
        return keep[-1]

    rows = {len(values[column.name]) for column in schema}
    if len(rows) > 1:
        raise ValueError(f"{name}: columns of {' and '.join(map(str, sorted(rows)))} rows")
    infos = ffi.new("qk_column_info[]", max(len(schema), 1))
    for info, column in zip(infos, schema):
        info.name, info.type = owned(column.name), _TYPES[column.type]
        for part in _PARTS:
            setattr(info, part, owned(getattr(column, part) or ("" if part == "about" else None)))
    arrays = [_values(column, values[column.name], keep) for column in schema]
    made = ffi.new("qk_columns **")
    call(lib.qk_columns_make, made, infos, len(schema), rows.pop() if rows else 0,
         ffi.new("void *[]", [ffi.cast("void *", array) for array in arrays] or 1))
    return of_columns(made[0], name)


def of_columns(columns: Any, name: str) -> Table:
    """A table that the library made, which now owns it."""
    return Table(ffi.gc(columns, lambda one: lib.qk_columns_free(ffi.new("qk_columns **", one))), name)


def of_run(results: Any, name: str, handle: Any) -> Table:
    """A table of a run in memory, which `handle` owns: it has to be there as long as this takes."""
    made = ffi.new("qk_columns **")
    call(lib.qk_results_table, results, name.encode(), made)
    return of_columns(made[0], name)


def known() -> list[str]:
    """The tables that this version writes."""
    names: list[str] = []
    while (info := lib.qk_schema_table(len(names))) != ffi.NULL:
        names.append(text(info.name))
    return names


def schema_of(name: str) -> dict[str, Column]:
    """The columns that this version writes into a table, by name; none for a table that it does not know."""
    info = lib.qk_schema_find(name.encode())
    found: list[Column] = []
    while info != ffi.NULL and (column := lib.qk_table_column(info, len(found))) != ffi.NULL:
        found.append(_column(column))
    return {column.name: column for column in found}


_READ: dict[str, Callable[[str], Any]] = {"text": str, "integer": lambda field: int(field) if field else None,
         "real": lambda field: float(field) if field else None}


def read_csv(path: str | os.PathLike[str]) -> Table:
    """A table that the command wrote, with the types of its columns. DataError: it is none."""
    name = os.path.basename(path)
    with files_of(path, "run the analysis again"):
        try:
            with open(path, encoding="utf-8", newline="") as file:
                header, *rows = csv.reader(file)
            known = schema_of(name)
            schema = [known.get(column, Column(column, "text")) for column in header]
            fields = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
            values = {column.name: list(map(_READ[column.type], of))
                      for column, of in zip(schema, fields, strict=True)}
        except (ValueError, csv.Error) as error:
            raise damaged(path, error) from None
    return _make(name, schema, values)
