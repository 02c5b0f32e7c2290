# SPDX-License-Identifier: Apache-2.0
"""What is known of heads as other libraries read it: a module for each format, which `FORMATS` names. The numbers are those
of the library: moments of heads, tables of ablations. Needs NumPy."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .._checks import refuse, whole, words
from .._run import Progress, warn
from .._settings import StrPath, wrong
from ..outcomes import Export
from ..results import Results
from . import duo_attention, key_means, kvpress_stats, layer_types, q_filters, triattention, triattention_ggml
from ._check import Checked
from ._files import install
from ._request import Request

FORMATS: dict[str, Any] = {"kvpress-stats": kvpress_stats, "duo-attention": duo_attention, "q-filters": q_filters,
                           "triattention": triattention, "triattention-ggml": triattention_ggml, "key-means": key_means,
                           "layer-types": layer_types}
_OF_CAPTURES = ("revision", "split", "q_per_kv_group", "from_position")
_BIG = 10**9


def format_of(name: str) -> Any:
    if name == "transformer-lens":
        raise wrong("format", name, "has left: use qkscope heads --format list, or heads_summary() of results")
    if name not in FORMATS:
        *first, last = FORMATS
        raise wrong("format", name, f"expected {', '.join(first)} or {last}")
    return FORMATS[name]


def _note_idle(format: str, given: dict[str, Any], default: dict[str, Any]) -> None:
    """Of keywords of other formats."""
    for name, value in given.items():
        if name not in (*_OF_CAPTURES, *FORMATS[format].KEYWORDS) and value != default[name]:
            warn(f"{name.strip('_')}={value!r} does nothing for {format}")


def export(format: str, results: Any, output: StrPath, *, force: bool = False, dataset: str | None = None,
           revision: str | None = None, offline: bool = False, split: str | None = None,
           q_per_kv_group: int | None = None, from_position: int | None = None, model: StrPath | None = None,
           from_: str | None = None, sink: int = 128, recent: int | None = None, length: int = 500, k_rot: bool = False,
           tolerance: float = 0.01, held_out: StrPath | None = None, threads: int | None = None,
           progress: Progress = None) -> Export:
    """Writes what is known of heads into files that other programs read: "kvpress-stats", "duo-attention", "q-filters",
    "triattention", "triattention-ggml", "key-means" or "layer-types".

    results is a capture (a folder, "org/name" on the Hugging Face Hub, or what qkscope.open returned), or the folder of an
    ablation, or what qkscope.ablate returned; docs/howto/export.md says which format takes which. output is a folder, which gets
    all files or none.

        qkscope.export("kvpress-stats", "capture/pre", "stats")

    force           replace files of an export that output has
    dataset         kvpress-stats: what config.json calls the texts
    revision        branch, tag or commit of a dataset on the Hub; None: main
    offline         fetch nothing: take what is in the cache
    split           sub-folder of the capture; None: find it
    q_per_kv_group  query heads per key head; None: as the capture tells
    from_position   leave out rows of positions below it; None: 4 for kvpress-stats, else 0
    model           the model whose heads these are, a folder or a name of the Hub that is cached; None: as the capture
                    tells. layer-types needs it
    from_           duo-attention: by "ablation", "attention" (as measured) or "means"; None: the first that there is
    sink, recent    duo-attention: first and latest keys that a head without far keys sees; recent None: 256. layer-types:
                    recent is the window; None: that of the ablation
    length          duo-attention: of the text that means are predicted for, in tokens
    k_rot           key-means: for a cache whose keys are turned (q4_0 by default)
    tolerance       layer-types: a layer may have a window if the upper end of the interval of its loss is below it, in nats
                    a token
    held_out        triattention, triattention-ggml: a capture of rows before RoPE, of texts that results has not seen; held-out.json
                    says how scores that the file predicts correlate with those of these rows
    threads         None: one for each processor
    progress        as in qkscope.analyze

    Raises ArgumentError for a value that a keyword does not take, NotFoundError for a source, a head or a change that is not
    there, ExistsError for files that are there, unless `force` is given, DataError for what no such file can be made of.
    """
    writer = format_of(format)
    for name, value, least, most in (("sink", sink, 0, _BIG), ("recent", recent, 1, _BIG), ("length", length, 2, 10**6),
                                     ("from_position", from_position, 0, 10**15)):
        if value is not None:
            whole(value, name, least, most)
    if dataset is not None:
        words(dataset, "dataset")
    if output is None:
        raise refuse("output", "None", "a folder", "give one")
    _note_idle(format, {"dataset": dataset, "revision": revision, "split": split, "q_per_kv_group": q_per_kv_group,
                        "from_position": from_position, "model": model, "from_": from_, "sink": sink, "recent": recent,
                        "length": length, "k_rot": k_rot, "tolerance": tolerance,
                        "held_out": held_out}, export.__kwdefaults__ or {})
    source = results.folder if isinstance(results, Results) else getattr(results, "path", results)
    request = Request(source, Path(os.fsdecode(output)), dataset or "", model, sink, recent, length,
                      {"revision": revision, "offline": offline or None, "split": split, "q-per-kv-group": q_per_kv_group,
                       "from-position": from_position, "threads": threads}, progress, from_, bool(k_rot), tolerance, held_out)
    checked = held_out is not None and "held_out" in writer.KEYWORDS
    return install(format, Checked(writer) if checked else writer, request, force)


__all__ = ["export"]
