# SPDX-License-Identifier: Apache-2.0
"""Files of DuoAttention: a number for each key head, and how many keys a head sees that does without far ones."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .._run import warn
from .._settings import wrong
from ._ablation import is_ablation, read_ablation
from ._duo_ablation import scores_by_loss
from ._duo_attention import keeps_attention, scores_by_attention
from ._duo_means import scores_by_means
from ._files import CONFIG, config, number
from ._request import Made, Request

ABOUT = "how much key heads need far keys, for DuoAttention; of an ablation, a capture with attention, or one before RoPE"
SCORES = "full_attention_heads.tsv"
FILES = (SCORES, CONFIG)
KEYWORDS = ("model", "sink", "recent", "length", "from_")
SOURCES = ("ablation", "attention", "means")
RECENT = 256


def _scores(request: Request) -> tuple[Any, dict[str, Any]]:
    """By the best that there is, unless the request says by which."""
    if request.from_ not in (None, *SOURCES):
        raise wrong("from_", request.from_, "expected ablation, attention or means")
    folder = Path(os.fsdecode(request.source))
    folder = folder / "ablation" if is_ablation(folder / "ablation") else folder  # that of a folder of results
    if request.from_ == "ablation" or (request.from_ is None and is_ablation(folder)):
        ablation, change = read_ablation(folder), f"window:{request.recent or RECENT}:{request.sink}"
        return scores_by_loss(ablation, change), ablation.origin(change)
    if request.from_ == "attention" or (request.from_ is None and keeps_attention(request)):
        return scores_by_attention(request)
    return scores_by_means(request)


def make(request: Request) -> Made:
    scores, made_from = _scores(request)
    if 1 in scores.shape:
        warn(f"{scores.shape[0]} by {scores.shape[1]} numbers: load_attn_pattern of DuoAttention returns a list of them, not a table")
    lines = ["\t".join(number(value) for value in row) + "\n" for row in scores]
    told = {"sink_size": request.sink, "recent_size": request.recent or RECENT, "qkscope": made_from}
    return Made({SCORES: ["".join(lines).encode()], CONFIG: config(told)}, scores.size, says=f"by {made_from['from']}")
