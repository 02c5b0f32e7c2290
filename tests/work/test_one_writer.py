# SPDX-License-Identifier: Apache-2.0
"""Whoever writes into an output folder holds it: a run at work is not disturbed, whichever command comes."""
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import BUILD, EXAMPLE, ROOT, environment

TINY = ROOT / "examples" / "kjv-tiny"
CAPTURE = ["capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", "--max-length", "64", "--max-texts", "6", "--layers", "0",
           "--heads", "0", "--sampler", "all", "-q", "--threads", "1"]
ABLATE = ["ablate", "-m", TINY / "step-20", "-t", "repeat:8x2:4", "--heads", "0:0", "-w", "remove"]
LAYER = ["--layers", "0", "--heads", "0"]
HELD = "another run is at work in this folder"


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def qk():
    return pytest.importorskip("qkscope")


@pytest.fixture(scope="module")
def parts(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    qkscope(*CAPTURE, "-o", folder / "1", "--shard", "1/2", expect=0)  # which has none of the blocks
    qkscope(*CAPTURE, "-o", folder / "whole", expect=0)
    return folder


def one_head(qk):
    return qk.Model("made up", num_layers=1, num_q_heads=1, num_k_heads=1, head_dim=4)


@pytest.mark.parametrize("shard", [None, (1, 2)])
@pytest.mark.parametrize("command", ["capture", "merge", "analyze", "report", "compare", "study", "ablate"])
def test_a_run_at_work_is_left_alone(qk, qkscope, parts, tmp_path, shard, command):
    (tmp_path / "s.yaml").write_text(f"models:\n  - {{name: a, source: {EXAMPLE}}}\nanalyses: [pca]\n")
    words = {"merge": ["merge", parts / "1", "--force"], "capture": [*CAPTURE, "--force"],
             "analyze": ["analyze", EXAMPLE, *LAYER, "--force"], "report": ["report", EXAMPLE],
             "compare": ["compare", EXAMPLE, EXAMPLE, "--force"], "study": ["study", tmp_path / "s.yaml", "--force"], "ablate": [*ABLATE, "--force"]}[command]
    with qk.Sink(tmp_path / "o", model=one_head(qk), texts=2, shard=shard) as sink:
        before = files(tmp_path / "o")
        said = qkscope(*words, "-o", tmp_path / "o", "-q", expect=1)
        assert f"{tmp_path / 'o'}: {HELD}" in said.err
        assert files(tmp_path / "o") == before
        for text in filter(sink.wants, range(2)):
            with sink.text(text, tokens=2):
                for kind in "qk":
                    sink.put(text, 0, kind, np.ones((1, 2, 4), np.float32))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o", "s.yaml"]


@pytest.mark.parametrize("shards", [False, True])
def test_an_ablation_at_work_is_left_alone(program, qkscope, sanitized, tmp_path, shards):
    """By another one, by itself, and by a command that would move in; it is stopped at its 9th call that changes a folder. Shards
    of one ablation are at work together."""
    library = BUILD / "tests" / "recorder" / "libkill_at.so"
    if sanitized or not library.exists():
        pytest.skip("nothing can be put in front of the C library here")
    out, one, two = tmp_path / "o", *((["--shard", f"{i}/2"] if shards else []) for i in range(2))
    stops = {"LD_PRELOAD": library, "KILL_AT": 9, "KILL_BY": int(signal.SIGSTOP)}
    run = subprocess.Popen([program, *ABLATE, *one, "-o", "o", "-q"], cwd=tmp_path, env=environment(stops), stderr=subprocess.PIPE,
                           text=True)
    assert os.WIFSTOPPED(os.waitpid(run.pid, os.WUNTRACED)[1])
    assert list(out.glob(".units/ablate-*/t*"))
    before = files(out)
    for words in ([*ABLATE, "-w", "uniform"], [*ABLATE, "-w", "uniform", *two], ["pca", EXAMPLE, *LAYER, "--force"],
                  [*CAPTURE, "--force"], *([] if shards else [ABLATE])):
        said = qkscope(*words, "-o", out, "-q", expect=1).err
        assert f"{out}: " in said and (HELD in said), said
        assert files(out) == before
    if shards:
        qkscope(*ABLATE, *two, "-o", out, "-q", expect=0)
    os.kill(run.pid, signal.SIGCONT)
    assert run.wait() == 0, run.stderr.read()
    assert sorted(path.name for path in out.iterdir()) == ["ablation.csv", "ablation_groups.csv", "ablation_heads.csv",
                                                           "ablation_positions.csv", "manifest.json"]


def test_a_finished_capture_is_not_touched(qkscope, parts):
    """Not even for a moment: it may lie where nobody may write."""
    folder = parts / "whole"
    before = folder.stat().st_mtime_ns
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert qkscope(*CAPTURE, "-o", folder, expect=0)
    os.close(lock)
    assert folder.stat().st_mtime_ns == before


def test_a_fork_does_not_hold_the_folder(qk, tmp_path):
    first = qk.Sink(tmp_path / "o", model=one_head(qk), texts=1)
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        first.close()
        qk.Sink(tmp_path / "o", model=one_head(qk), texts=1).close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.test_all
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("shard", [[], ["--shard", "1/2"]])
def test_a_capture_that_waited_looks_again(program, qkscope, sanitized, tmp_path, shard):
    """The folder was empty when it looked first, and another command's capture is in it when it has the lock."""
    if sanitized:
        pytest.skip("a sanitizer does not run under strace")
    out, trace = tmp_path / "out", tmp_path / "trace"
    out.mkdir()
    run = subprocess.Popen(["strace", "-f", "-o", trace, "-e", "trace=flock", "-e", "inject=flock:error=EAGAIN:signal=SIGSTOP:when=1",
                            program, *CAPTURE, "-o", out, *shard], env=environment(), stderr=subprocess.PIPE, text=True)
    while "stopped by SIGSTOP" not in (trace.read_text() if trace.exists() else ""):
        if run.poll() is not None:
            pytest.skip(f"strace may not trace here: {run.stderr.read()}")
        time.sleep(0.005)
    child = next(int(line.split()[0]) for line in trace.read_text().splitlines() if "stopped by SIGSTOP" in line)
    qkscope(*CAPTURE, "--max-length", "32", "-o", out, expect=0)
    before = files(out)
    os.kill(child, signal.SIGCONT)
    said = run.communicate(timeout=300)[1]
    assert run.returncode == 1 and f"{out}: " in said and "choose another folder" in said, said
    assert files(out) == before
