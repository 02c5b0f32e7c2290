# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed at any call that changes a folder, and run again, end in the bytes of an undisturbed run; at no
time does anything say that it is complete and is not. Memory does not grow with the number of texts."""
import os
import shutil
import signal
import sys

import pytest

from conftest import ROOT, TIER
from recording import files_of, killed, some_texts, write_jsonl, write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    write_model(folder, num_hidden_layers=2)
    return folder


def calls(in_test, in_all):
    """The first call and every so many of those after it."""
    return range(1, 999, {"test": in_test, "all": in_all, "long": 1}[TIER])


def own_files(folder):
    """What lies in a folder besides an unfinished run and files not named yet."""
    return {k: v for k, v in files_of(folder).items()
            if not k.startswith(".partial") and ".tmp-" not in k}


def complete(folder):
    path = folder / "capture.json"
    return path.exists() and b'"complete": true' in path.read_bytes()


def check_unfinished(folder, whole):
    """Of two stages one may be there."""
    for place in filter(complete, (folder, folder / "post", folder / "pre")):
        assert own_files(place) == files_of(whole / place.relative_to(folder))


@pytest.fixture(scope="module")
def begin(qkscope, model, tmp_path_factory):
    """begin(options) -> (the command up to its folder, the folder that an undisturbed run makes)"""
    def begin(options):
        folder = tmp_path_factory.mktemp("whole")
        texts = some_texts(30, 250, 350) + ["".join(some_texts(9, 500, 501))] + some_texts(30, 300, 350)  # three blocks
        source = write_jsonl(folder / "t.jsonl", texts, [f"t{i}" for i in range(len(texts))])
        words = ["capture", "-m", model, "-t", source, "--sampler", "uniform", "--heads", "0,2", "--tokens-at-once", "2000", "--id-column",
                 "id", *options, "-o"]
        qkscope(*words, folder / "c", expect=0)
        return words, folder / "c"
    return begin


@pytest.mark.parametrize("options", [["--rows", "500", "--token-strings"], ["--stage", "both", "--bucket", "4", "--max-rows", "9"],
                                     ["--max-length", "60"]])
def test_killed_and_resumed(program, begin, tmp_path, options):
    """Between blocks of texts and within a long one, while files are put together; the run that goes on is killed as well."""
    words, whole = begin(options)
    right = files_of(whole)
    for kills, n in enumerate(calls(17, 4)):
        folder = tmp_path / str(n)
        if killed(program, n, *words, folder, "--threads", n % 3 + 1) is None:
            break
        for again in (n, n // 2 + 3, 0):
            check_unfinished(folder, whole)
            killed(program, again, *words, folder)
        assert files_of(folder) == right
    print(f"\n{kills} kills")
    assert kills > 2 and files_of(folder) == right


def test_stopped(program, qkscope, begin, tmp_path):
    """By a signal that it takes: it says how to go on, or ends what it had nearly done."""
    words, whole = begin([])
    stops = 0
    for n in calls(41, 7):
        folder = tmp_path / str(n)
        said = killed(program, n, *words, folder, by=signal.SIGTERM)
        stops += said is not None
        assert said is None or "resumes it" in said or "which goes on" in said
        check_unfinished(folder, whole)
        qkscope(*words, folder, expect=0)
        assert files_of(folder) == files_of(whole)
        if n > 200:
            break
    assert stops > 1


OTHER, BOTH = ["--bucket", "7"], ["--stage", "both"]
WAYS = [([], [], "exchange"), ([], OTHER, "exchange"), ([], OTHER + BOTH, "no exchange"),
        ([], [], "no exchange"), ([], OTHER, "other files"), (BOTH, BOTH, "exchange"),
        (BOTH, OTHER + BOTH, "exchange"), (BOTH, OTHER, "no exchange"), (BOTH, OTHER + BOTH, "other files")]


@pytest.mark.test_all
@pytest.mark.parametrize("options, old_options, way", WAYS)
def test_replacing_killed_at_every_change(program, qkscope, model, tmp_path, options, old_options, way):
    """With --force there is the old capture or the new one. Where the two cannot change places in one
    step, there may be one that no reader takes and the next run completes. Never a mixture."""
    texts = write_jsonl(tmp_path / "t.jsonl", some_texts(3))
    base = ["capture", "-m", model, "-t", texts, "--sampler", "all", "--threads", "1", "--layers", "1", "--heads", "0"]
    qkscope(*base, *options, "-o", tmp_path / "whole", expect=0)
    qkscope(*base, *old_options, "-o", tmp_path / "old", expect=0)
    other = {}
    if way == "other files":
        other = {"notes.txt": b"mine"} | ({"post/mine": b"too"} if "--stage" in old_options else {})
        for name, contents in other.items():
            (tmp_path / "old" / name).write_bytes(contents)
    whole, old = {**files_of(tmp_path / "whole"), **other}, files_of(tmp_path / "old")
    assert (whole == old) == (old_options == options)
    refused = 0
    for kills, n in enumerate(calls(9, 2)):
        folder = tmp_path / str(n) / "c"
        shutil.copytree(tmp_path / "old", folder)
        words = [*base, *options, "-o", folder]
        if killed(program, n, *words, "--force", exchange=way != "no exchange") is None:
            break
        there = own_files(folder)
        if there not in (old, whole):
            assert way != "exchange", sorted(there)
            refused += 1
            for place in [folder, folder / "post", folder / "pre"]:
                if complete(place):
                    assert place != folder  # one of two that is old or new
                    files = {(f"{place.name}/{k}", v) for k, v in own_files(place).items()}
                    assert old.items() >= files or whole.items() >= files
                elif place.is_dir():
                    assert qkscope("pca", place, "-o", tmp_path / "results").code != 0
        again = qkscope(*words)
        if again.code != 0:  # it had not begun
            assert there == old != whole and "--force" in again.err
            qkscope(*words, "--force", expect=0)
        assert files_of(folder) == whole and os.listdir(folder.parent) == ["c"]
        shutil.rmtree(folder.parent)
    assert files_of(folder) == whole and os.listdir(folder.parent) == ["c"]
    print(f"\n{kills} kills, {refused} times there was neither the old nor the new capture")
    assert kills > 10 and (way == "exchange") == (refused == 0)


@pytest.mark.test_long  # what an allocator holds depends on how threads take turns
def test_memory_does_not_grow_with_texts(program, model, tmp_path, sanitized):
    if sanitized:
        pytest.skip("a sanitizer has memory of its own")
    sys.path.append(str(ROOT / "bench"))
    from timed import timed
    peak = {}
    for count in (400, 8000):
        texts = write_jsonl(tmp_path / f"{count}.jsonl", some_texts(count, 300, 400))
        peak[count] = timed(program.parent, [program, "capture", "-m", model, "-t", texts, "-o", tmp_path / f"c{count}", "--sampler", "uniform",
                                             "--bucket", "4", "--tokens-at-once", "2000", "--threads", "2", "-q"])[1]
    print(f"\npeak memory in MiB by number of texts: {peak}")
    assert peak[8000] < 2 * peak[400] + 16
