# SPDX-License-Identifier: Apache-2.0
"""How good mean queries are: scores of held-out rows, beside those that the means predict."""
from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import tables
from .._arrays import need_numpy
from .._call import DataError
from .._run import warn
from .._settings import StrPath
from ..captures import Capture
from ._heads import Heads, fingerprint_of
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


def _texts_of(folder: str) -> set[str]:
    """Checksums of the tokens of texts that are long enough to count."""
    place = Path(folder) / "examples.csv"
    table = tables.read_csv(place) if place.exists() else None
    if table is None or "tokens" not in table or "tokens_xxh3" not in table:
        return set()
    told = zip(table.column("tokens"), table.column("tokens_xxh3"), strict=True)
    return {checksum for count, checksum in told if checksum and count.isdigit() and int(count) > FIRST_ROW}


def _check_held_out(heads: Heads, capture: Capture) -> None:
    """The file's own texts would make it look too good; rows of another model say nothing of it."""
    if capture.info.stage != "pre":
        raise DataError(f"{capture.path}: held-out rows have to be from before RoPE: capture with --stage pre --sampler all")
    own, held_out = heads.fingerprint, fingerprint_of(capture)
    if own and held_out and own != held_out:
        warn(f"{capture.path} is of {capture.info.model or 'a model'} with other weights or settings than {heads.model or 'the model'} of "
             f"{heads.where} has, as the same model in another format does: is it the same?")
    held_out_texts = _texts_of(capture.path)
    shared = len(held_out_texts & _texts_of(heads.where))
    if os.path.samefile(capture.path, heads.where):
        raise DataError(f"{capture.path} is what the file is made of: give held-out rows of other texts")
    if shared:
        raise DataError(f"{capture.path}: {shared} of its {len(held_out_texts)} texts {'is' if shared == 1 else 'are'} in {heads.where}, too: "
                        "give held-out rows of other texts")


def correlations(of: Rotary, held_out: StrPath) -> Any:
    """[layers, query heads] of a capture of rows before RoPE: of each head the mean over rows of the correlation of scores with
    those of the mean query in place of the query; NaN: nothing varies. Layers without RoPE are NaN, too."""
    numpy = need_numpy()
    capture, heads = Capture(held_out), of.heads
    _check_held_out(heads, capture)
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
