# SPDX-License-Identifier: Apache-2.0
"""qkscope-export: `qkscope.export` from a shell, with its keywords as options."""
from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

from .._call import ArgumentError, Error, ffi, lib
from ..outcomes import Export
from . import FORMATS, export

DESCRIPTION = """\
Writes what is known of heads as other programs read it, into DIR. RESULTS is a capture of all heads of all layers, with rows or
moments, or the folder of an ablation (docs/howto/export.md).

"""
EXAMPLES = """examples:
  qkscope export triattention capture/pre -o triattention
  qkscope export key-means capture/post -o means --k-rot
  qkscope export duo-attention ablation -o duo
  qkscope export layer-types ablation -o types --model MODEL --tolerance 0.005"""
LIST = "\n".join(f"  {name:<18}{module.ABOUT}" for name, module in FORMATS.items())
# Of each keyword: the value's name ("": it is a flag), the option's group, what it does.
OPTIONS = {
    "dataset": ("NAME", "Output", "kvpress-stats: what config.json calls the texts"),
    "revision": ("REV", "Input", "branch, tag or commit of a dataset on the Hub (default: main)"),
    "split": ("DIR", "Input", "sub-folder of the capture (default: find it)"),
    "q_per_kv_group": ("G", "Input", "query heads per key head (default: as the capture tells)"),
    "from_position": ("K", "Input", "leave out rows of positions below K (default: 4 for kvpress-stats, else 0)"),
    "model": ("MODEL", "Input", "the model whose heads these are: a folder or a name of the Hub that is cached (default: as the "
              "capture tells; layer-types needs it)"),
    "from_": ("WHAT", "Formats", "duo-attention: ablation, attention (as measured) or means (default: the first that there is)"),
    "sink": ("N", "Formats", "duo-attention: first keys that a head without far keys sees"),
    "recent": ("N", "Formats", "duo-attention: latest keys that it sees (default: 256); layer-types: the window (default: that of "
               "the ablation)"),
    "length": ("N", "Formats", "duo-attention: tokens of the text that means are predicted for"),
    "k_rot": ("", "Formats", "key-means: for a cache whose keys are turned (q4_0 by default)"),
    "tolerance": ("NATS", "Formats", "layer-types: a layer may have a window if the interval of its loss ends below this"),
    "held_out": ("CAPTURE", "Formats", "triattention, triattention-ggml: rows before RoPE of other texts, to check the file with"),
    "threads": ("N", "Running", "processors at work (default: all)"),
}
_TYPES = {**dict.fromkeys(("q_per_kv_group", "from_position", "sink", "recent", "length", "threads"), int), "tolerance": float}
_LETTERS = {"model": "-m", "threads": "-j"}


class Parser(argparse.ArgumentParser):
    """argparse passes over texts that cannot be written."""

    def _print_message(self, message: str, file: Any = None) -> None:
        try:
            print(message, end="", file=file or sys.stderr, flush=True)
        except OSError as error:
            print(f"{self.prog}: {error}", file=sys.stderr)
            sys.exit(1)


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="qkscope-export", description=DESCRIPTION + LIST, epilog=EXAMPLES, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", metavar="FORMAT", help="one of those above")
    parser.add_argument("results", metavar="RESULTS", help="a capture, or org/name of one on the Hub; or an ablation's folder")
    groups = {name: parser.add_argument_group(name) for name in ("Output", "Input", "Formats", "Running")}
    groups["Output"].add_argument("-o", "--output", metavar="DIR", required=True, help="folder for the files")
    groups["Output"].add_argument("--force", action="store_true", help="replace files that DIR has of an export")
    groups["Input"].add_argument("--offline", action="store_true", help="fetch nothing: take what is in the cache")
    defaults = export.__kwdefaults__ or {}
    for name, (value, group, told) in OPTIONS.items():
        flags = [*([_LETTERS[name]] if name in _LETTERS else []), "--" + name.strip("_").replace("_", "-")]
        if not value:
            groups[group].add_argument(*flags, action="store_true", dest=name, help=told)
            continue
        told += "" if defaults[name] is None else f" (default: {defaults[name]})"
        groups[group].add_argument(*flags, metavar=value, default=defaults[name], dest=name, type=_TYPES.get(name, str), help=told)
    parser.add_argument("--list", action="version", version=LIST, help="print the formats, a line each")
    return finish_parser(parser, groups["Running"])


def finish_parser(parser: argparse.ArgumentParser, group: Any) -> argparse.ArgumentParser:
    """With the options that all programs have."""
    group.add_argument("-q", "--quiet", action="store_true", help="print errors and warnings only")
    group.add_argument("--json", action="store_true", help="print the outcome as JSON")
    group.add_argument("--version", action="version", version=f"{parser.prog} {ffi.string(lib.qk_version()).decode()}")
    return parser


def tell(args: argparse.Namespace, made: Export) -> None:
    if args.json:
        print(json.dumps({"format": made.format, "output": str(made.folder), "files": list(made.files), "heads": made.heads,
                          "unsure": made.unsure, "says": made.says}, indent=2))
    elif not args.quiet:
        unsure = f"; the sign of {made.unsure} of their query heads is not sure" if made.unsure else ""
        says = f": {made.says}" if made.says else ""
        print(f"{made.heads} {'key ' * bool(unsure)}head{'s' * (made.heads != 1)} for {made.format}{unsure}{says}",
              *(made.folder / name for name in made.files), sep="\n")


def _show(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


def attempt(program: str, act: Callable[[], Any]) -> int:
    """Returns the exit code: 0 ok, 1 failure, 2 usage, 130 stopped by Ctrl-C."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _show
            act()
        return 0
    except ArgumentError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{program}: stopped", file=sys.stderr)
        return 130  # as shells say of SIGINT
    except (Error, ImportError, OSError, ValueError, MemoryError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1


def main(argv: list[str] | None = None) -> int:
    parser = make_parser()
    args = parser.parse_args(argv)
    given = {name: getattr(args, name) for name in ("force", "offline", *OPTIONS)}
    return attempt(parser.prog, lambda: tell(args, export(
        args.format, args.results, args.output, progress=False if args.quiet else None, **given)))
