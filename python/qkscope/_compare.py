# SPDX-License-Identifier: Apache-2.0
"""Two results side by side: checkpoints, texts, sizes of one family."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ._run import warn
from ._settings import StrPath
from .results import Results
from .tables import Column, Table

# What a row is of, where a table has it.
_IDENTITY = ("layer", "q_head", "k_head", "head", "kind", "pc", "pca_dim", "pair", "component", "q_bucket", "k_bucket",
             "distance_bin", "lag_bin", "bin")


def compare(a: Results | StrPath, b: Results | StrPath, table: str = "heads") -> Table:
    """One table of two results side by side, such as two checkpoints or two texts.

    a and b are Results, or folders that hold some. Rows are those of the heads (and components, ...) of either;
    numbers become NAME_a, NAME_b and NAME_diff, which is b - a; texts NAME_a and NAME_b. Where both have an interval of
    a number (NAME_lo, NAME_hi, from ci=95), NAME_diff_lo and NAME_diff_hi are one of the difference at the same
    confidence, by the method of Zou and Donner, which holds where the texts of a and b are not the same; where they
    are, it is wider than need be.

        qkscope.compare(first, second)["category_b"]
        qkscope.compare(first, second, "rotated").to_pandas()

    Raises KeyError where one of them has no such table, and ValueError for one whose rows are not of heads.
    """
    sides = [side if isinstance(side, Results) else Results.read(side) for side in (a, b)]
    pair = sides[0][table], sides[1][table]
    levels = sorted({level for side in sides if (level := side.confidence(table)) is not None})
    if len(levels) > 1:
        warn(f"{pair[0].name}: with intervals of {levels[0]:g} % and of {levels[1]:g} % there are none of differences; "
             "give both the same ci")
    return _joined(f"{table.removesuffix('.csv')}_compared.csv", *pair, with_intervals=len(levels) < 2)


def _rows(table: Table, keys: Sequence[str]) -> dict[tuple[Any, ...], int]:
    """Which row has these keys."""
    found = {row: i for i, row in enumerate(zip(*(table.column(key) for key in keys)))}
    if len(found) < len(table):
        raise ValueError(f"{table.name}: has several rows of one head, as tables of several models have; compare those "
                         "of one model")
    return found


def _joined(name: str, a: Table, b: Table, with_intervals: bool) -> Table:
    keys = [key for key in _IDENTITY if key in a and key in b]
    if "layer" not in keys:
        raise ValueError(f"{a.name}: has no rows of heads that could be compared")
    places = _rows(a, keys), _rows(b, keys)
    rows = sorted({**places[0], **places[1]})
    schema = [a.schema[key] for key in keys]
    values: dict[str, list[Any]] = {key: [row[i] for row in rows] for i, key in enumerate(keys)}

    def add(column: Column, end: str, about: str, of: list[Any]) -> None:
        schema.append(column._replace(name=column.name + end, about=about, label=None))
        values[column.name + end] = of

    for column in a.schema.values():
        if column.name in (*keys, "model") or column.name not in b or b.schema[column.name].type != column.type:
            continue
        both = [[of[at[row]] if row in at else None for row in rows]
                for at, of in zip(places, (t.column(column.name) for t in (a, b)))]
        add(column, "_a", f"of a: {column.about}", both[0])
        add(column, "_b", f"of b: {column.about}", both[1])
        if column.type != "text" and not _is_bound(column.name, a):
            add(column._replace(type="real", range=None), "_diff", f"b - a: {column.about}",
                [None if x is None or y is None else float(y - x) for x, y in zip(*both)])
    if with_intervals:
        for column in [c for c in schema if c.name.endswith("_diff")]:
            _add_interval(column, values, add)
    return Table.make(name, schema, values)


def _is_bound(name: str, table: Table) -> bool:
    return name[-3:] in ("_lo", "_hi") and name[:-3] in table


def _add_interval(column: Column, values: dict[str, list[Any]], add: Any) -> None:
    name = column.name.removesuffix("_diff")
    parts = [values.get(f"{name}{bound}{side}") for side in ("_a", "_b") for bound in ("", "_lo", "_hi")]
    if None in parts:
        return
    lows: list[Any] = []
    highs: list[Any] = []
    for row in zip(*parts):
        if None in row:
            lows.append(None)
            highs.append(None)
            continue
        a, a_lo, a_hi, b, b_lo, b_hi = row
        lows.append(b - a - math.hypot(b - b_lo, a_hi - a))
        highs.append(b - a + math.hypot(b_hi - b, a - a_lo))
    add(column, "_lo", f"lower end of the interval of {column.name}", lows)
    add(column, "_hi", f"upper end of the interval of {column.name}", highs)
