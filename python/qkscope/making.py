# SPDX-License-Identifier: Apache-2.0
"""Files for other programs: what the command export does, with its options as keywords."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ._call import ffi, lib, text
from ._checks import path_of
from ._run import Progress, run, warn
from ._settings import Keyword, Keywords, StrPath, keywords_of, wrong
from .outcomes import Export
from .results import Results

_PROGRESS = Keyword("progress", None, Progress, None, "None: a bar where there is tqdm and somebody to see it; True; "
                    "False: none; or a function of (what, done, total), which may return False to stop", "Running")
_EXPORT = Keywords("qk_export_settings_table", "export", ["output"], [_PROGRESS])


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
