# SPDX-License-Identifier: Apache-2.0
"""Captures that several processes make: which part is whose, and how the parts come together."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ._call import call, ffi, lib
from ._checks import path_of, refuse, whole, words
from ._notices import Notices


@dataclass(frozen=True)
class Outcome:
    """What there is after `finish` or `merge`."""

    complete: bool  # the capture is in its place; else other shards are still to come
    blocks: int
    blocks_there: int
    texts_there: int
    heads: int  # of both kinds, of one stage; 0 where not complete, like what follows
    rows: int  # in files, of all heads and stages
    summed: int  # rows behind moments
    bytes: int  # on disk

    @classmethod
    def of(cls, outcome: Any) -> Outcome:
        """Of a qk_sink_outcome."""
        return cls(**{f.name: getattr(outcome, f.name) for f in fields(cls)})


def find_shard(text: str | None = None) -> tuple[int, int] | None:
    """Which process this is of how many: (index, count), or None when it is alone.

    text: "i/N", "none", or the name of a launcher's variable; None: as the environment says (Slurm, Open MPI,
    PMI, RANK with WORLD_SIZE). ArgumentError: it is none of these, or two launchers disagree."""
    found = ffi.new("qk_shard *")
    call(lib.qk_shard_find, ffi.NULL if text is None else words(text, "text").encode(), found)
    return (found.index, found.count) if found.count > 1 else None


def shard_of(given: tuple[int, int] | str | None) -> Any:
    """A qk_shard."""
    made = ffi.new("qk_shard *")
    if isinstance(given, str):
        call(lib.qk_shard_find, words(given, "shard").encode(), made)
    elif given is not None:
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise refuse("shard", f"{given!r:.60}", "(i, n) or 'i/n': process i, from 0, of n", "qkscope.find_shard()")
        made.index, made.count = (whole(number, "shard", -2**31, 2**31 - 1) for number in given)
    return made[0]


def merge(inputs: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
          output: str | os.PathLike[str] | None = None, *, force: bool = False, threads: int | None = None,
          on_notice: Callable[[str, str], Any] | None = None) -> Outcome:
    """Brings blocks that shards have made in several folders together, and puts the capture together where all are
    there (Outcome.complete; else a warning says what is missing). The bytes are those of one process. The inputs stay.

    output None, with one input: there. threads None: all processors. force: replace what is in output. NotFoundError:
    no pieces; DataError: pieces of different runs; ExistsError: output holds something else, or one of several
    inputs is a finished capture. After Ctrl-C the same call goes on."""
    if isinstance(inputs, (str, os.PathLike)):
        inputs = [inputs]
    inputs = list(inputs)
    s, made, notices = ffi.new("qk_merge_settings *"), ffi.new("qk_sink_outcome *"), Notices(on_notice)
    paths = [ffi.new("char[]", path_of(path, "inputs")) for path in inputs]
    s.inputs = listed = ffi.new("char *[]", paths)
    s.num_inputs, s.force = len(listed), force
    s.context.threads = whole(threads or 0, "threads", 0, 4096)
    if output is not None:
        s.output = where = ffi.new("char[]", path_of(output, "output"))
        paths.append(where)
    notices.listen(s.context)
    notices.wait(lib.qk_sink_merge, s, made, keep=(paths, listed))
    return Outcome.of(made)
