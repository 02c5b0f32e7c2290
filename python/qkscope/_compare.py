# SPDX-License-Identifier: Apache-2.0
"""Two results side by side: checkpoints, texts, sizes of one family."""
from __future__ import annotations

from . import tables
from ._call import call, ffi, lib
from ._run import warn
from ._settings import StrPath
from .results import Results
from .tables import Table


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
    return _joined(f"{table.removesuffix('.csv')}_compared.csv", *pair, with_intervals=len(levels) < 2)


def _joined(name: str, a: Table, b: Table, with_intervals: bool) -> Table:
    made = ffi.new("qk_columns **")
    call(lib.qk_compare_columns, a._columns, b._columns, a.name.encode(), with_intervals, made)
    return tables.of_columns(made[0], name)
