# SPDX-License-Identifier: Apache-2.0
"""What runs say that leave no tables: losses of texts, files for other programs."""
from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._call import ffi, text


@dataclass(frozen=True)
class TextLoss:
    """Of a text, or a window of a long one, which is run as a text of its own."""

    source: str  # "file", or "file:line"
    window: int
    tokens: int  # that have a loss: all but the first
    loss: float | None  # None: a text of one token


@dataclass(frozen=True)
class PositionLoss:
    """Of tokens at positions first to last of their texts: 1-1, 2-3, 4-7, ..."""

    first: int
    last: int
    tokens: int
    loss: float


@dataclass(frozen=True)
class Losses:
    """What `qkscope loss` says of a model and texts. Losses are means over tokens, in nats."""

    model: str
    tokens: int
    loss: float
    perplexity: float  # exp(loss)
    positions: tuple[PositionLoss, ...]
    texts: tuple[TextLoss, ...]  # in their order
    truncated: int  # texts that were cut
    skipped: int  # texts that were passed over
    empty: int  # texts without tokens
    seconds: float

    @classmethod
    def of(cls, losses: Any) -> Losses:
        """Of a qk_losses."""
        texts = (losses.texts[i] for i in range(losses.num_texts))
        positions = (losses.positions[i] for i in range(losses.num_positions))
        return cls(model=text(losses.model) or "", truncated=losses.cut,
                   **{name: getattr(losses, name) for name in
                      ("tokens", "loss", "perplexity", "skipped", "empty", "seconds")},
                   positions=tuple(PositionLoss(one.first, one.last, one.tokens, one.loss) for one in positions),
                   texts=tuple(TextLoss(os.fsdecode(ffi.string(one.source)), one.window, one.tokens,
                                        one.loss if math.isfinite(one.loss) else None) for one in texts))


@dataclass(frozen=True)
class Export:
    """What `qkscope export` wrote."""

    format: str
    folder: Path
    files: tuple[str, ...]  # their names in the folder
    heads: int  # that the files have numbers of
    unsure: int  # q-filters: query heads without a clear sign
    says: str  # duo-attention: by what; layer-types: how many layers, and what they cost; else ""
