# SPDX-License-Identifier: Apache-2.0
"""Captures and analyses on Ray: a worker for each GPU or CPU, of this machine or of a cluster. docs/cluster.md

The work is cut into shards, several for each worker: texts of a capture, which the last one that ends puts together,
or layers that are analysed apart, and whose tables are joined. The bytes are those of one process. When a worker dies,
another one takes its shard; when all of a capture ends, the same call goes on. Needs Ray (pip install ray)."""
from __future__ import annotations

import os
import shutil
import uuid
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ._call import ArgumentError, Cancelled, ExistsError, ffi, lib
from ._checks import whole
from ._ray_pool import Pool, cluster, plan_of
from ._settings import Keywords, Settings, wrong

if TYPE_CHECKING:
    from ._run import Progress
    from .results import Results
    from .merging import Outcome
    from .sink import Sink

StrPath = str | os.PathLike[str]
ANALYSES = ("analyze", "pca", "rotate", "plasticity", "attention")
# Shards of a capture are made of blocks of texts, of which there are so many at most; those of an analysis of layers.
MOST_BLOCKS, MOST_SHARDS = 64, 4096
# What is said of a shard when texts make fewer blocks than there are shards. How many shards there are is decided here,
# so it is nothing that the caller could mend.
IDLE = "has nothing to do"


def analyze(capture: Any, output: StrPath, *, workers: int | None = None, address: str | None = None,
            shards: int | None = None, cpus: float = 1, analysis: str = "analyze", progress: Progress = None,
            **settings: Any) -> Results:
    """The analyses of a capture, its layers shared by workers: the tables that `qkscope analyze CAPTURE -o OUTPUT`
    writes (Results.join).

    capture   a folder with a capture, "org/name" of a dataset on the Hugging Face Hub, or what qkscope.open returned
    output    folder for the tables, empty unless `force` is given. On a cluster it and the capture have to be in a folder
              that all machines share. Parts lie beside it meanwhile.
    workers   how many; None: as many as there are CPUs for
    address   of a cluster, "auto" for the one that this machine is part of; None: RAY_ADDRESS, and if that is not
              set this machine by itself. A program that has called ray.init uses what it began.
    shards    into how many parts the layers are cut; None: four for each worker. With `kinds` or `sample_heads` it is one,
              since those are of all layers together.
    cpus      of each worker, which computes with so many threads
    analysis  "analyze" for all of them, or "pca", "rotate", "plasticity", "attention"
    progress  as in qkscope.analyze; what is counted are shards
    settings  those of qkscope.analyze

        results = qkscope.ray.analyze("capture", "results", ci=95)
        results.heads.to_pandas()

    Returns the results that are in `output`. Raises what qkscope.analyze raises; Error where one shard has ended
    several workers, which most often means that there was too little memory."""
    if analysis not in ANALYSES:
        raise ArgumentError(f"analysis={analysis!r} is none of {', '.join(ANALYSES)}")
    if "output" in settings:
        raise TypeError("analyze() got an unexpected keyword argument 'output'")
    _check_plan(workers, shards, cpus)
    _check_keywords(analysis, settings)
    path = getattr(capture, "path", capture)
    _check_capture(path, settings, address)
    place = os.path.abspath(path) if os.path.isdir(path) else path
    given = {"threads": max(1, int(cpus)), **settings}
    where = os.path.abspath(os.fspath(output))
    force = bool(settings.get("force"))
    if os.path.isdir(where) and os.listdir(where) and not force:
        raise ExistsError(f"{where}: is not empty; choose another folder, or force=True")
    parts = os.path.join(os.path.dirname(where), f".{os.path.basename(where)}.parts-{uuid.uuid4().hex[:12]}")
    one = settings.get("kinds") or settings.get("sample_heads")
    try:
        _run(where, partial(_analyses, analysis, place, parts, given), bool, partial(_end_analysis, parts, where, force),
             workers=workers, address=address, shards=1 if one else shards, cpus=cpus, gpus=0, most_shards=MOST_SHARDS,
             progress=progress)
    finally:
        shutil.rmtree(parts, ignore_errors=True)
    from .results import Results
    return Results.read(where)


def capture(model: StrPath | Callable[[], Callable[[Sink], Any]], output: StrPath, *, workers: int | None = None,
            address: str | None = None, shards: int | None = None, cpus: float = 1, gpus: float | None = None,
            progress: Progress = None, **settings: Any) -> Outcome:
    """A capture, shared by workers: the bytes that one process makes on one kind of device.

    model     a model that the library itself runs on the processor: a folder, a GGUF file, or "org/name" in the
              Hugging Face cache. Then `settings` are the options of `qkscope capture`, `text` among them, and what
              comes out is what that command writes.
              Or a function, for a model that runs elsewhere, such as on a GPU. It is called once in each worker, and
              returns the function that makes a shard: that is called with a qkscope.Sink for each shard, and puts
              into it the texts that the sink wants. Then `settings` are those of qkscope.Sink.
    output    folder for the capture. On a cluster it has to be in a folder that all machines share.
    workers   how many; None: as many as there are GPUs, or without any, CPUs for
    address   of a cluster; see analyze
    shards    into how many parts the texts are cut, 64 at most; None: four for each worker. The library opens its
              model and reads all texts once for each.
    cpus      of each worker
    gpus      of each worker; None: one, if there are any and `model` is a function
    progress  as in qkscope.analyze; what is counted are shards
    settings  without shard and force: a capture that is there is not replaced

        qkscope.ray.capture("llama-3-8b", "capture", text="passages.jsonl", keep="moments,reservoir=8")

        def load():
            model = AutoModelForCausalLM.from_pretrained(NAME, dtype="bfloat16").to("cuda")
            tokenizer = AutoTokenizer.from_pretrained(NAME)
            return lambda sink: qkscope.hf.capture(model, tokenizer, texts, sink)

        qkscope.ray.capture(load, "capture", keep="moments,reservoir=8")

    Returns what there is, as Sink.finish does. Raises what the model, its function and the sink raise; what was
    finished before stays, and the same call goes on behind it."""
    _check_plan(workers, shards, cpus)
    where = os.path.abspath(os.fspath(output))
    given = {"threads": max(1, int(cpus)), **settings}
    if callable(model):
        _check_sink(given)
        make = partial(_fillings, model, where, given)
    else:
        from . import _recorder
        make = partial(_recordings, _recorder.absolute(model), where, _recorder.settle(given))
        gpus = gpus or 0
    outcome: Outcome = _run(where, make, lambda outcome: bool(outcome.complete), partial(_end_capture, where),
                            workers=workers, address=address, shards=shards, cpus=cpus, gpus=gpus,
                            most_shards=MOST_BLOCKS, progress=progress)
    return outcome


# ---- what workers do ------------------------------------------------------------------------

def _gathered(function: Callable[..., Any], *arguments: Any) -> tuple[Any, list[str]]:
    """What a function gives, and the warnings that it gave with it, for the caller to tell."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*arguments)
    return result, [str(w.message) for w in caught]


def _layers_of(capture: str, settings: Mapping[str, Any]) -> list[int]:
    """Those with heads that are asked for."""
    from .captures import Capture
    wanted = Settings("qk_analysis_settings_table")
    for name in ("layers", "heads"):
        wanted.set(name, settings.get(name))
    layers, heads = ffi.addressof(wanted.values.layers), ffi.addressof(wanted.values.heads)
    with Capture(capture, settings.get("split"), settings.get("revision")) as here:
        return sorted({one.layer for one in here.heads if one.kind == "q" and lib.qk_index_list_has(layers, one.layer)
                       and lib.qk_head_set_has(heads, one.layer, one.head)})


def _analyses(analysis: str, capture: str, parts: str, settings: Mapping[str, Any]) -> Callable[[int, int], Any]:
    from . import analyses
    function = getattr(analyses, analysis)

    def compute(index: int, count: int) -> bool:
        """False: the tables are joined at the end."""
        own = _layers_of(capture, settings)[index::count] if count > 1 else []
        if own or index == 0:
            function(capture, output=os.path.join(parts, f"{index:04}"), progress=False,
                     **{**settings, **({"layers": own} if own else {})})
        return False
    return partial(_gathered, compute)


def _end_analysis(parts: str, output: str, force: bool, _shards: int) -> Any:
    from .results import Results
    folders = [os.path.join(parts, name) for name in sorted(os.listdir(parts))]
    if len(folders) == 1:
        return _gathered(Results.read(folders[0]).save, output, force)
    return _gathered(_join, folders, output, force)


def _join(folders: list[str], output: str, force: bool) -> str:
    from .results import Results
    return str(Results.join(folders, output, force).folder)


def _fillings(make: Callable[[], Callable[[Sink], Any]], output: str, options: Mapping[str, Any]
              ) -> Callable[[int, int], Any]:
    from .sink import Sink
    fill = make()

    def compute(index: int, count: int) -> Outcome:
        with Sink(output, shard=(index, count) if count > 1 else None, **options) as sink:
            fill(sink)
        if sink.outcome is None:
            raise ArgumentError("the function that `model` returned has left the sink without opening or finishing it")
        return sink.outcome
    return partial(_gathered, compute)


def _recordings(model: StrPath, output: str, options: Mapping[str, Any]) -> Callable[[int, int], Any]:
    from ._recorder import record

    def compute(index: int, count: int) -> Outcome:
        return record(model, output, (index, count) if count > 1 else None, options)
    return partial(_gathered, compute)


def _end_capture(output: str, _shards: int) -> Any:
    from .merging import merge
    return _gathered(merge, output)


# ---- what the caller does -------------------------------------------------------------------

def _check_sink(given: dict[str, Any]) -> None:
    import inspect

    from .sink import Sink
    for name in given:
        if name in ("shard", "force", "output") or name not in inspect.signature(Sink).parameters:
            raise TypeError(f"capture() got an unexpected keyword argument {name!r}")


def _check_plan(workers: int | None, shards: int | None, cpus: float) -> None:
    """Before Ray begins, which takes seconds, as all that follows."""
    for name, value in (("workers", workers), ("shards", shards)):
        if value is not None:
            whole(value, name, 1)
    if not hasattr(cpus, "__float__") or not 0 < float(cpus) < 1e6:
        raise wrong("cpus", cpus, "expected a number above 0")


def _check_keywords(analysis: str, settings: dict[str, Any]) -> None:
    """The names and each value by itself. How they fit together is said by the first worker."""
    from . import analyses
    keywords: Keywords = vars(analyses)[f"_{analysis.upper()}"]
    keywords.settings("analyze", settings, ("workers", "address", "shards", "cpus", "analysis"))


def _check_capture(path: StrPath, settings: Mapping[str, Any], address: str | None) -> None:
    """Whether it is there. A dataset may be in the workers' cache alone, where these are on other machines."""
    import sys
    begun = sys.modules.get("ray")
    elsewhere = address or os.environ.get("RAY_ADDRESS") or (begun is not None and begun.is_initialized())
    if not elsewhere or os.path.isabs(path):
        from .captures import Capture
        Capture(path, settings.get("split"), settings.get("revision"))


class _Shown:
    """What the user sees of a run: its shards, and what the workers say, each thing once."""

    def __init__(self, progress: Progress) -> None:
        from ._run import _Display, Watch
        self.watch = Watch()
        self.display = _Display(self.watch, progress)
        self.told: set[str] = set()

    def show(self, done: int, total: int) -> None:
        self.watch.state = ("shards", done, total)
        self.display.update()
        if self.watch.stop:
            raise Cancelled(f"stopped behind {done} of {total} shards; the same call goes on with a capture")

    def tell(self, messages: list[str]) -> None:
        from ._run import warn
        for message in messages:
            if message not in self.told and IDLE not in message:
                warn(message)
        self.told.update(messages)


def _run(output: str, make: Callable[[], Callable[[int, int], Any]], is_whole: Callable[[Any], bool],
         end: Callable[[int], Any], *, workers: int | None, address: str | None, shards: int | None, cpus: float,
         gpus: float | None, most_shards: int, progress: Progress) -> Any:
    """Runs all shards. The outcome of one that put all together; if none did, that of `end`, on a machine of the
    cluster."""
    shown = _Shown(progress)
    found = None
    try:
        with cluster(address, workers, cpus) as ray:
            plan = plan_of(ray, output, workers, shards, cpus, gpus, most_shards)
            with Pool(ray, plan, make, shown) as pool:
                for outcome, messages in pool.results():
                    shown.tell(messages)
                    found = outcome if is_whole(outcome) else found
                if found is None:
                    found, messages = pool.elsewhere(end, plan.shards)
                    shown.tell(messages)
        return found
    finally:
        shown.display.bar.close()
