# SPDX-License-Identifier: Apache-2.0
"""Two results side by side: checkpoints, texts, sizes of one family."""
from __future__ import annotations

from ._call import DataError
from ._run import warn
from ._settings import StrPath
from .results import Results
from .tables import Column, Table

# What a row is of, where a table has it.
_KEYS = ("layer", "q_head", "k_head", "head", "kind", "pc", "pca_dim", "pair", "component", "q_bucket", "k_bucket", "distance_bin",
         "lag_bin", "bin", "length", "text_group")


def side_by_side(a: Results | StrPath, b: Results | StrPath, table: str = "heads") -> Table:
    """One table of two results side by side, such as two checkpoints or two texts.

    a and b are Results, or folders that hold some. Rows are those of the heads (and components, ...) of either;
    numbers become NAME_a, NAME_b and NAME_diff, which is b - a; texts NAME_a and NAME_b. Where both have an interval of
    a number (NAME_lo, NAME_hi, from ci=95), NAME_diff_lo and NAME_diff_hi are one of the difference at the same
    confidence, by the method of Zou and Donner, which holds where the texts of a and b are not the same; where they
    are, it is wider than need be. `compare` says more: pairs texts, tests, and sums up.

        qkscope.side_by_side(first, second)["category_b"]
        qkscope.side_by_side(first, second, "rotated").to_pandas()

    Raises KeyError where one of them has no such table, and ValueError for one whose rows are not of heads.
    """
    sides = [side if isinstance(side, Results) else Results.read(side) for side in (a, b)]
    pair = sides[0][table], sides[1][table]
    levels = sorted({level for side in sides if (level := side.confidence(table)) is not None})
    if len(levels) > 1:
        warn(f"{pair[0].name}: with intervals of {levels[0]:g} % and of {levels[1]:g} % there are none of differences; "
             "give both the same ci")
    return _joined(f"{table.removesuffix('.csv')}_compared.csv", sides[0], sides[1], pair, with_intervals=len(levels) < 2)


def _joined(name: str, a: Results, b: Results, pair: tuple[Table, Table], with_intervals: bool) -> Table:
    of, other = pair[0].schema, pair[1].schema
    both = [column for column in of.values() if column.name in other and other[column.name].type == column.type]
    keys = [key for key in _KEYS if any(column.name == key and column.type != "real" for column in both)]
    if keys[:1] != ["layer"]:
        raise DataError(f"{pair[0].name}: has no rows of heads that could be compared")
    schema, values = [of[key] for key in keys], list(keys)

    def add(column: Column, end: str, about: str, value: str) -> None:
        schema.append(column._replace(name=column.name + end, about=about, label=None))
        values.append(value)

    for column in (column for column in both if column.name not in (*keys, "model")):
        x = column.name
        add(column, "_a", f"of a: {column.about}", f'a."{x}"')
        add(column, "_b", f"of b: {column.about}", f'b."{x}"')
        if column.type != "text" and not (x[-3:] in ("_lo", "_hi", "_cv") and x[:-3] in of):
            add(column._replace(type="real", range=None), "_diff", f"b - a: {column.about}", f'b."{x}" - a."{x}"')
    for column in (column for column in both if with_intervals and {column.name + "_lo", column.name + "_hi"} <= {c.name for c in both}):
        x = column.name
        y = f"{x}_cv" if f"{x}_cv" in of and f"{x}_cv" in other else x  # what the interval is about
        for end, near, far, sign in (("lower", "b", "a", "-"), ("upper", "a", "b", "+")):
            add(column._replace(range=None), "_diff" + ("_lo" if sign == "-" else "_hi"), f"{end} end of the interval of {x}_diff",
                f'b."{y}" - a."{y}" {sign} sqrt(({near}."{y}" - {near}."{x}_lo") * ({near}."{y}" - {near}."{x}_lo")'
                f' + ({far}."{x}_hi" - {far}."{y}") * ({far}."{x}_hi" - {far}."{y}"))')
    table = pair[0].name.removesuffix(".csv")
    for side in "ab":
        if len(a.sql(f"SELECT DISTINCT model FROM {side}.{table}", b)) > 1:
            raise DataError(f"{pair[0].name}: has several rows of one head, as tables of several models have; compare those of one model")
    found = a.sql(f"SELECT {', '.join(f'{value} AS c{i}' for i, value in enumerate(values))} FROM a.{table} AS a "
                  f"FULL JOIN b.{table} AS b USING ({', '.join(keys)}) ORDER BY {', '.join(keys)}", b)
    columns = {column.name: found.column(f"c{i}") for i, column in enumerate(schema)}
    whole = {column.name for column in schema if column.type == "integer"}
    return Table.make(name, schema, {x: [None if v is None else int(v) for v in column] if x in whole else column
                                     for x, column in columns.items()})
