# SPDX-License-Identifier: Apache-2.0
"""What the formats share: what is asked, and what they hand back."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._run import Progress
from .._settings import StrPath


@dataclass(frozen=True)
class Request:
    """The arguments of `export`."""

    source: StrPath
    output: Path
    dataset: str
    model: StrPath | None
    sink: int
    recent: int | None
    length: int
    of_capture: dict[str, Any]  # options of `qkscope analyze` by their names; None: not given
    progress: Progress
    from_: str | None = None
    k_rot: bool = False
    tolerance: float = 0.0
    held_out: StrPath | None = None  # a capture of rows, to check the files with


@dataclass(frozen=True)
class Made:
    """Files by their names, in the order in which they take their places; each is pieces of bytes."""

    files: dict[str, list[Any]]
    heads: int  # that the files have numbers of
    unsure: int = 0
    says: str = ""  # of what the files have
    of: Any = None  # the Rotary behind them
