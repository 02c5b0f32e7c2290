# SPDX-License-Identifier: Apache-2.0
"""Files of DuoAttention: a number for each key head, and how many keys a head sees that does without far ones."""
from __future__ import annotations

from ._duo_ablation import is_ablation, scores_by_loss
from ._duo_means import scores_by_means
from ._files import CONFIG, config, number
from ._request import Made, Request

SCORES = "full_attention_heads.tsv"
FILES = (SCORES, CONFIG)
KEYWORDS = ("model", "sink", "recent", "length")


def make(request: Request) -> Made:
    scores = scores_by_loss(request) if is_ablation(request.source) else scores_by_means(request)
    lines = ["\t".join(number(value) for value in row) + "\n" for row in scores]
    told = {"sink_size": request.sink, "recent_size": request.recent}
    return Made({SCORES: ["".join(lines).encode()], CONFIG: config(told)}, scores.size)
