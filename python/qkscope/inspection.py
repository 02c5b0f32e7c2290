# SPDX-License-Identifier: Apache-2.0
"""What is in a capture, without analysing it."""
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ._call import ffi, lib, text
from ._checks import path_of
from ._run import Progress, run
from ._settings import Settings
from .captures import KEPT, head_name, letter_of

_SOURCES = {lib.QK_GROUP_GIVEN: "given", lib.QK_GROUP_MANIFEST: "capture.json", lib.QK_GROUP_INFERRED: "inferred"}


@dataclass(frozen=True)
class HeadInspection:
    """One head. Where `error` is not None, what follows it is empty."""

    name: str
    layer: int
    head: int
    kind: str  # "q" or "k"
    files: int
    bytes: int  # on disk; of a packed file its row groups
    error: str | None  # why it cannot be read
    rows: int
    dim: int
    positions: tuple[int, int] | None  # the first and the last; None without rows
    buckets: tuple[int, ...] | None  # that occur; None: no such column
    examples: tuple[int, ...] | None
    windows: tuple[int, ...] | None  # 0 = full attention
    row_groups: int
    codec: str  # of the vectors: "ZSTD", ...; "mixed" if files differ
    encodings: tuple[str, ...]
    created_by: str  # of the first file
    float64: bool
    summed: int  # rows behind its moments; 0: there are none
    texts: int  # that these came from


@dataclass(frozen=True)
class Inspection:
    """What `qkscope inspect` says of a capture."""

    path: str  # folder that holds the heads
    prefix: str  # of it below the folder that was given
    model: str  # from capture.json, else ""
    has_manifest: bool
    complete: bool
    num_texts: int  # as capture.json has them; 0: not recorded
    num_windows: int
    group_size: int | None  # query heads per key head; None: no number fits, or there are no heads of one kind
    group_source: str | None  # "given", "capture.json" or "inferred"
    group_consistent: bool  # it fits the heads that are there
    group_error: str | None  # why there is none
    heads: tuple[HeadInspection, ...]
    num_failed: int  # heads that cannot be read
    num_missing: int  # of these, heads that capture.json lists and that are not there
    dim: int  # 0: the heads differ, or there are no rows
    rows: int  # over the heads that can be read, as all that follows
    bytes: int
    positions: tuple[int, int] | None
    num_examples: int  # different ids
    buckets: tuple[int, ...]
    windows: tuple[int, ...]
    num_files: int
    packed: bool
    kept: str  # which rows: "all", "none" or "reservoir"
    reservoir: int
    has_moments: bool
    has_attention: bool  # sums of attention
    groups: int
    summed: int
    moments_files: int
    moments_bytes: int


def _numbers(values: Any) -> tuple[int, ...]:
    return tuple(ffi.unpack(values.items, values.count)) if values.count else ()


def _encodings(bits: int) -> tuple[str, ...]:
    return tuple(text(lib.qk_parquet_encoding_name(i)) for i in range(32) if bits >> i & 1)


def _same(struct: Any, names: str) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in names.split()}


def _positions(struct: Any) -> tuple[int, int] | None:
    return (struct.position_min, struct.position_max) if struct.has_positions else None


def _head(one: Any) -> HeadInspection:
    kind = letter_of(one.id.kind)
    error = None
    if one.status != lib.QK_OK:
        error = text(one.message) or text(lib.qk_status_text(one.status))
    return HeadInspection(
        **_same(one, "files bytes rows dim row_groups summed texts"), layer=one.id.layer, head=one.id.head, kind=kind,
        name=head_name(one.id.layer, one.id.head, kind), error=error, positions=_positions(one),
        buckets=_numbers(one.buckets) if one.has_bucket else None,
        examples=_numbers(one.examples) if one.has_example else None,
        windows=_numbers(one.windows) if one.has_window else None, codec=text(one.codec),
        encodings=_encodings(one.encodings), created_by=text(one.created_by) or "", float64=one.wide)


def _inspection(made: Any) -> Inspection:
    group = made.group
    return Inspection(
        **_same(made, "has_manifest complete num_texts num_windows num_failed num_missing dim rows bytes num_examples "
                      "num_files packed reservoir has_moments has_attention groups summed moments_files moments_bytes"),
        path=os.fsdecode(ffi.string(made.path)), prefix=os.fsdecode(ffi.string(made.prefix)), model=text(made.model),
        group_size=group.size if made.has_group else None,
        group_source=_SOURCES[group.source] if made.has_group else None,
        group_consistent=bool(made.has_group and group.consistent), group_error=text(made.group_message),
        heads=tuple(_head(made.heads[i]) for i in range(made.num_heads)), positions=_positions(made),
        buckets=_numbers(made.buckets), windows=_numbers(made.windows), kept=KEPT[made.kept])


def inspect(capture: str | os.PathLike[str], *, split: str | None = None, revision: str | None = None,
            q_per_kv_group: int | None = None, threads: int | None = None, progress: Progress = None) -> Inspection:
    """What a capture holds. The integer columns are read in full, and of vectors the first. Of a dataset on the Hub
    the cache alone is looked at.

    capture, split, revision  as in qkscope.open
    q_per_kv_group            query heads per key head; None: from capture.json, else inferred
    threads                   None: all processors
    progress                  as in qkscope.analyze

        print([head.name for head in qkscope.inspect("my-capture").heads if head.error])

    Heads that cannot be read do not fail it: their `error` says why. Raises what qkscope.open raises.
    """
    settings = Settings("qk_inspect_settings_table")
    for name, value in (("split", split), ("revision", revision), ("q-per-kv-group", q_per_kv_group),
                        ("threads", threads)):
        settings.set(name, value)
    values, out = settings.values, ffi.new("qk_inspection **")
    values.capture = path = ffi.new("char[]", path_of(capture, "capture"))
    made, _ = run(lib.qk_inspect_capture, values, out, context=values.context, out=out, free=lib.qk_inspection_free,
                  keep=(settings, path), progress=progress)
    return _inspection(made)
