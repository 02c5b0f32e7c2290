# SPDX-License-Identifier: Apache-2.0
"""The folder of an ablation: what its manifest.json tells, and its tables, which have to be as they were written."""
from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

from .. import tables
from .._call import DataError, call, lib
from .._checks import path_of
from .._settings import StrPath
from ._files import origin


def is_ablation(source: StrPath) -> bool:
    """By its manifest.json."""
    try:
        told = json.loads((Path(os.fsdecode(source)) / "manifest.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(told, dict) and told.get("kind") == "ablation"


class Ablation(NamedTuple):
    folder: Path
    layers: int
    queries: int  # heads of a layer
    keys: int
    told: dict[str, Any]  # manifest.json

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """Of a table: the values of these columns."""
        table = tables.read_csv(self.folder / name)
        return list(zip(*(table.column(column) for column in columns), strict=True))

    def origin(self, change: str) -> dict[str, Any]:
        """What a file that is made of it says of where its numbers come from."""
        return origin(**{"from": "ablation"}, change=change, **{name: self.told.get(name, "") for name in (
            "model", "texts", "texts_xxh3_128", "tokens", "level", "run")})


def read_ablation(source: StrPath) -> Ablation:
    folder = Path(os.fsdecode(source))
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
