# SPDX-License-Identifier: Apache-2.0
"""DuoAttention's score from what a model loses where a head sees the first and the latest keys alone."""
from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from .. import tables
from .._arrays import need_numpy
from .._call import DataError, NotFoundError, call, lib
from .._checks import path_of
from .._settings import StrPath
from ._request import Request


def is_ablation(source: StrPath) -> bool:
    """Whether it is the folder of an ablation, by its manifest.json."""
    try:
        told = json.loads((Path(os.fsdecode(source)) / "manifest.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(told, dict) and told.get("kind") == "ablation"


def _shape(place: Path) -> tuple[int, int, int]:
    """Layers, query heads, key heads of a layer, of a manifest.json."""
    told = json.loads(place.read_bytes())
    names = ("num_layers", "num_q_heads", "num_k_heads")
    for name in names:
        if not isinstance(told.get(name), int) or not 1 <= told[name] <= 65535:
            raise DataError(f"{place}: no {name}: run qkscope ablate again")
    layers, queries, keys = (told[name] for name in names)
    if queries % keys:
        raise DataError(f"{place}: {queries} query heads are no groups of {keys} key heads")
    return layers, queries, keys


def _losses(place: Path, change: str, layers: int, queries: int) -> Any:
    """[layers, query heads]; every head has to have a row."""
    numpy = need_numpy()
    found = numpy.full((layers, queries), math.nan)
    table = tables.read_csv(place)
    for layer, head, what, delta in zip(*(table.column(name) for name in ("layer", "q_head", "what", "delta")), strict=True):
        if what != change:
            continue
        if not (0 <= layer < layers and 0 <= head < queries):
            raise DataError(f"{place}: layer {layer}, head {head}: the model has {layers} layers of {queries} query heads")
        if delta is None or not math.isfinite(delta) or not math.isnan(found[layer, head]):
            why = "no number" if delta is None or not math.isfinite(delta) else "the head has an earlier row"
            raise DataError(f"{place}: layer {layer}, head {head}: column 'delta': {why}")
        found[layer, head] = delta
    missing = numpy.argwhere(numpy.isnan(found))
    if len(missing):
        raise NotFoundError(f"{place}: {found.size - len(missing)} of {found.size} heads have a row of {change}, and layer "
                            f"{missing[0][0]}, head {missing[0][1]} has none: run qkscope ablate over all heads with --what "
                            f"{change}")
    return found


def scores_by_loss(request: Request) -> Any:
    """[layers, key heads]. A key head's keys are kept if one of its query heads needs them, so the largest loss of these
    counts. Over the largest of all: 0 is no loss, and heads keep their ratios."""
    folder = Path(os.fsdecode(request.source))
    call(lib.qk_results_check, path_of(folder, "results"))
    layers, queries, keys = _shape(folder / "manifest.json")
    change = f"window:{request.recent}:{request.sink}"
    losses = _losses(folder / "ablation.csv", change, layers, queries)
    best = losses.reshape(layers, keys, -1).max(2).clip(0)
    if not best.max() > 0:
        raise DataError(f"{folder / 'ablation.csv'}: no head loses anything by {change}: the texts may be no longer "
                        "than what it leaves")
    return best / best.max()
