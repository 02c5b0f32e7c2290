# SPDX-License-Identifier: Apache-2.0
"""qkscope-hf: `qkscope capture` for any transformers model, on any device. Its options are those of the library."""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from .._call import ArgumentError, DataError, Error, call, ffi, lib, text
from .._settings import default_of
from ..merging import find_shard
from ..sink import LAYOUTS, Sink
from .facts import decoder_of
from .guard import refuse_encoders

# Of `qkscope capture`, but told here in another way.
OWN = {"dtype", "model"}
HELP = {"threads": "threads that put the files together"}
DTYPES = ("float32", "bfloat16", "float16", "auto")
DESCRIPTION = """\
Runs a Hugging Face transformers model over texts and writes the queries and keys of its attention heads into DIR.
MODEL is a folder, or org/name, which transformers loads, quantised checkpoints included. Each TEXT is a file (one
text), a folder (all files below it), a .jsonl or .json file (one text a line, or a list), or a .parquet, .csv or .tsv
file (one a row).

A run that was stopped is resumed by the same command. The rows are those of `qkscope capture` for the same options.
docs/dev/models.md says which model types can be captured."""
EXAMPLES = """examples:
  qkscope-hf org/name --text passages.jsonl -o capture
        about 8,000 rows of each head and kind, drawn evenly; on the GPU where there is one
  qkscope-hf org/name -t books/ -o capture --keep moments,reservoir=8
        sums of every position in place of rows: the capture does not grow with the texts
  qkscope-hf org/name -t passages.jsonl -o capture --device-map auto --dtype bfloat16
        a model that is spread over all GPUs
  qkscope-hf folder -t passages.jsonl -o capture --stage both --layers 0,4,8 --long split --max-length 8192
        before and after RoPE, of three layers, in windows of 8,192 tokens
  qkscope-hf org/name -t passages.jsonl -o capture --shard 2/4
        the third of four processes that make one capture
then: qkscope analyze capture -o results"""


class Usage(Exception):
    """A command line that cannot be."""


def _add_rows(parser: argparse.ArgumentParser, settings: Any) -> None:
    """The library's settings as options, with their help."""
    sections: dict[str, Any] = {}
    for i in range(lib.qk_settings_count(settings)):
        row = lib.qk_settings_row(settings, i)
        name = text(row.name) or ""
        if name in OWN:
            continue
        section = text(row.section) or "Settings"
        group = sections.setdefault(section, parser.add_argument_group(section))
        _add_row(group, row, name, default_of(settings, row))


def _add_row(group: Any, row: Any, name: str, default: Any) -> None:
    flags = [f"--{name}"]
    if row.letter != b"\0":
        flags.insert(0, "-" + row.letter.decode())
    told = HELP.get(name, text(row.help) or "")
    unset = text(row.unset) or ("" if default in (None, False, True) else default)
    told += f" (default: {unset})" if unset != "" else ""
    options: dict[str, Any] = {"dest": f"set:{name}", "default": argparse.SUPPRESS, "help": told.replace("%", "%%")}
    if row.type == lib.QK_SETTING_FLAG:
        group.add_argument(*flags, action="store_const", const="true", **options)
        if row.off != ffi.NULL:
            options["help"] = text(row.off_help)
            group.add_argument(f"--{text(row.off)}", action="store_const", const="false", **options)
    elif row.type == lib.QK_SETTING_PATHS:
        group.add_argument(*flags, nargs="+", action="extend", metavar=text(row.value), **options)
    else:
        group.add_argument(*flags, metavar=_value(row), **options)


def _value(row: Any) -> str | None:
    words, i = [], 0
    while row.type == lib.QK_SETTING_CHOICE and row.words[i].text != ffi.NULL:
        words.append(text(row.words[i].text) or "")
        i += 1
    return "|".join(words) if words else text(row.value)


def make_parser(settings: Any) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="qkscope-hf", description=DESCRIPTION, epilog=EXAMPLES, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", nargs="?", help="a folder, or org/name")
    parser.add_argument("-m", "--model", dest="named", metavar="MODEL", help="the same")
    group = parser.add_argument_group("transformers")
    group.add_argument("--device", help="cpu, cuda, cuda:1, mps, ... (default: cuda where there is one, else cpu)")
    group.add_argument("--device-map", metavar="MAP", help="how transformers spreads the model: auto, balanced, ...")
    group.add_argument("--dtype", choices=DTYPES,
                       help="type of weights and numbers; auto: the checkpoint's (default: float32 on cpu, else auto)")
    group.add_argument("--attn", metavar="NAME",
                       help="attention implementation: eager, sdpa, flash_attention_2, ... (default: that of "
                       "transformers)")
    group.add_argument("--attention", choices=("sampled", "all"), default="sampled",
                       help="with --keep rows,attention: sum that of the rows that are kept, or of all (default: sampled)")
    group.add_argument("--trust-remote-code", action="store_true", help="run code that comes with the model")
    group.add_argument("--padding", action=argparse.BooleanOptionalAction, default=None,
                       help="run several texts side by side (default: not on cpu)")
    _add_rows(parser, settings)
    group = parser.add_argument_group("More")
    group.add_argument("--shard", metavar="I/N", help="do part I of N, counted from 0; the last process to end puts "
                       "the parts together; none: this process does all (default: as srun, sbatch --array, mpirun or "
                       "torchrun say, else none)")
    group.add_argument("--config", metavar="FILE", help="settings in YAML, as the original tool has them")
    group.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    group.add_argument("--json", action="store_true", help="print the outcome as JSON")
    group.add_argument("--version", action="version", version=f"qkscope-hf {text(lib.qk_version())}")
    return parser


class Settings:
    """Those of a run, with what the command line gives over what a file does."""

    def __init__(self) -> None:
        self.made = ffi.new("qk_settings **")
        self.config = ffi.new("qk_recorder_config **")
        self.kept: list[Any] = []
        call(lib.qk_settings_new, self.made, ffi.addressof(lib.qk_recorder_settings_table), b"capture")

    @property
    def values(self) -> Any:
        return ffi.cast("qk_recorder_settings *", lib.qk_settings_values(self.made[0]))

    def load(self, path: str) -> list[str]:
        """Notes on what is without effect here."""
        call(lib.qk_recorder_config_load, self.config, path.encode())
        ffi.memmove(self.values, lib.qk_recorder_config_settings(self.config[0]), ffi.sizeof("qk_recorder_settings"))
        count = lib.qk_recorder_config_num_notes(self.config[0])
        return [text(lib.qk_recorder_config_note(self.config[0], i)) or "" for i in range(count)]

    def set(self, given: dict[str, Any]) -> None:
        for name, value in given.items():
            for one in value if isinstance(value, list) else [value]:
                try:
                    call(lib.qk_settings_set, self.made[0], name.encode(), one.encode("utf-8", "surrogateescape"))
                except Error as error:
                    raise Usage(f"--{name} '{one}': {error}") from None
        of_file = self.config[0] != ffi.NULL
        try:
            call(lib.qk_recorder_settle_sampler, self.made[0], of_file, self.values)
        except Error as error:
            raise Usage(str(error)) from None

    def close(self) -> None:
        lib.qk_settings_free(self.made)
        lib.qk_recorder_config_free(self.config)


def load_model(args: argparse.Namespace, name: str, settings: Settings) -> tuple[Any, Any]:
    """Model and tokenizer, as transformers has them."""
    import torch
    import transformers
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    _try_device(torch, device)
    dtype = args.dtype or ("float32" if device == "cpu" and args.device_map is None else "auto")
    revision = text(settings.values.revision)
    common: dict[str, Any] = {"revision": revision, "trust_remote_code": args.trust_remote_code}
    if settings.values.context.offline:
        common["local_files_only"] = True
    options: dict[str, Any] = {**common, "dtype": dtype if dtype == "auto" else getattr(torch, dtype)}
    if args.attn:
        options["attn_implementation"] = args.attn
    if args.device_map:
        options["device_map"] = args.device_map
    if args.quiet or not sys.stderr.isatty():
        transformers.utils.logging.disable_progress_bar()
    with reading(name, "configuration"):
        config = transformers.AutoConfig.from_pretrained(name, **common)
    refuse_encoders(config)
    tokenizer = load_tokenizer(transformers, name, text(settings.values.tokenizer), common)
    overrides = text(settings.values.overrides)
    if overrides:
        options["config"] = _overridden(config, json.loads(overrides))
    try:
        with reading(name, "weights"):
            model, told = _loader(transformers, config).from_pretrained(name, output_loading_info=True, **options)
    except (ImportError, ValueError) as error:
        if args.attn:
            raise Usage(f"--attn {args.attn}: {error}: leave --attn out, or give one that runs here") from None
        raise
    refuse_missing(name, model, told)
    if not args.device_map and getattr(model, "hf_device_map", None) is None:
        model = model.to(device)
    return model.eval(), tokenizer


@contextlib.contextmanager
def reading(name: str, what: str, remedy: str = "") -> Iterator[None]:
    """Whatever a library says of a file that it cannot read becomes an error of ours that names it. Of models it says
    enough in errors of the usual kinds."""
    try:
        yield
    except (Error, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, (OSError, ImportError, ValueError)) and not remedy:
            raise
        said = (str(error).strip().splitlines() or [""])[0]
        raise DataError(f"{name}: its {what} cannot be read ({type(error).__name__}: {said}){remedy}") from error


def load_tokenizer(transformers: Any, name: str, named: str | None, common: dict[str, Any]) -> Any:
    """named: by --tokenizer, a file or what has a tokenizer in it."""
    with reading(named or name, "tokenizer", ": give another with --tokenizer"):
        if named and os.path.isfile(named):
            return transformers.PreTrainedTokenizerFast(tokenizer_file=named)
        found = transformers.AutoTokenizer.from_pretrained(named or name, **({} if named else common))
        if not callable(found):
            raise TypeError(f"it is a {type(found).__name__}")
        return found


# Of a decoder; heads of its own kind are outside of it.
NOT_RUN = ("pooler",)


def refuse_missing(name: str, model: Any, told: dict[str, Any]) -> None:
    """transformers puts random numbers where a checkpoint has no tensor, and goes on. That is as it should be of parts
    that are not run: an output layer, a classifier, a tower for images, what pools."""
    decoder = decoder_of(model)
    place = next((own for own, module in model.named_modules() if module is decoder), "")
    lacking = [key if isinstance(key, str) else key[0]
               for part in ("missing_keys", "mismatched_keys") for key in told.get(part) or ()]
    needed = sorted(key for key in lacking if key.startswith(place and place + ".")
                    and not any(part in NOT_RUN for part in key.split(".")))
    if not needed:
        return
    more = f" and {len(needed) - 1} others" if len(needed) > 1 else ""
    unknown = sorted(told.get("unexpected_keys") or ())
    other = f"; it has {unknown[0]}, which the model has not: is it of this model type?" if unknown else ""
    raise DataError(f"{name}: the checkpoint has no tensor {needed[0]}{more}, in whose place transformers puts random "
                    f"numbers{other}: get the whole checkpoint")


def _try_device(torch: Any, device: str) -> None:
    """Before a model is loaded for it."""
    try:
        torch.empty(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise Usage(f"--device {device}: {told[0].rstrip('.')}: use --device cpu, or one that is there") from None


def _loader(transformers: Any, config: Any) -> Any:
    """What loads a model: of text; else of images and text, and so on, whose text decoder it is that is run."""
    usual = transformers.AutoModelForCausalLM
    if any(name.startswith("AutoModelFor") for name in getattr(config, "auto_map", None) or ()):
        return usual
    for name in ("AutoModelForCausalLM", "AutoModelForImageTextToText", "AutoModelForMultimodalLM",
                 "AutoModelForSpeechSeq2Seq", "AutoModelForSeq2SeqLM", "AutoModel"):
        auto = getattr(transformers, name, None)
        if auto is not None and type(config) in auto._model_mapping:
            return auto
    own = (getattr(transformers, name, None) for name in config.architectures or ())
    return next((kind for kind in own if kind is not None), usual)


def _overridden(config: Any, overrides: dict[str, Any]) -> Any:
    """Keys of the text model's part of the configuration."""
    part = config.get_text_config(decoder=True)
    for name, value in overrides.items():
        old = getattr(part, name, None)
        setattr(part, name, {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value)
    return config


def make_sink(settings: Settings, args: argparse.Namespace, tokenizer: Any) -> Sink:
    v = settings.values
    layout = next(name for name, value in LAYOUTS.items() if getattr(lib, value) == v.layout)
    strings = tokenizer.convert_ids_to_tokens if v.token_strings else None
    return Sink(text(v.output) or "", keep=text(v.keep) or "rows,attention", groups=v.groups, layout=layout,
                shard=find_shard(args.shard), force=v.force, threads=v.context.threads,
                stage=("post", "pre", "both")[v.stage], token_strings=strings,
                on_notice=lambda level, told: notice(args, level, told))


def notice(args: argparse.Namespace, level: str, told: str) -> None:
    if level != "info" or not args.quiet:
        print(told if level == "info" else f"{level}: {told}", file=sys.stderr)


def run(args: argparse.Namespace, settings: Settings) -> None:
    given = {name.removeprefix("set:"): value for name, value in vars(args).items() if name.startswith("set:")}
    if args.config:
        for note in settings.load(args.config):
            notice(args, "info", f"note: {note}")
    settings.set(given)
    v = settings.values
    name = args.named or args.model or text(v.model)
    if not name:
        raise Usage("which model? qkscope-hf MODEL --text FILE -o DIR")
    if v.num_texts == 0:
        raise Usage("which texts? --text FILE")
    if not v.output:
        raise Usage("where to? -o DIR")
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise Usage(f"{error}: pip install torch transformers") from None
    from .bridge import run as run_bridge
    try:
        model, tokenizer = load_model(args, name, settings)
    except OSError as error:  # does not always say which model it is
        raise OSError(f"{name}: {error}") from None
    sink = make_sink(settings, args, tokenizer)
    with sink:
        outcome = run_bridge(model, tokenizer, None, sink, batch_tokens=v.tokens_at_once or 8192, options={},
                             padding=args.padding, attention=args.attention, progress=False if args.quiet else None, name=name,
                             on_notice=lambda level, told: notice(args, level, told), chosen=settings.made)
        complete_already = sink.complete
    report(args, settings, outcome, sink, complete_already)


def report(args: argparse.Namespace, settings: Settings, ran: Any, sink: Sink, complete_already: bool) -> None:
    made, where = sink.outcome, text(settings.values.output)
    rate = (ran.tokens - ran.tokens_before) / ran.seconds if ran.seconds > 0 else 0.0
    if args.json:
        told = {"output": where, "complete_already": complete_already, **{k: v for k, v in vars(ran).items()},
                **({} if made is None else vars(made)), "tokens_per_second": rate}
        print(json.dumps(told, indent=2))
    elif args.quiet:
        pass
    elif complete_already:
        print(f"{where} is complete already: nothing to do")
    elif made is not None and not made.complete:
        print(f"{made.blocks_there} of {made.blocks} blocks of texts are there; the process that makes the last one "
              f"puts the capture together in {where}", file=sys.stderr)
    elif made is not None:
        print(f"{ran.texts} texts in {ran.windows} windows, {ran.tokens} tokens, {rate:.0f} tokens/s")
        both = settings.values.stage == lib.QK_ROPE_BOTH
        rows = [f"{made.rows} rows"] * (made.rows > 0) + [f"sums of {made.summed} rows"] * (made.summed > 0)
        print(f"{' and '.join(rows)} of {made.heads} heads{' twice, before and after RoPE' * both}, "
              f"{made.bytes / 1e6:.1f} MB, in {where}\nNext: qkscope analyze {where}{'/post' * both} -o results")


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code: 0 ok, 1 failure, 2 usage, 130 stopped by Ctrl-C."""
    settings = Settings()
    try:
        args = make_parser(settings.made[0]).parse_args(argv)
        run(args, settings)
        return 0
    except (Usage, ArgumentError) as error:
        print(f"qkscope-hf: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("qkscope-hf: stopped; the same command resumes it", file=sys.stderr)
        return 130  # as shells say of SIGINT
    except (Error, ImportError, OSError, ValueError, RuntimeError, MemoryError) as error:
        print(f"qkscope-hf: {error}", file=sys.stderr)
        return 1
    finally:
        settings.close()
