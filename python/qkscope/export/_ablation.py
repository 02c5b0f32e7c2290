# SPDX-License-Identifier: Apache-2.0
"""The folder of an ablation: what its manifest.json tells, and its tables, which have to be as they were written."""
from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .. import tables
from .._call import DataError, call, ffi, lib
from .._checks import path_of
from .._run import warn
from .._settings import StrPath
from ._files import origin


def _is_unfinished(folder: Path) -> bool:
    return not (folder / "manifest.json").exists() and any(folder.glob(".units/ablate-*"))


def is_ablation(source: StrPath) -> bool:
    """By its manifest.json, or what an ablation that was stopped has left."""
    if _is_unfinished(Path(os.fsdecode(source))):
        return True
    try:
        told = json.loads((Path(os.fsdecode(source)) / "manifest.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(told, dict) and told.get("kind") == "ablation"


REACH = ("changed", "changed_texts", "changed_delta_hi")  # how much of the texts a change reached


def reach_of(values: Iterable[Any]) -> dict[str, Any]:
    """Those of REACH that a row has."""
    return {name: value for name, value in zip(REACH, values, strict=True) if value is not None}


def most_of(loss: dict[str, Any]) -> float:
    """What a token that changed may cost at most, which an earlier version did not tell apart by texts."""
    return float(loss.get("changed_delta_hi", loss["delta_hi"] / (loss.get("changed", 1) or 1)))


def is_harmless(loss: dict[str, Any], tolerance: float) -> bool:
    """As `qkscope ablate` judges. Without REACH, every token counts as changed."""
    effect = ffi.new("qk_ablation_effect *", {"changed": loss.get("changed", 1), "changed_delta_hi": most_of(loss),
                                              "changed_texts": loss.get("changed_texts", lib.QK_CHANGED_TEXTS)})
    return bool(lib.qk_ablation_judge(effect, tolerance) == lib.QK_VERDICT_HARMLESS)


def warn_of_reach(losses: Iterable[dict[str, Any]], change: str) -> None:
    """Where a change reached little of the texts by any head."""
    losses = list(losses)
    share, texts = (max((loss.get(name, most) for loss in losses), default=most)
                    for name, most in zip(REACH, (1, lib.QK_CHANGED_TEXTS), strict=False))
    if share < 0.5 or texts < lib.QK_CHANGED_TEXTS:
        warn(f"{change} changed {100 * share:.3g} % of the predictions, in {texts} {'text' if texts == 1 else 'texts'}: give qkscope "
             "ablate more and longer texts, which may lose more")


class Ablation(NamedTuple):
    folder: Path
    layers: int
    queries: int  # heads of a layer
    keys: int
    told: dict[str, Any]  # manifest.json

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """Of a table: the values of these columns, and of REACH, None where an earlier version wrote it, NaN where a field is empty."""
        table = tables.read_csv(self.folder / name)
        of_columns = [table.column(column) if column in table else [None] * len(table) for column in columns]
        reach = [[math.nan if value is None else value for value in table.column(name)] if name in table else [None] * len(table)
                 for name in REACH]
        return list(zip(*of_columns, *reach, strict=True))

    def origin(self, change: str) -> dict[str, Any]:
        """What a file that is made of it says of where its numbers come from."""
        return origin(**{"from": "ablation"}, change=change, **{name: self.told.get(name, "") for name in (
            "model", "texts", "texts_xxh3_128", "tokens", "level", "run")})


def read_ablation(source: StrPath) -> Ablation:
    folder = Path(os.fsdecode(source))
    if _is_unfinished(folder):
        raise DataError(f"{folder}: is an ablation that was stopped: run the same qkscope ablate again, which goes on")
    call(lib.qk_results_check, path_of(folder, "results"))
    place = folder / "manifest.json"
    told = json.loads(place.read_bytes())
    names = ("num_layers", "num_q_heads", "num_k_heads")
    for name in names:
        if not isinstance(told.get(name), int) or not 1 <= told[name] <= 65535:
            raise DataError(f"{place}: no {name}: run qkscope ablate again")
    layers, queries, keys = (told[name] for name in names)
    if queries % keys:
        raise DataError(f"{place}: {queries} query heads are no groups of {keys} key heads")
    return Ablation(folder, layers, queries, keys, told)


def is_number(value: Any) -> bool:
    """Whether a field of a table has one."""
    return value is not None and math.isfinite(value)
