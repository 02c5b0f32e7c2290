# SPDX-License-Identifier: Apache-2.0
"""From a model to a file for another program in one step: a capture of moments, its export, and how good that is on a text that
it has not seen. `qkscope-calibrate`, which `qkscope calibrate` runs."""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .._call import call, ffi, files_of, lib
from .._checks import path_of
from .._recorder import KEYWORDS, run_recorder
from .._run import Progress, warn
from .._settings import StrPath, wrong
from ..captures import find
from ..outcomes import Export
from . import FORMATS, _check, export, format_of
from ._files import check_place
from ._rotary import Layer, Rotary, model_rope
from .cli import Parser, attempt, finish_parser, tell

BUNDLED = Path(__file__).with_name("passages.jsonl")  # of the King James Bible
_PASSAGES, _HELD_OUT = 20, 5  # of them
_TABLES = (".jsonl", ".ndjson", ".jsonlines", ".json", ".parquet", ".csv", ".tsv")
LENGTH = 1024


@dataclass(frozen=True)
class Calibration:
    """What `qkscope calibrate` is about to do."""

    format: str
    tokens: int  # for the file
    windows: int  # of them
    held_out: int  # tokens to check it; 0: it is not checked
    text: str  # which
    seconds: float
    memory_bytes: int  # with the weights, which are read as the file has them


# ---- texts --------------------------------------------------------------------------------

def _bundled(work: Path, name: str, begin: int, end: int) -> Path:
    """Passages in a file, without the names of verses."""
    texts = [json.loads(line)["text"] for line in BUNDLED.read_text("utf-8").splitlines()[begin:end]]
    made = work / name
    made.write_text(re.sub(r"(?m)^\w+:\d+ ", "", "\n".join(texts)), "utf-8")
    return made


def _texts(work: Path, given: Sequence[StrPath], held_out: StrPath | None) -> tuple[list[StrPath], StrPath, str]:
    """For the file, to check it, and in words. Of one plain text the last quarter is held out."""
    if not given:
        return ([_bundled(work, "text", 0, _PASSAGES)], held_out or _bundled(work, "held-out", _PASSAGES, _PASSAGES + _HELD_OUT),
                "passages of the King James Bible, which come with qkscope")
    one = Path(os.fsdecode(given[0]))
    if held_out is not None or len(given) > 1 or not one.is_file() or one.suffix in _TABLES:
        return list(given), held_out or _bundled(work, "held-out", _PASSAGES, _PASSAGES + _HELD_OUT), ", ".join(map(str, given))
    data = one.read_bytes()
    cut = data.rfind(b" ", 0, len(data) * 3 // 4) + 1
    for name, part in (("text", data[:cut]), ("held-out", data[cut:])):
        (work / name).write_bytes(part)
    return [work / "text"], work / "held-out", f"{one}, of which the last quarter is held out"


# ---- before it begins ---------------------------------------------------------------------

def _costs(path: bytes, length: int, writer: Any, model: StrPath) -> tuple[int, float, int]:
    """Of a run over a text: a layer; its operations, over those of a run that ends at the first query head of that layer; bytes of
    memory. A model that the format has no place for is refused."""
    made, run = ffi.new("qk_model **"), ffi.new("qk_prefill_settings *")
    call(lib.qk_model_open, made, path, ffi.NULL)
    try:
        f = lib.qk_model_get_facts(made[0])
        if hasattr(writer, "settle"):
            rope = model_rope(os.fsdecode(path), str(model), 0, 0, 0, 0)
            heads: Any = SimpleNamespace(where=str(model), dim=f.head_dim)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it warns when it writes
                writer.settle(Rotary(heads, rope, [Layer(one, None, None) for one in rope.layers]))
        lib.qk_prefill_settings_default(run)
        whole, memory = (f_of(made[0], run, length) for f_of in (lib.qk_prefill_flops, lib.qk_prefill_bytes))
        layer = min(1, f.num_layers - 1)
        some = [ffi.new("bool[]", f.num_layers * count) for count in (f.num_q_heads, f.num_k_heads)]
        some[0][layer * f.num_q_heads] = True
        run.q_heads, run.k_heads = some
        moments = f.num_layers * (f.num_q_heads + f.num_k_heads) * f.head_dim * (f.head_dim + 5) * 8  # with first positions
        return layer, whole / lib.qk_prefill_flops(made[0], run, length), memory + moments + f.weight_bytes
    finally:
        lib.qk_model_close(made)


@contextlib.contextmanager
def _working(folder: Path, force: bool) -> Iterator[Path]:
    """A folder in `folder`, which both go with an error. Names of texts are in captures: the same command gives the same."""
    work, new = folder / ".qkscope-calibrate", not folder.exists()
    with files_of(work, "remove it, where no other calibration is at work there, or give --force"):
        if force:
            shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if new:
            with contextlib.suppress(OSError):  # it has files
                folder.rmdir()


# ---- the step -----------------------------------------------------------------------------

def calibrate(model: StrPath, text: StrPath | Sequence[StrPath] | None = None, *, format: str, output: StrPath,
              held_out: StrPath | None = None, check: bool = True, dry_run: bool = False, force: bool = False, k_rot: bool = False,
              about: Callable[[Calibration], Any] | None = None, progress: Progress = None,
              **capture: Any) -> Export | Calibration:
    """Runs a model over texts and writes a file for another program, of a format of `qkscope.export`.

        qkscope.calibrate("model.gguf", format="triattention", output="out")

    text      files or folders, as qkscope capture takes them; None: passages of the King James Bible
    held_out  a text to check the file with; None: of one file of plain text the last quarter, else bundled passages
    check     correlate scores of held-out rows with those that the file predicts (triattention, triattention-ggml)
    dry_run   return only what it would take
    force     replace files of an export that output has
    k_rot     as in qkscope.export
    about     is called with what it takes before the work begins
    capture   options of qkscope capture, such as max_length=1024 (windows of so many tokens), long, threads, dtype

    Raises what qkscope.export raises, and DataError, NotFoundError for a model or a text that cannot be read.
    """
    writer = format_of(format)
    stage = getattr(writer, "STAGE", "pre")
    if stage is None:
        raise wrong("format", format, "is made of an ablation: qkscope ablate, then qkscope export")
    check = check and "held_out" in writer.KEYWORDS
    KEYWORDS.check("calibrate", capture)
    folder = Path(os.fsdecode(output))
    check_place(folder, (*writer.FILES, _check.NAME), force)
    given = [] if text is None else [text] if isinstance(text, (str, os.PathLike)) else list(text)
    options = {"max_length": LENGTH, **capture, "stage": stage, "groups": 0, "sampler": "all"}
    length = options["tokens_at_once"] = options["max_length"]
    path = find(path_of(model, "model"), None, capture.get("revision"), capture.get("offline", False), progress, lib.QK_HUB_MODEL)
    layer, ratio, memory = _costs(path, length, writer, model)
    probe = {"heads": f"{layer}:0", "kinds": "q", "keep": "moments"}  # a layer is run
    with _working(folder, force) as work, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*qkscope-calibrate/.*: cut after|.* examples are .* texts")
        texts, window, words = _texts(work, given, held_out)

        def record(name: str, show: Progress, **more: Any) -> Any:
            return run_recorder(model, str(work / name), None, {**options, **more}, show)
        made, rows = record("layer", False, text=texts, **probe), None
        if check:
            rows = record("layer-held-out", False, **{**probe, "text": window, "long": "cut"})
            if rows.tokens <= _check.FIRST_ROW:
                warn(f"the held-out text has {rows.tokens} tokens, and more than {_check.FIRST_ROW} are needed: the file is not checked")
                rows = None
        seconds = ratio * (made.seconds_running + (rows.seconds_running if rows else 0))
        forecast = Calibration(format, made.tokens, made.windows, rows.tokens if rows else 0, words, seconds, memory)
        if about is not None:
            about(forecast)
        if dry_run:
            return forecast
        record("capture", progress, text=texts, keep="moments,first=4")
        if rows:
            record("rows", progress, text=window, long="cut", keep="rows")
        return export(format, work / "capture", output, force=force, held_out=work / "rows" if rows else None, k_rot=k_rot,
                      threads=capture.get("threads"), progress=progress)


# ---- the program --------------------------------------------------------------------------

DESCRIPTION = """\
Runs a model over texts and writes a file for another program into DIR: a capture of moments and its export (qkscope capture, qkscope
export) in one step. MODEL is a folder, a GGUF file, or org/name on the Hugging Face Hub. Without TEXT it reads passages of the King
James Bible (public domain), some thousand tokens. It says how long it takes before it begins, and in the end how good the file is: on
a text that it has not seen, how the scores of keys that the file predicts correlate with those that the model has (docs/howto/export.md).
While it works DIR needs room for the rows of one window."""
EXAMPLES = """examples:
  qkscope calibrate model.gguf --for triattention -o out
  qkscope calibrate org/name book.txt --for key-means -o out --max-length 512
  qkscope calibrate org/name --for triattention -o out --dry-run"""
# Of each option of `qkscope capture`: its value's name, and what it does.
_CAPTURE = {
    "max_length": ("N", f"tokens of a window (default: {LENGTH})", int),
    "long": ("WHAT", "longer texts are split into windows, or cut after one (default: split)", str),
    "tokenizer": ("FILE", "tokenizer.json or its folder, or a GGUF file (default: the model's)", str),
    "revision": ("REV", "branch, tag or commit of a model on the Hub (default: main)", str),
    "dtype": ("TYPE", "float32, or bf16 on processors that have it (default: float32)", str),
    "threads": ("N", "processors at work (default: all)", int),
}


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="qkscope-calibrate", description=DESCRIPTION, epilog=EXAMPLES, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("model", metavar="MODEL", help="a folder, a GGUF file, or org/name on the Hub")
    add("text", metavar="TEXT", nargs="*", help="files or folders of texts, as qkscope capture takes them")
    add("--for", dest="format", metavar="FORMAT", required=True, help="what to write; qkscope export --list has the formats")
    add("-o", "--output", metavar="DIR", required=True, help="folder for the files")
    add("--force", action="store_true", help="replace files that DIR has of an export")
    add("--held-out", metavar="TEXT", help="a text to check the file with (default: the last quarter of a plain text, else a bundled one)")
    add("--no-check", dest="check", action="store_false", help="do not check the file")
    add("--dry-run", action="store_true", help="say what it would take, and end")
    add("--k-rot", action="store_true", help="key-means: for a cache whose keys are turned (q4_0 by default)")
    add("--offline", action="store_true", help="fetch nothing: take what is in the cache")
    for name, (value, told, kind) in _CAPTURE.items():
        flags = ["-j"] * (name == "threads") + ["--" + name.replace("_", "-")]
        add(*flags, metavar=value, type=kind, default=argparse.SUPPRESS, help=told)
    return finish_parser(parser, parser)


def _say(args: argparse.Namespace, made: Calibration) -> None:
    if args.json and args.dry_run:
        print(json.dumps(asdict(made), indent=2))
    elif not args.quiet and not args.json:
        held_out = f", and {made.held_out} to check it" if made.held_out else ""
        size = f"{made.memory_bytes / 1e9:.1f} GB" if made.memory_bytes > 1e9 else f"{made.memory_bytes / 1e6:.0f} MB"
        print(f"{made.tokens} tokens in {made.windows} window{'s' * (made.windows != 1)}{held_out}: {made.text}\n"
              f"about {made.seconds:.0f} s, {size} of memory", flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = make_parser()
    args = parser.parse_args(argv)
    given = {name: value for name, value in vars(args).items() if name not in ("quiet", "json")}

    def act() -> None:
        made = calibrate(given.pop("model"), given.pop("text"), about=lambda it: _say(args, it),
                         progress=False if args.quiet else None, **given)
        if isinstance(made, Export):
            tell(args, made)
    return attempt(parser.prog, act)
