# SPDX-License-Identifier: Apache-2.0
"""DuoAttention's score from where heads were seen to attend."""
from __future__ import annotations

from typing import Any

from .._arrays import need_numpy
from .._call import NotFoundError
from ..analyses import attention
from ..captures import Capture
from ._heads import capture_origin, read_told
from ._request import Request

_OPTIONS = ("revision", "offline", "split")


def _capture(request: Request) -> Capture:
    return Capture(request.source, **{name: request.of_capture[name] for name in _OPTIONS if request.of_capture.get(name)})


def keeps_attention(request: Request) -> bool:
    return _capture(request).info.has_attention


def scores_by_attention(request: Request) -> tuple[Any, dict[str, Any]]:
    """[layers, key heads], and what they were made from: the share of attention at distances of 64 tokens and more, the first four
    keys left out. A key head gets the largest of its query heads, any of which may need far keys."""
    numpy, capture = need_numpy(), _capture(request)
    with attention(capture, progress=request.progress, threads=request.of_capture.get("threads"),
                   q_per_kv_group=request.of_capture.get("q-per-kv-group")) as results:
        table = results.attention
        layer, query, keys = table["layer"], table["q_head"], int(table["k_head"].max()) + 1
        found = numpy.full((max(capture.info.num_layers, int(layer.max()) + 1), int(query.max()) + 1), numpy.nan)
        found[layer, query] = table["far_mass"]
        made_from = capture_origin(read_told(capture.path), **{"from": "attention"}, number="far_mass", model=capture.info.model,
                                   texts=int(table["texts"].max()), tokens=int(table["rows"].max()))
    missing = numpy.argwhere(numpy.isnan(found))
    if len(missing) or found.shape[1] % keys:
        where = f"layer {missing[0][0]}, head {missing[0][1]}" if len(missing) else "a key head"
        raise NotFoundError(f"{capture.path}: no far_mass of {where}: all heads of all layers are needed, of texts of 9 tokens and more")
    return found.reshape(len(found), keys, -1).max(2), made_from
