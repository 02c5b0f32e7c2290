# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed at any moment and gone on with end in the bytes of an undisturbed run, and
memory does not grow with the number of texts."""
import os
import random
import shutil
import subprocess
import sys
import time

import pytest

from conftest import ROOT, environment
from recording import files_of, some_texts, write_jsonl, write_model

sys.path.append(str(ROOT / "bench"))
from timed import timed  # noqa: E402


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    write_model(folder)
    return folder


def command(program, model, texts, folder, *options):
    return [program, "capture", "-m", model, "-t", texts, "-o", folder, "--sampler", "uniform",
            "--bucket", "4", "--tokens-at-once", "2000", "--quiet", *options]


def kill_after(words, seconds):
    """True when it was killed, False when it had ended."""
    run = subprocess.Popen(words, env=environment())
    try:
        assert run.wait(timeout=seconds) == 0
        return False
    except subprocess.TimeoutExpired:
        run.kill()
        run.wait()
        return True


@pytest.mark.parametrize("options", [["--token-strings"], ["--stage", "both", "--max-rows", "9"]])
def test_killed_and_resumed(program, model, tmp_path, options):
    texts = write_jsonl(tmp_path / "t.jsonl", some_texts(300, 300, 400), [f"t{i}" for i in range(300)])
    options = [*options, "--id-column", "id"]
    start = time.monotonic()
    subprocess.run(command(program, model, texts, tmp_path / "whole", *options), check=True,
                   env=environment())
    duration = time.monotonic() - start
    whole = files_of(tmp_path / "whole")
    moments, killed = random.Random(len(options)), 0
    for i in range(10):
        folder = tmp_path / f"c{i}"
        words = command(program, model, texts, folder, *options, "--threads", str(i % 3 + 1))
        while kill_after(words, moments.uniform(0, duration)):
            killed += 1
            if killed % 4 == 0:
                subprocess.run(words, check=True, env=environment())
                break
        assert files_of(folder) == whole
    print(f"\n{killed} kills")
    assert killed >= 5


def own_files(folder):
    """What lies in a folder besides an unfinished run."""
    return {k: v for k, v in files_of(folder).items() if not k.startswith(".partial")}


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("options", [[], ["--stage", "both"], ["--force"]])
@pytest.mark.parametrize("call", ["rename", "unlink", "mkdir"])
def test_killed_at_every_change_of_the_folder(program, qkscope, model, tmp_path, sanitized, call,
                                              options):
    """By strace, at the first, the second, ... call that changes the output folder. At no time is
    anything there that says it is complete and is not; --force leaves the old capture until the new
    one is."""
    if sanitized:
        pytest.skip("a sanitizer does not run under strace")
    texts = write_jsonl(tmp_path / "t.jsonl", some_texts(3))
    words = ["capture", "-m", model, "-t", texts, "--sampler", "all", "--threads", "1", "--layers", "1",
             "--heads", "0", *options]
    again = [w for w in words if w != "--force"]
    qkscope(*again, "-o", tmp_path / "whole", expect=0)
    qkscope(*again, "--bucket", "7", "-o", tmp_path / "old", expect=0)
    whole, old = files_of(tmp_path / "whole"), files_of(tmp_path / "old")
    for n in range(1, 100):
        folder = tmp_path / f"c{n}"
        if "--force" in options:
            shutil.copytree(tmp_path / "old", folder)
        run = subprocess.run(["strace", "-f", "-o", os.devnull, "-e", f"trace={call}", "-e",
                              f"inject={call}:signal=SIGKILL:when={n}", program, *words, "-o", folder],
                             env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if n == 1 and b"ptrace" in run.stderr:
            pytest.skip("strace may not trace here")
        if run.returncode == 0:
            break
        there = own_files(folder)
        done = '"complete": true' in there.get("capture.json", b"").decode()
        if done and "--stage" not in options:
            assert {k: v for k, v in there.items() if ".tmp-" not in k} in (whole, old)
        if "--force" in options and there == old and not (folder / ".partial/journal.json").exists():
            continue  # it had not begun
        qkscope(*again, "-o", folder, expect=0)
        assert files_of(folder) == whole
    print(f"\n{n - 1} kills")
    assert 2 < n < 100 and files_of(folder) == whole


def test_memory_does_not_grow_with_texts(program, model, tmp_path, sanitized):
    if sanitized:
        pytest.skip("a sanitizer has memory of its own")
    peak = {}
    for count in (400, 4000):
        texts = write_jsonl(tmp_path / f"{count}.jsonl", some_texts(count, 300, 400))
        peak[count] = timed(program.parent, command(program, model, texts, tmp_path / f"c{count}",
                                                    "--threads", "2"))[1]
    print(f"\npeak memory in MiB by number of texts: {peak}")
    assert peak[4000] < 1.25 * peak[400] + 8
