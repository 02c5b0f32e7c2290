# SPDX-License-Identifier: Apache-2.0
"""Sending a capture to a dataset of the Hugging Face Hub, by huggingface_hub: its token, its endpoint, its Xet."""
from __future__ import annotations

import argparse
import logging
import os
import pathlib
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._call import DataError, Error, NotFoundError, lib
from ._run import warn
from .inspection import inspect

_HEADS = re.compile(r"(l\d+h\d+[qk]|l\d+[qk])/[^/.][^/]*\.parquet|(moments|attention)/l\d+\.safetensors")
_PAPERS = ("README.md", "capture.json", "examples.csv", "truth.json")
# Folders in front of a name, in strings of JSON that name no member, in fields of CSV, in sentences of a card.
_FOLDERS = {".json": re.compile(r'(?<=")/(?:[^"/\\]|\\.)*/(?:(?:[^"/\\]|\\.)*/)*(?=(?:[^"/\\]|\\.)+"(?!\s*:))'),
            ".csv": re.compile(r'(?<=[,\n]")/(?:[^"/]|"")*/(?:(?:[^"/]|"")*/)*(?=(?:[^"/]|"")+")|(?<=[,\n])/[^,"\n/]*/(?:[^,"\n/]*/)*(?=[^,"\n/])'),
            ".md": re.compile(r'(?<![^\s`"\'(\[<=:])/(?!/)(?:[^\s`"\'()\[\]<>,;|*/]+/)+(?=[^\s`"\'()\[\]<>,;|*/])')}

logger = logging.getLogger("qkscope")


@dataclass(frozen=True)
class Push:
    """What was sent, or with dry_run what would be."""

    name: str
    revision: str
    files: tuple[str, ...]  # of the capture, README.md only where it is sent
    bytes: int
    address: str | None  # of the commit; None: nothing was sent


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise NotFoundError("sending needs huggingface_hub: pip install -U huggingface_hub", lib.QK_ERR_NOT_FOUND) from error
    return huggingface_hub


def _refuse(message: str) -> DataError:
    return DataError(message, lib.QK_ERR_INCONSISTENT)


def _own_files(capture: str | os.PathLike[str], split: str | None) -> tuple[pathlib.Path, list[str]]:
    """The folder of the heads, and what of it is the capture's. One that is not whole is refused."""
    if not os.path.isdir(capture):
        raise NotFoundError(f"{os.fspath(capture)}: no such folder", lib.QK_ERR_NOT_FOUND)
    if os.path.isdir(os.path.join(capture, split or "", ".partial")):
        raise _refuse(f"{os.fspath(capture)}: an unfinished capture; the command that began it, run again, completes it")
    found = inspect(capture, split=split, progress=False)
    folder = pathlib.Path(found.path)
    if not found.complete:
        raise _refuse(f"{folder}: capture.json says that this capture was not finished")
    if found.num_missing:
        raise _refuse(f"{folder}: {found.num_missing} heads that capture.json lists are missing")
    for head in found.heads:
        if head.error:
            raise _refuse(head.error)
    files = []
    for path in sorted([*folder.iterdir(), *folder.glob("*/*")]):
        name = path.relative_to(folder).as_posix()
        if not (_HEADS.fullmatch(name) or name in _PAPERS):
            continue
        if path.is_symlink() or path.parent != folder and path.parent.is_symlink():
            raise _refuse(f"{path}: a link, which is not followed: put a copy in its place (cp -rL)")
        files.append(name)
    return folder, files


def _content(path: pathlib.Path, name: str) -> pathlib.Path | bytes:
    """What is sent of a file: of a paper, its text without folders of this machine."""
    if name not in _PAPERS:
        return path
    text = path.read_bytes().decode(errors="surrogateescape")
    return _FOLDERS[path.suffix].sub("", text).encode(errors="surrogateescape")


def _make_branch(api: Any, name: str, revision: str, private: bool) -> bool:
    """Dataset and branch, where they are missing; whether the branch is new, so that what it has is main's. It begins
    where main is, and is still there where a run was stopped before its commit."""
    api.create_repo(name, repo_type="dataset", private=private, exist_ok=True)
    branches = {branch.name: branch.target_commit for branch in api.list_repo_refs(name, repo_type="dataset").branches}
    if revision not in branches:
        api.create_branch(name, branch=revision, repo_type="dataset", exist_ok=True)
    elif revision == "main" or branches[revision] != branches.get("main"):
        return False
    return True


def push(capture: str | os.PathLike[str], name: str, *, revision: str | None = None, private: bool = True,
         dry_run: bool = False, split: str | None = None, message: str | None = None, delete: bool = False,
         replace_card: bool = False) -> Push:
    """Sends a capture to a branch of a dataset on the Hub: its rows, moments, capture.json, README.md, examples.csv
    and truth.json, and nothing else. Dataset and branch are made where they are missing.

    capture       its folder; one that is not finished, or with links in it, is refused
    name          "org/name"
    revision      a branch; None: main
    private       of a dataset that is made for it
    dry_run       say what would be sent; ask the Hub nothing
    split         the sub-folder that holds the capture; None: the only one
    message       title of the commit
    delete        remove from the branch the heads that another capture has left there
    replace_card  a README.md that the branch has; else it stays

    Absolute paths in texts are sent as names of files. What is on the Hub already is not sent again, also after an
    upload that was stopped. Raises DataError and NotFoundError, and what huggingface_hub raises.
    """
    folder, files = _own_files(capture, split)
    branch = revision or "main"
    size = sum((folder / name).stat().st_size for name in files)
    if dry_run:
        return Push(name, branch, tuple(files), size, None)
    hub = _hub()
    api = hub.HfApi(library_name="qkscope")
    new = _make_branch(api, name, branch, private)
    there = set(api.list_repo_files(name, repo_type="dataset", revision=branch)) - {".gitattributes"}
    gone = sorted(there if new else (path for path in there - set(files) if _HEADS.fullmatch(path)))
    if gone and not new and not delete:
        warn(f"{name}: branch {branch} has {len(gone)} files of another capture, {gone[0]} for one: who fetches this "
             "one gets them, too; delete=True removes them")
        gone = []
    if "README.md" in there & set(files) and not new and not replace_card:
        files.remove("README.md")
        logger.info("%s: the README.md of branch %s stays; replace_card=True replaces it", name, branch)
    commit = api.create_commit(name, [hub.CommitOperationAdd(file, _content(folder / file, file)) for file in files]
                               + [hub.CommitOperationDelete(path) for path in gone if path not in files], repo_type="dataset",
                               revision=branch, commit_message=message or f"Capture {folder.name}")
    return Push(name, branch, tuple(files), size, str(commit.commit_url))


def _stop(number: int, _frame: Any) -> None:
    """At once, and by the signal: huggingface_hub waits for files on their way before it lets an interrupt through."""
    print("qkscope-push: stopped; what was sent stays, the same command goes on", file=sys.stderr, flush=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def main(arguments: Sequence[str] | None = None) -> int:
    """qkscope-push: the same as a command, also as `qkscope push`."""
    parser = argparse.ArgumentParser("qkscope-push", description="Sends a capture to a dataset on the Hugging Face Hub.")
    parser.add_argument("capture", help="its folder")
    parser.add_argument("name", help="org/name of a dataset")
    parser.add_argument("--revision", metavar="BRANCH", help="branch (default: main)")
    parser.add_argument("--public", action="store_true", help="a dataset that is made for it is public, not private")
    parser.add_argument("--dry-run", action="store_true", help="say what would be sent, and send nothing")
    parser.add_argument("--split", metavar="PREFIX", help="sub-folder, where there are several captures")
    parser.add_argument("--message", metavar="TEXT", help="title of the commit")
    parser.add_argument("--delete", action="store_true", help="remove heads that another capture has left on the branch")
    parser.add_argument("--replace-card", action="store_true", help="a README.md on the branch, too; else it stays")
    given = vars(parser.parse_args(arguments))
    given["private"] = not given.pop("public")
    signal.signal(signal.SIGINT, _stop)
    try:
        pushed = push(**given)
    except (Error, OSError) as error:  # those of huggingface_hub are of the system's, too
        print(f"qkscope-push: {error}", file=sys.stderr)
        return 1
    print("\n".join(pushed.files) if given["dry_run"] else pushed.address)
    return 0
