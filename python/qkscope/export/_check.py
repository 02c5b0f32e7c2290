# SPDX-License-Identifier: Apache-2.0
"""How good mean queries are: scores of held-out rows, beside those that the means predict."""
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .._arrays import need_numpy
from .._call import DataError
from .._settings import StrPath
from ..captures import Capture
from ._request import Made, Request
from ._rotary import Rotary, Rotation, pairs

NAME = "held-out.json"
FIRST_KEY, FIRST_ROW, STEP = 4, 128, 64  # keys from position 4 on, rows 128, 192, ...


def _texts(capture: Capture, layer: int, head: int, kind: str, rotation: Rotation) -> dict[int, tuple[Any, Any]]:
    """Of each text the positions that count, ascending, and z_p of the rows there, not turned."""
    numpy = need_numpy()
    rows = capture.head(layer, head, kind).read("vectors position example", dtype="float64")
    at = rows.position
    wanted = numpy.flatnonzero(at >= FIRST_KEY if kind == "k" else (at >= FIRST_ROW) & (at % STEP == 0))
    wanted = wanted[numpy.lexsort((at[wanted], rows.example[wanted]))]
    z, names = pairs(rows.vectors[wanted], rotation), rows.example[wanted]
    return {int(text): (at[wanted][names == text], z[names == text]) for text in numpy.unique(names)}


def _of_rows(queries: Any, keys: Any, mean: Any, frequencies: Any) -> Iterator[float]:
    """Pearson's correlation over keys, of each row. keys are turned."""
    numpy = need_numpy()
    (at, z), (places, k) = queries, keys
    turn = numpy.exp(1j * numpy.outer(at, frequencies))
    true, predicted = ((row * turn @ k.conj().T).real for row in (z, mean))
    for row, end in enumerate(numpy.searchsorted(places, at, "right")):
        with numpy.errstate(invalid="ignore", divide="ignore"):
            yield float(numpy.corrcoef(true[row, :end], predicted[row, :end])[0, 1])


def correlations(of: Rotary, held_out: StrPath) -> Any:
    """[layers, query heads] of a capture of rows before RoPE: of each head the mean over rows of the correlation of scores with
    those of the mean query in place of the query; NaN: nothing varies. Layers without RoPE are NaN, too."""
    numpy = need_numpy()
    capture, heads = Capture(held_out), of.heads
    if capture.info.stage != "pre":
        raise DataError(f"{capture.path}: held-out rows have to be from before RoPE: capture with --stage pre --sampler all")
    found = numpy.full((heads.layers, heads.count["q"]), numpy.nan)
    for layer, one in enumerate(of.layers):
        frequencies = numpy.array(one.rotation.frequencies)
        for head in range(heads.count["q"] if frequencies.size else 0):
            if head % heads.group == 0:
                keys = {text: (at, z * numpy.exp(1j * numpy.outer(at, frequencies))) for text, (at, z) in
                        _texts(capture, layer, head // heads.group, "k", one.rotation).items()}
            rows = [r for text, queries in _texts(capture, layer, head, "q", one.rotation).items()
                    for r in _of_rows(queries, keys[text], one.mean[head], frequencies)]
            if not rows:
                raise DataError(f"{capture.path}: no query at a position of {FIRST_ROW}, {FIRST_ROW + STEP}, ...: held-out texts need "
                                f"more than {FIRST_ROW} tokens, and all positions kept (--sampler all)")
            found[layer, head] = numpy.mean(rows)
    return found


def _report(found: Any) -> tuple[list[Any], str]:
    """What held-out.json has, and the lines that tell it."""
    numpy = need_numpy()

    def told(value: Any) -> float | None:
        return None if numpy.isnan(value) else round(float(value), 6)
    layers, lines = [], []
    for layer, heads in enumerate(found):
        known = heads[~numpy.isnan(heads)]
        median, worst = (numpy.median(known), int(numpy.nanargmin(heads))) if known.size else (numpy.nan, 0)
        layers.append({"layer": layer, "median": told(median), "worst_head": worst, "heads": [told(r) for r in heads]})
        lines.append(f"layer {layer:>3}: median {median:6.3f}, worst head {worst} {heads[worst]:6.3f}")
    median = numpy.nanmedian(found) if (~numpy.isnan(found)).any() else numpy.nan
    says = f"held-out correlation of scores {median:.3f}, median over heads\n" + "\n".join(lines)
    made = {"median": told(median), "first_row": FIRST_ROW, "step": STEP, "first_key": FIRST_KEY, "layers": layers}
    return [(json.dumps(made, indent=2) + "\n").encode()], says


class Checked:
    """A format's module that also makes held-out.json."""

    def __init__(self, writer: Any) -> None:
        self.writer, self.FILES = writer, (*writer.FILES, NAME)

    def make(self, request: Request) -> Made:
        made: Made = self.writer.make(request)
        assert request.held_out is not None
        file, says = _report(correlations(made.of, request.held_out))
        return replace(made, files={**made.files, NAME: file}, says=says)
