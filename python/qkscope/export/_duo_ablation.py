# SPDX-License-Identifier: Apache-2.0
"""DuoAttention's score from what a model loses where a head sees the first and the latest keys alone."""
from __future__ import annotations

import math
from typing import Any

from .._arrays import need_numpy
from .._call import DataError, NotFoundError
from ._ablation import Ablation, is_number, reach_of, warn_of_reach


def _losses(ablation: Ablation, change: str) -> Any:
    """[layers, query heads]; every head has to have a row."""
    numpy = need_numpy()
    place, found = ablation.folder / "ablation.csv", numpy.full((ablation.layers, ablation.queries), math.nan)
    reached = []
    for layer, head, what, delta, *reach in ablation.rows("ablation.csv", "layer", "q_head", "what", "delta"):
        if what != change:
            continue
        if not (0 <= layer < ablation.layers and 0 <= head < ablation.queries):
            raise DataError(f"{place}: layer {layer}, head {head}: the model has {ablation.layers} layers of {ablation.queries} "
                            "query heads")
        if not is_number(delta) or not math.isnan(found[layer, head]):
            why = "the head has an earlier row" if is_number(delta) else "no number"
            raise DataError(f"{place}: layer {layer}, head {head}: column 'delta': {why}")
        found[layer, head] = delta
        reached.append(reach_of(reach))
    missing = numpy.argwhere(numpy.isnan(found))
    if len(missing):
        raise NotFoundError(f"{place}: {found.size - len(missing)} of {found.size} heads have a row of {change}, and layer "
                            f"{missing[0][0]}, head {missing[0][1]} has none: run qkscope ablate over all heads with --what "
                            f"{change}")
    warn_of_reach(reached, change)
    return found


def scores_by_loss(ablation: Ablation, change: str) -> Any:
    """[layers, key heads]. A key head's keys are kept if one of its query heads needs them, so the largest loss of these
    counts. Over the largest of all: 0 is no loss, and heads keep their ratios."""
    best = _losses(ablation, change).reshape(ablation.layers, ablation.keys, -1).max(2).clip(0)
    if not best.max() > 0:
        raise DataError(f"{ablation.folder / 'ablation.csv'}: no head loses anything by {change}: the texts may be no longer "
                        "than what it leaves")
    return best / best.max()
