# SPDX-License-Identifier: Apache-2.0
"""The library's own engine: a model in a folder or a GGUF file, run on the processor, as `qkscope capture` does it."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ._call import ArgumentError, ffi, lib
from ._run import Progress, run
from ._settings import Keywords
from .merging import Outcome

KEYWORDS = Keywords("qk_recorder_settings_table", "capture", ["model", "output", "force"])
# What lies somewhere: a process in another working folder has to find it.
PATHS = ("text", "tokenizer")


def absolute(path: Any) -> Any:
    """"org/name" of the Hugging Face cache stays as it is."""
    return os.path.abspath(path) if os.path.exists(path) else path


def settle(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of which every process makes the same; TypeError: one that there is none of."""
    KEYWORDS.check("capture", dict(given))
    if given.get("text") is None:
        raise ArgumentError("which texts? text= takes a file, a folder, or several of them")
    made = dict(given)
    for name in PATHS:
        value = made.get(name)
        if isinstance(value, (str, os.PathLike)):
            made[name] = absolute(value)
        elif value is not None:
            made[name] = [absolute(path) for path in value]
    return made


def run_recorder(model: Any, output: str, shard: tuple[int, int] | None, given: Mapping[str, Any], progress: Progress = False) -> Any:
    """The qk_recorder_outcome."""
    settings = KEYWORDS.settings("capture", dict(given))
    settings.set("model", model)
    settings.set("output", output)
    values = settings.values
    if shard is not None:
        values.shard.index, values.shard.count = shard
    made = ffi.new("qk_recorder_outcome *")
    run(lib.qk_recorder_run, values, made, context=values.context, keep=(settings, made), progress=progress)
    return made


def record(model: Any, output: str, shard: tuple[int, int] | None, given: Mapping[str, Any]) -> Outcome:
    made = run_recorder(model, output, shard, given)
    complete = made.complete or made.complete_already
    return Outcome(complete, made.blocks, made.blocks_there, made.windows if complete else 0, made.heads, made.rows,
                   made.summed, made.bytes)
