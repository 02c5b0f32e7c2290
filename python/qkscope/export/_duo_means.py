# SPDX-License-Identifier: Apache-2.0
"""DuoAttention's score as kvpress has it "on the fly": a text whose queries all are the mean query, whose keys the mean key;
where the attention of its last row lies."""
from __future__ import annotations

from typing import Any

from .._arrays import need_numpy
from ._heads import Heads
from ._request import Request
from ._rotary import pairs, rope_of


def _area(scores: Any) -> Any:
    """By distance, of each head. The mean of the cumulated weights of the last row: a key at distance t counts in t + 1
    sums."""
    numpy = need_numpy()
    length = scores.shape[-1]
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return weights @ numpy.arange(1.0, length + 1) / weights.sum(-1) / length


def scores_by_means(request: Request) -> tuple[Any, dict[str, Any]]:
    """[layers, key heads]: the means over the query heads of a key head; and what they were made from."""
    numpy = need_numpy()
    heads = Heads(request, "pre", "qk", groups=True)
    queries, keys = heads.means("q"), heads.means("k")
    distances, scores = numpy.arange(request.length), numpy.empty((heads.layers, heads.count["q"]))
    for layer, rotation in enumerate(rope_of(request, heads, factor=True).layers):
        apart = pairs(queries[layer], rotation) * pairs(keys[layer], rotation).conj().repeat(heads.group, 0)
        angles = numpy.outer(numpy.array(rotation.frequencies), distances)
        # of a query that is so many tokens behind a key; what does not turn is the same for all keys
        scores[layer] = _area(rotation.scale * rotation.factor**2 * (apart.real @ numpy.cos(angles) - apart.imag @ numpy.sin(angles)))
    return scores.reshape(heads.layers, heads.count["k"], heads.group).mean(2), {"from": "means", **heads.origin()}
