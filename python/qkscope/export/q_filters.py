# SPDX-License-Identifier: Apache-2.0
"""Q-Filters: for each key head, where its query heads point after RoPE."""
from __future__ import annotations

from typing import Any

from .._arrays import need_numpy
from .._call import DataError
from .._run import warn
from ._files import CONFIG, TENSORS, config, float32, tensors
from ._heads import Heads
from ._request import Made, Request

ABOUT = "where the queries of each key head point, for kvpress's QFilters; of a capture after RoPE"
FILES = (TENSORS, CONFIG)
KEYWORDS = ()
STAGE = "post"
SURE = 0.5  # standard deviations: of normally distributed rows 69 % then have the sign of their mean
_TOLD = 12


def _axis(count: int, mean: Any, squares: Any) -> tuple[Any, float]:
    """The first eigenvector of sum x x^T, not about the mean, with the sign of the mean; and the mean along it, over the
    standard deviation."""
    numpy = need_numpy()
    values, vectors = numpy.linalg.eigh(squares + count * numpy.outer(mean, mean))
    axis, along = vectors[:, -1], float(vectors[:, -1] @ mean)
    if not values[-1] > 0:
        raise DataError("all queries are 0")
    spread = max(float(values[-1]) / count - along**2, 0.0) ** 0.5
    return (-axis if along < 0 else axis), abs(along) / spread if spread > 0 else (float("inf") if along else float("nan"))


def _warn_unsure(unsure: list[str], of: int) -> None:
    if unsure:
        warn(f"{len(unsure)} of {of} query heads point one way about as often as the other (their mean is below {SURE} "
             f"standard deviations), so the sign of their filter is not sure: {', '.join(unsure[:_TOLD])}"
             f"{', ...' * (len(unsure) > _TOLD)}")


def make(request: Request) -> Made:
    numpy = need_numpy()
    heads = Heads(request, "post", "q", groups=True)
    axes, unsure = numpy.empty((heads.layers * heads.count["q"], heads.dim)), []
    for place, name, count, mean, squares in heads.each("q"):
        try:
            axes[place], sureness = _axis(count, mean, squares)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        if sureness < SURE:
            unsure.append(name)
    # kvpress keeps keys of which -filter.key is large
    filters = float32(-axes.reshape(-1, heads.group, heads.dim).mean(1), "the filters")
    _warn_unsure(unsure, len(axes))
    told = {"num_layers": heads.layers, "num_kv_heads": heads.count["k"], "kv_head_dim": heads.dim}
    arrays = {"q_filters": filters.reshape(heads.layers, heads.count["k"], -1)}
    return Made({TENSORS: tensors(arrays, heads.origin()), CONFIG: config(told)}, len(filters), len(unsure))
