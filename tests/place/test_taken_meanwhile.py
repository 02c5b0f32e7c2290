# SPDX-License-Identifier: Apache-2.0
"""A folder that another command took, or gave away, between the look at it and the work there."""
import os
import shutil
import signal
import subprocess
import time

import pytest
from conftest import ROOT, environment

TINY = ROOT / "examples" / "kjv-tiny"
CAPTURE = ["capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", "--max-length", "64", "--layers", "0",
           "--sampler", "all", "-q", "--threads", "1"]


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def small(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small") / "c"
    qkscope(*CAPTURE, "--max-texts", "6", "-o", folder, expect=0)
    return folder


@pytest.fixture
def stopped(program, sanitized, tmp_path):
    """stopped(fault, words...) -> go(), which lets a command that stands still at a call of the system end."""
    if sanitized or not shutil.which("strace"):
        pytest.skip("strace is not installed, or a sanitizer does not run under it")
    trace, runs = tmp_path / "trace", []

    def begin(fault, *words, only=()):
        call = fault.split(":")[0]
        run = subprocess.Popen(["strace", "-f", "-o", trace, *only, "-e", f"trace={call}", "-e", f"inject={fault}:signal=SIGSTOP:when=1",
                                program, *words], env=environment(), stderr=subprocess.PIPE, text=True)
        runs.append(run)
        while "stopped by SIGSTOP" not in (trace.read_text() if trace.exists() else ""):
            if run.poll() is not None:
                pytest.skip(f"it was not stopped: {run.stderr.read()}")
            time.sleep(0.005)
        child = next(int(line.split()[0]) for line in trace.read_text().splitlines() if "stopped by SIGSTOP" in line)

        def go():
            os.kill(child, signal.SIGCONT)
            return run.communicate(timeout=120)[1], run.returncode
        return go
    yield begin
    for run in runs:
        if run.poll() is None:
            run.kill()
            run.wait()


@pytest.mark.parametrize("shard", [[], ["--shard", "1/2"]])
def test_a_capture_that_waited_looks_again(qkscope, stopped, small, tmp_path, shard):
    """The folder was empty when it looked first, and another command's capture is in it when it has the lock."""
    out = tmp_path / "out"
    out.mkdir()
    go = stopped("flock:error=EAGAIN", *CAPTURE, "-o", out, *shard)
    qkscope("repack", small, "-o", out, "-q", expect=0)
    before = files(out)
    said, code = go()
    assert code == 1 and f"{out}: " in said and "choose another folder" in said
    assert files(out) == before


def test_a_shard_looks_while_another_one_ends_the_run(qkscope, stopped, small, tmp_path):
    """It has seen no manifest, and then all tables are there: they are those of its own run."""
    out = tmp_path / "out"
    out.mkdir()
    words = "pca", small, "-o", out
    go = stopped("openat", *words, "--shard", "99/100", only=["-P", out / "manifest.json"])
    qkscope(*words, expect=0)
    before = files(out)
    said, code = go()
    assert code == 0, said
    assert files(out) == before


def test_a_repack_looks_again_before_it_takes_the_place(stopped, qkscope, small, tmp_path):
    """What came into the empty folder without a lock (of a file system that has none) is not carried away."""
    out = tmp_path / "out"
    out.mkdir()
    go = stopped("mkdir", "repack", small, "-o", out, "-q", only=["-P", tmp_path / ".out.repack"])
    (out / ".units").mkdir()
    (out / ".units" / "own").write_text("of another machine")
    said, code = go()
    assert code == 1 and f"{out}: folder is not empty" in said
    assert files(out) == {".units/own": b"of another machine"}
    assert not (tmp_path / ".out.repack").exists()


def test_a_repack_does_not_take_the_place_of_another_folder(stopped, qkscope, small, tmp_path):
    """The folder that it holds was moved away, and somebody made a new one."""
    out = tmp_path / "out"
    out.mkdir()
    go = stopped("mkdir", "repack", small, "-o", out, "-q", only=["-P", tmp_path / ".out.repack"])
    out.rename(tmp_path / "moved")
    out.mkdir()
    said, code = go()
    assert code == 1 and "cannot take the place" in said
    assert files(out) == {} and not (tmp_path / ".out.repack").exists()


def test_a_shard_of_an_analysis_is_refused_while_the_folder_is_held(stopped, qkscope, small, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    go = stopped("mkdir", "repack", small, "-o", out, "-q", only=["-P", tmp_path / ".out.repack"])
    said = qkscope("analyze", small, "-o", out, "--shard", "0/2", "-q", expect=1).err
    assert f"{out}: another run is at work in this folder" in said
    assert files(out) == {}
    said, code = go()
    assert code == 0, said
    assert (out / "capture.json").exists() and not (tmp_path / ".out.repack").exists()
