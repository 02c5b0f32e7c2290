# SPDX-License-Identifier: Apache-2.0
"""ExpectedAttentionStats of kvpress: mean and covariance of queries before RoPE."""
from __future__ import annotations

from .._arrays import need_numpy
from .._call import DataError
from .._settings import wrong
from ._files import CONFIG, TENSORS, config, float32, tensors
from ._heads import Heads
from ._request import Made, Request

ABOUT = "mean and covariance of queries, for kvpress's ExpectedAttentionStatsPress; of a capture before RoPE"
FILES = (TENSORS, CONFIG)
KEYWORDS = ("dataset",)
SINK = 4  # kvpress leaves so many out of each text, whose vectors are unlike all others


def make(request: Request) -> Made:
    numpy = need_numpy()
    first = request.of_capture["from-position"]
    if first is not None and first < SINK:
        raise wrong("from_position", first, f"kvpress leaves out the first {SINK} positions of a text: give {SINK} or more")
    heads = Heads(request, "pre", "q", groups=False, first=SINK)
    shape = heads.layers * heads.count["q"], heads.dim
    mean, cov = numpy.empty(shape, "<f4"), numpy.empty((*shape, heads.dim), "<f4")
    for place, name, count, of, squares in heads.each("q"):
        if count < 2:
            raise DataError(f"{name}: a covariance needs 2 rows, and there is {count}")
        mean[place], cov[place] = float32(of, name), float32(squares / (count - 1), name)
    layers = (heads.layers, heads.count["q"])
    told = {"num_layers": heads.layers, "num_heads": heads.count["q"], "head_dim": heads.dim,
            "dataset_name": request.dataset, "model_name": heads.model, "num_samples": heads.texts,
            "sample_seq_len": heads.length, "n_sink": heads.first}
    arrays = {"query_mean": mean.reshape(*layers, -1), "query_cov": cov.reshape(*layers, heads.dim, -1)}
    return Made({TENSORS: tensors(arrays, heads.origin()), CONFIG: config(told)}, shape[0])
