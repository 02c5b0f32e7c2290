# SPDX-License-Identifier: Apache-2.0
"""Moments of every head of a capture, as the library reads them: of rows, or as the capture keeps them."""
from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._arrays import need_numpy
from .._call import ffi, lib, text
from .._checks import path_of
from .._run import run, warn
from .._settings import Settings
from ..captures import Capture, head_name
from ._files import origin
from ._request import Request

STAGES = {"pre": lib.QK_STAGE_PRE_ROPE, "post": lib.QK_STAGE_POST_ROPE}
_KINDS = {"q": lib.QK_KINDS_Q, "k": lib.QK_KINDS_K, "qk": lib.QK_KINDS_BOTH}


def read_told(where: str) -> Any:
    """capture.json of a folder; None: there is none."""
    try:
        return json.loads((Path(where) / "capture.json").read_bytes())
    except (OSError, ValueError):
        return None


def told(value: Any, *names: str, kind: type) -> Any:
    """What capture.json has under names, one within the other; kind(), such as "" or 0.0, where it has no such value."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    if kind is float and isinstance(value, int):
        value = float(value)
    return value if isinstance(value, kind) else kind()


def _sampler(capture_json: Any) -> dict[str, Any]:
    """Which positions the capture keeps; what is not known, or no limit, is ""."""
    names = "run", "sink", "sampler"
    return {"sampler": told(capture_json, *names, "type", kind=str), "max_rows": told(capture_json, *names, "max_rows", kind=int) or ""}


def _warn_of_sampler(where: str, kept: dict[str, Any]) -> None:
    """Where the kept positions are no even choice of all tokens, whose means the files promise."""
    if kept["sampler"] == "log_uniform":
        warn(f"{where}: --sampler log_uniform has kept early positions more often, and the file is to be of all tokens alike: capture with "
             "--sampler uniform or all, or --keep moments")
    elif kept["max_rows"]:
        warn(f"{where}: --max-rows {kept['max_rows']} has kept few positions, the same ones in all texts of one length, and the file is to be "
             "of all tokens alike: capture with --rows in its place")


def capture_origin(capture_json: Any, **facts: Any) -> dict[str, Any]:
    run = {f"{of}_{name}": told(capture_json, "run", of, name, kind=str) for of, name in (
        ("model", "architecture"), ("model", "fingerprint"), ("texts", "xxh3_128"))}
    return origin(**facts, **run, capture=told(capture_json, "fingerprint", kind=str))


def fingerprint_of(capture: Capture) -> str:
    """Of the model, where this library ran it; else ""."""
    return text(lib.qk_capture_get_info(capture._capture).model_fingerprint) or ""


class Heads:
    """All heads of all layers; what the library refuses (a head that is not there, the other side of RoPE) is raised."""

    def __init__(self, request: Request, stage: str, kinds: str, groups: bool, first: int = 0) -> None:
        """kinds: "q", "k" or "qk", of which moments are read. groups: key heads are asked for, too. first: positions below it
        are left out, unless the request says otherwise."""
        settings = Settings("qk_analysis_settings_table")
        for name, value in {"from-position": first, **{k: v for k, v in request.of_capture.items() if v is not None}}.items():
            settings.set(name, value)
        values, out = settings.values, ffi.new("qk_head_moments **")
        values.capture = path = ffi.new("char[]", path_of(request.source, "results"))
        values.combined, values.kinds = groups, _KINDS[kinds]
        self._made, _ = run(lib.qk_head_moments_read, values, STAGES[stage], out, context=values.context, out=out,
                            free=lib.qk_head_moments_free, keep=(settings, path), progress=request.progress)
        made = self._made
        self.capture, self.model = ffi.string(made.capture), text(made.model)
        self.where = os.fsdecode(self.capture)
        self.layers, self.dim, self.group = made.layers, made.dim, made.group
        self.count = {"q": made.heads[lib.QK_QUERY], "k": made.heads[lib.QK_KEY]}  # of a layer
        self.texts, self.length, self.first = made.texts, made.length, values.from_position
        self._capture_json, self._capture = read_told(self.where), Capture(self.where)
        self.fingerprint = fingerprint_of(self._capture)
        self._kept = _sampler(self._capture_json)
        _warn_of_sampler(self.where, self._kept)

    def told(self, *names: str, kind: type) -> Any:
        return told(self._capture_json, *names, kind=kind)

    def origin(self) -> dict[str, Any]:
        """What a file of these heads says of where its numbers come from."""
        first = self._made.of[lib.QK_QUERY] or self._made.of[lib.QK_KEY]
        return capture_origin(self._capture_json, model=self.model, texts=self.texts, tokens=int(first[0].count),
                              length=self.length, from_position=self.first, **self._kept)

    def rows(self, layer: int, head: int, kind: str) -> Iterator[Any]:
        """Rows of a head, [n, d] in float64, block by block."""
        for block in self._capture.head(layer, head, kind).blocks(columns="vectors position", dtype="float64"):
            yield block.vectors[block.position >= self.first]

    def _array(self, pointer: Any, *shape: int) -> Any:
        count = shape[0] if len(shape) == 1 else shape[0] * shape[1]
        return need_numpy().frombuffer(ffi.buffer(pointer, 8 * count), "float64").reshape(shape)

    def each(self, kind: str) -> Iterator[tuple[int, str, Any, Any, Any]]:
        """Of each head, layer by layer: its place, its name, how many rows, their mean [d], and the sum of
        (x - mean)(x - mean)^T [d, d]. The arrays are the library's, and go with this object."""
        of = self._made.of[lib.QK_KEY if kind == "k" else lib.QK_QUERY]
        for place in range(self.layers * self.count[kind]):
            m = of[place]
            yield (place, head_name(place // self.count[kind], place % self.count[kind], kind), int(m.count),
                   self._array(m.mean, self.dim), self._array(m.sum_xx, self.dim, self.dim))

    def rows_of(self, kind: str) -> Any:
        """[layers, heads] how many"""
        return need_numpy().array([count for _, _, count, _, _ in self.each(kind)]).reshape(self.layers, -1)

    def sum_abs(self, layer: int) -> Any:
        """[query heads, d / 2] of a layer, sums of the lengths of rotary pairs as moments have them; NaN: they do not, or the
        layer has fewer pairs. None: the capture keeps rows."""
        if self._made.sum_abs == ffi.NULL:
            return None
        shape = self.count["q"], self.dim // 2
        return self._array(self._made.sum_abs + layer * shape[0] * shape[1], *shape)

    def means(self, kind: str) -> Any:
        """[layers, heads, d]"""
        numpy = need_numpy()
        return numpy.array([mean for _, _, _, mean, _ in self.each(kind)]).reshape(self.layers, self.count[kind], self.dim)
