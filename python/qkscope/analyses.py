# SPDX-License-Identifier: Apache-2.0
"""The analyses: what the commands of the same names do, with their options as keywords."""
from __future__ import annotations

import contextlib
import math
import operator
import os
from collections.abc import Iterator, Sequence
from typing import Any

from . import results as _results
from . import tables as _tables
from ._call import ArgumentError, PartialError, call, ffi, lib, text
from ._checks import path_of
from ._folders import TemporaryFolder
from ._run import PartialWarning, Progress, run, warn
from ._settings import Keyword, Keywords, Settings, StrPath, wrong
from .outcomes import Losses
from .results import Failure, Forecast, Results

_PLANES = 30  # of the complement, as the command has it
_ALL = "pca,rotation,plasticity,attention"

_PROGRESS = Keyword("progress", None, Progress, None, "None: a bar where there is tqdm and somebody to see it; True; "
                    "False: none; or a function of (what, done, total), which may return False to stop", "Running")
_SHARD = Keyword("shard", None, str | tuple[int, int] | None, None, "part i of n of the texts, (i, n) or \"i/n\": each "
                 "of n processes computes its part into one output folder, and the last one to end writes the tables",
                 "Running")
_COMPLEMENT = Keyword("complement", None, bool, False, "compute complement.csv, too: the planes of what is left, and "
                      "how they turn", "Rotation")
_HIDDEN = ["combined"]  # false where kinds are given
_TABLE = "qk_analysis_settings_table"

_ANALYZE = Keywords(_TABLE, "analyze", _HIDDEN, [_COMPLEMENT, _PROGRESS])
_PCA = Keywords(_TABLE, "pca", _HIDDEN, [_PROGRESS])
_ROTATE = Keywords(_TABLE, "rotate", _HIDDEN, [_COMPLEMENT, _PROGRESS])
_PLASTICITY = Keywords(_TABLE, "plasticity", _HIDDEN, [_PROGRESS])
_ATTENTION = Keywords(_TABLE, "attention", _HIDDEN, [_PROGRESS])
_STAGES = Keywords("qk_stages_settings_table", "compare-stages", _HIDDEN, [_PROGRESS])
_COMPARE = Keywords("qk_compare_settings_table", "compare", own=[_PROGRESS])
_STUDY = Keywords("qk_study_settings_table", "study", ["output"], [_PROGRESS])
_MODEL = ("model", "text")  # what a model is run over
_LOSS = Keywords("qk_recorder_settings_table", "loss", _MODEL, [_PROGRESS])
_ABLATE = Keywords("qk_ablation_settings_table", "ablate", _MODEL, [_SHARD, _PROGRESS])


# ---- what they have in common -------------------------------------------------------------

def _path(capture: Any) -> bytes:
    """Of a folder, "org/name", or an open capture."""
    path = getattr(capture, "path", capture)
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"a capture is a folder, org/name of a dataset, or what qkscope.open returned, not {capture!r}")
    if not os.fspath(path):
        raise wrong("capture", path, "expected a folder with a capture, or org/name of a dataset")
    return path_of(path, "capture")


def _line(function: str, arguments: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """What the manifest says was called."""
    shown = [repr(os.fsdecode(_path(argument))) for argument in arguments if argument is not None]
    shown += [f"{name}={str(value) if isinstance(value, os.PathLike) else value!r}" for name, value in given.items()
              if name != "progress"]
    line = f"qkscope.{function}({', '.join(shown)})"
    return ffi.new("char[]", line.encode("utf-8", "replace"))


def _check_revision(capture: Any, revision: str | None) -> None:
    if revision is not None and os.path.isdir(_path(capture)):
        warn(f"revision={revision!r}: {os.fsdecode(_path(capture))} is a folder, which has no revisions; it is read as it is")


def _set_shard(values: Any, shard: Any) -> None:
    if shard is None:
        return
    try:
        index, count = ("", "") if isinstance(shard, str) else map(operator.index, shard)
        call(lib.qk_shard_find, (shard if isinstance(shard, str) else f"{index}/{count}").encode(),
             ffi.addressof(values.shard))
    except ArgumentError as error:
        raise wrong("shard", shard, str(error)) from None
    except (TypeError, ValueError):
        raise wrong("shard", shard, 'expected (i, n) or "i/n", part i of n') from None


@contextlib.contextmanager
def _folder(settings: Settings, output: StrPath | None) -> Iterator[tuple[StrPath, TemporaryFolder | None]]:
    """Where the run writes to: a private folder unless another was given, which goes if it fails."""
    owned = TemporaryFolder() if output is None else None
    try:
        if owned is not None:
            settings.set("output", owned.path)
            yield owned.path, owned
        elif output is not None:
            yield output, None
    except BaseException:
        if owned is not None:
            owned.remove()
        raise


def _tell(results: Results, partial: PartialError | None) -> Results:
    """Of heads that failed."""
    if partial is not None:
        said = _results.say(results.failed, results.num_heads) if results.failed else str(partial)
        warn(f"{said}; the results have the others, and results.failed all of these", PartialWarning)
    return results


def _analyse(function: str, keywords: Keywords, analyses: str, capture: Any, given: dict[str, Any]) -> Results:
    settings = keywords.settings(function, given)
    values = settings.values
    settings.set("capture", _path(capture), "capture")
    settings.set("analyses", analyses)
    if given.get("complement") and not given.get("pairs"):
        settings.set("pairs", _PLANES)
    values.combined = given.get("kinds") is None
    _check_revision(capture, given.get("revision"))
    line = _line(function, (capture,), given)
    values.command_line = line
    out = ffi.new("qk_analysis_results **")
    with _folder(settings, given.get("output")) as (folder, owned):
        handle, partial = run(lib.qk_analysis_run, values, out, context=values.context, out=out,
                              free=lib.qk_analysis_results_free, keep=(settings, line),
                              progress=given.get("progress"))
        return _tell(_results.of_run(handle, handle, folder, owned, values.ci or None), partial)


# ---- one capture --------------------------------------------------------------------------

@_ANALYZE
def analyze(capture: Any, **keywords: Any) -> Results:
    """The analyses of pca, rotate and plasticity, and attention where the capture keeps it, in one run, which reads
    each file once.

    capture is a folder with a capture, "org/name" of a dataset on the Hugging Face Hub, or what qkscope.open
    returned. The arguments are the options of `qkscope analyze`. Without `output` the results are kept in memory and
    in a private folder, which goes with them.

        results = qkscope.analyze("examples/kjv-tiny-capture", layers="0-2", ci=95)
        results.heads.to_pandas()
        results.figure("pca-02-rq-rk-scatter")

    Raises NotFoundError (a FileNotFoundError) for a capture that is not there, ArgumentError (a ValueError) for a value
    that a keyword does not take, DataError for files that are damaged or hold too little, Cancelled or
    KeyboardInterrupt where it was stopped: then nothing is written. Where some heads fail, the others' results are
    returned with a PartialWarning, and results.failed names them (results.check() raises PartialError then); where all
    fail, the first failure is raised.
    """
    return _analyse("analyze", _ANALYZE, _ALL, capture, keywords)


@_PCA
def pca(capture: Any, **keywords: Any) -> Results:
    """Combined PCA of queries and keys, position correlations, categories of heads: tables qk and heads.

    With `kinds`, queries and keys are fitted separately: table correlations. Otherwise as analyze.

        qkscope.pca("examples/kjv-tiny-capture").heads["category"]
    """
    return _analyse("pca", _PCA, "pca", capture, keywords)


@_ROTATE
def rotate(capture: Any, **keywords: Any) -> Results:
    """The planar rotation model: drift, bias towards recent keys, separation. Table rotated; with `complement` or
    `pairs`, complement. Otherwise as analyze.

        qkscope.rotate("examples/kjv-tiny-capture").rotated["bias_strength"]
    """
    return _analyse("rotate", _ROTATE, "rotation", capture, keywords)


@_PLASTICITY
def plasticity(capture: Any, **keywords: Any) -> Results:
    """Does the query decide which of two keys wins? Tables head_metrics, head_profile, head_bucket_plasticity,
    head_distance, head_component_weights and model_report; tokens, where the capture has their strings. Otherwise as analyze.

        qkscope.plasticity("examples/kjv-tiny-capture", buckets=16).head_metrics["ap_overall"]
    """
    return _analyse("plasticity", _PLASTICITY, "plasticity", capture, keywords)


@_ATTENTION
def attention(capture: Any, **keywords: Any) -> Results:
    """What does each head attend to: the first token, itself, near and far, copies of its token? Tables attention and
    attention_profile, of a capture that keeps sums of attention, or every row of its texts. Otherwise as analyze.

        qkscope.attention("capture").attention["distance_share"]
    """
    return _analyse("attention", _ATTENTION, "attention", capture, keywords)


# ---- two of them --------------------------------------------------------------------------

@_STAGES
def compare_stages(before: Any, after: Any = None, **keywords: Any) -> Results:
    """What RoPE does to each head: captures of the same rows before and after it, side by side. Tables stages,
    rope_pairs and score_by_distance.

    Without `after`, `before` is a folder that holds both, as pre and post. Otherwise as analyze.

        qkscope.compare_stages("capture/pre", "capture/post").stages["r_squared_predicted"]
    """
    settings = _STAGES.settings("compare_stages", keywords)
    values = settings.values
    settings.set("before", _path(before), "before")
    settings.set("after", None if after is None else _path(after), "after")
    line = _line("compare_stages", (before, after), keywords)
    values.input.command_line = line
    out = ffi.new("qk_stages_results **")
    with _folder(settings, keywords.get("output")) as (folder, owned):
        handle, partial = run(lib.qk_stages_run, values, out, context=values.input.context, out=out,
                              free=lib.qk_stages_results_free, keep=(settings, line),
                              progress=keywords.get("progress"))
        return _tell(_results.of_run(handle, handle.run, folder, owned), partial)


@_COMPARE
def compare(a: Any, b: Any, **keywords: Any) -> Results:
    """What changed from a to b, head by head: tables compare and compare_heads.

    a and b are results (of analyze with ci=95, for intervals and p-values), folders with some, or "FOLDER:MODEL" for one of
    several models there. With `output` the page (compare.html) and its figures are written, too.

        changes = qkscope.compare("results/step-20", "results/step-2004")
        changes.compare.to_pandas().query("p_corrected < 0.05")

    Raises ArgumentError for a capture, NotFoundError for a folder that is not there, DataError where no head is in both.
    """
    settings = _COMPARE.settings("compare", keywords)
    values = settings.values
    sides = [side.folder if isinstance(side, Results) else side for side in (a, b)]
    for name, side in zip("ab", sides):
        settings.set(name, _path(side), name)
    if keywords.get("output") is None:
        values.html = False
    line = _line("compare", tuple(sides), keywords)
    values.command_line = line
    out = ffi.new("qk_compare_outcome **")
    with _folder(settings, keywords.get("output")) as (folder, owned):
        outcome, partial = run(lib.qk_compare_run, values, out, context=values.context, out=out,
                               free=lib.qk_compare_outcome_free, keep=(settings, line),
                               progress=keywords.get("progress"))
        results = Results.read(folder)
        results.seconds, results._owned = outcome.seconds, owned
    if partial is not None:
        warn(f"{partial}; the results have the others", PartialWarning)
    return results


# ---- a model ------------------------------------------------------------------------------

@_LOSS
def loss(model: StrPath, text: StrPath | Sequence[StrPath], **keywords: Any) -> Losses:
    """How well a model predicts texts: loss and perplexity over all tokens, by position and by text.

    model is a folder, a GGUF file, or "org/name" on the Hugging Face Hub; text a file, a folder, "repeat:64x2:8" for texts
    that are made, or several of them. The arguments are the options of `qkscope loss`; see docs/behaviour.md#loss.

        losses = qkscope.loss("examples/kjv-tiny/step-2004", "examples/kjv-tiny/passages.jsonl")
        losses.perplexity, [text.loss for text in losses.texts]

    Raises NotFoundError for a model or texts that are not there, ArgumentError for a value that a keyword does not take,
    DataError for files that are damaged, a model that cannot be run, or where no text has two tokens.
    """
    settings = _LOSS.settings("loss", keywords, _MODEL)
    values = settings.values
    _set_model(settings, model, text)
    out = ffi.new("qk_losses **")
    made, _ = run(lib.qk_loss_run, values, out, context=values.context, out=out, free=lib.qk_losses_free,
                  keep=settings, progress=keywords.get("progress"))
    return Losses.of(made)


@_ABLATE
def ablate(model: StrPath, text: StrPath | Sequence[StrPath], **keywords: Any) -> Results:
    """What a model loses without a head, or without its sense of position: its loss on texts while heads are changed.
    Tables ablation, ablation_heads, ablation_groups and ablation_positions.

    model and text as in loss. The arguments are the options of `qkscope ablate`; see docs/behaviour.md#ablation. Without `output` the
    results are in memory and in a private folder, which goes with them. With it, a run that was stopped goes on when it is
    called again. With `dry_run` there are no tables, and results.forecast says how long it would take.

        results = qkscope.ablate("examples/kjv-tiny/step-2004", "repeat:64x2:8", what="remove,freeze")
        results.ablation.to_pandas().nlargest(5, "delta")

    Raises as loss, and ExistsError where output holds something else, or without `force` another ablation, or a run that is
    at work there.
    """
    settings = _ABLATE.settings("ablate", keywords, _MODEL)
    values = settings.values
    _set_model(settings, model, text)
    _set_shard(values.recorder, keywords.get("shard"))
    dry = bool(keywords.get("dry_run"))
    if keywords.get("shard") is not None and keywords.get("output") is None and not dry:
        raise TypeError("ablate(): processes that share an ablation need one output folder")
    line = _line("ablate", (model,), {"text": text, **keywords})
    values.command_line = line
    outcome = ffi.gc(ffi.new("qk_ablation_outcome *"), lib.qk_ablation_outcome_free)
    with _folder(settings, keywords.get("output")) as (folder, owned):
        run(lib.qk_ablation_run, values, outcome, context=values.recorder.context, keep=(settings, line, outcome),
            progress=keywords.get("progress"))
        results = _of_ablation(outcome, folder, dry)
        results.seconds, results._owned = outcome.seconds, owned
    return results


def _set_model(settings: Settings, model: Any, texts: Any) -> None:
    for name, value in zip(_MODEL, (model, texts)):
        if value is None:
            raise wrong(name, value, "expected a model" if name == "model" else "expected texts")
        settings.set(name, value)


def _of_ablation(outcome: Any, folder: StrPath, dry: bool) -> Results:
    if outcome.complete:
        return Results.read(folder)
    facts: dict[str, Any] = {"complete": False, "model": text(outcome.model) or ""}
    if dry:
        seconds = outcome.forecast if math.isfinite(outcome.forecast) else None
        facts["forecast"] = Forecast(outcome.texts, outcome.branches, outcome.flops, seconds)
    else:
        facts["parts"] = (outcome.texts_there, outcome.texts)
    return Results(folder, [], _tables.read_csv, facts)


# ---- many ---------------------------------------------------------------------------------

@_STUDY
def study(path: StrPath, output: StrPath, **keywords: Any) -> Results:
    """The analyses of every model of a study file, combined tables, figures and the report in `output`. Models whose
    files and settings did not change since the last run are not computed again; see docs/howto/published.md#studies.

    Returns the combined tables, `models` among them; `failed` has the models that failed, with a PartialWarning. Where
    all failed, PartialError is raised. With `dry_run` nothing is written, and there are no tables.

        qkscope.study("study.yaml", "results").models.to_pandas()
    """
    settings: Settings = _STUDY.settings("study", keywords)
    values = settings.values
    settings.set("output", output)
    line = _line("study", (path, output), keywords)
    values.command_line = line
    made = ffi.new("qk_study **")
    call(lib.qk_study_load, made, path_of(path, "path"))
    plan = ffi.gc(made[0], lambda one: lib.qk_study_free(ffi.new("qk_study **", one)))
    out = ffi.new("qk_study_outcome **")
    outcome, partial = run(lib.qk_study_run, plan, values, out, context=values.context, out=out,
                           free=lib.qk_study_outcome_free, keep=(settings, line, plan),
                           progress=keywords.get("progress"))
    failed = [Failure(text(lib.qk_study_get(plan, i).name), text(outcome.models[i].message) or "failed")
              for i in range(outcome.num_models)
              if outcome.models[i].state in (lib.QK_STUDY_PARTIAL, lib.QK_STUDY_FAILED)]
    all_failed = all(outcome.models[i].state == lib.QK_STUDY_FAILED for i in range(outcome.num_models))
    if keywords.get("dry_run"):
        return Results(output, [], _tables.read_csv, {"complete": False}, failed)
    if all_failed and partial is not None:
        raise partial
    results = Results.read(output)
    results.failed, results.num_heads = failed, sum(outcome.models[i].num_heads for i in range(outcome.num_models))
    results.seconds = outcome.seconds
    if partial is not None:
        said = _results.say(failed, outcome.num_models) if failed else str(partial)
        warn(f"{said}; the results have the others", PartialWarning)
    return results
