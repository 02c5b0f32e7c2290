# SPDX-License-Identifier: Apache-2.0
"""Captures made of nothing, and files for other programs: what the commands synth and export do,
with their options as keywords."""
from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ._call import ffi, lib, text
from ._checks import path_of
from ._run import Progress, run, warn
from ._settings import Keyword, Keywords, StrPath, keywords_of, wrong
from .captures import Capture
from .outcomes import Export
from .results import Results

_PROGRESS = Keyword("progress", None, Progress, None, "None: a bar where there is tqdm and somebody to see it; True; "
                    "False: none; or a function of (what, done, total), which may return False to stop", "Running")
_FREQUENCIES = Keyword("frequencies", None, Iterable[float] | None, None, "radians per token, one plane each (None: by "
                       "rope_theta)", "Model")

_SYNTH = Keywords("qk_synth_settings_table", "synth", [], [_FREQUENCIES, _PROGRESS])
_EXPORT = Keywords("qk_export_settings_table", "export", ["output"], [_PROGRESS])


@_SYNTH
def synth(output: StrPath, **keywords: Any) -> Capture:
    """Writes a capture of made-up heads whose answers are known, and truth.json beside them: the means, drifts,
    covariances and frequencies that the vectors were drawn from. Returns it, open.

    What no keyword gives is drawn for every head from the seed; the same seed gives the same bytes. See docs/synth.md.

        capture = qkscope.synth("made-up", layers=4, dim=128, r_k=0.9, seed=7)
        qkscope.pca(capture).heads["category"]

    Raises ExistsError where output is not empty, ArgumentError for a value out of range. After a failure or Ctrl-C
    capture.json says that the capture is not complete.
    """
    settings = _SYNTH.settings("synth", keywords)
    values = settings.values
    frequencies = None
    if (given := keywords.get("frequencies")) is not None:
        values.rope_frequencies = frequencies = ffi.new("double[]", [float(omega) for omega in given])
        values.rope_planes = len(frequencies)
    path = ffi.new("char[]", path_of(output, "output"))
    run(lib.qk_synth_write, values, path, context=values.context, keep=(settings, frequencies, path),
        progress=keywords.get("progress"))
    return Capture(output)


def _formats() -> list[str]:
    names: list[str] = []
    while (name := lib.qk_export_format_name(len(names))) != ffi.NULL:
        names.append(text(name))
    return names


def _note_idle(format: str, given: dict[str, Any]) -> None:
    """Of keywords of other formats."""
    taken = {keyword.option for keyword in keywords_of(_EXPORT.table, format)}
    for keyword in _EXPORT.all:
        if keyword.option and keyword.option not in taken and given.get(keyword.name) is not None:
            warn(f"{keyword.name}={given[keyword.name]!r} does nothing for {format}")


@_EXPORT
def export(format: str, results: Any, output: StrPath, **keywords: Any) -> Export:
    """Writes what is known of heads into files that other programs read: "kvpress-stats", "duo-attention", "q-filters" or
    "transformer-lens".

    results is a capture (a folder, "org/name" on the Hugging Face Hub, or what qkscope.open returned), the folder of an
    ablation, or results; docs/export.md says which format takes which. output is a folder, which gets all files or none.

        qkscope.export("transformer-lens", qkscope.pca("examples/kjv-tiny-capture"), "heads", where="r_q > 0.7")

    Raises ArgumentError for a value that a keyword does not take, NotFoundError for a source, a head or a change that is not
    there, ExistsError for files that are there, unless `force` is given, DataError for what no such file can be made of.
    """
    settings = _EXPORT.settings("export", keywords, ("format", "results", "output"))
    values, names = settings.values, _formats()
    if format not in names:
        raise wrong("format", format, f"expected {', '.join(names[:-1])} or {names[-1]}")
    _note_idle(format, keywords)
    values.format = names.index(format)
    settings.set("output", output)
    source = results.folder if isinstance(results, Results) else getattr(results, "path", results)
    values.source = path = ffi.new("char[]", path_of(source, "results"))
    outcome = ffi.new("qk_export_outcome *")
    run(lib.qk_export, values, outcome, context=values.context, keep=(settings, path, outcome),
        progress=keywords.get("progress"))
    return Export(format, Path(os.fsdecode(output)), tuple(text(outcome.files[i]) for i in range(outcome.num_files)),
                  outcome.heads, outcome.unsure)
