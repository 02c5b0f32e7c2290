# SPDX-License-Identifier: Apache-2.0
"""Whoever writes into an output folder holds it: a run at work is not disturbed, whichever command comes."""
import fcntl
import json
import os
import signal
import subprocess
import time

import pytest
from conftest import EXAMPLE, ROOT, environment, stop

TINY = ROOT / "examples" / "kjv-tiny"
CAPTURE = ["capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", "--max-length", "64", "--layers", "0",
           "--heads", "0", "--sampler", "all", "-q", "--threads", "1"]
LAYER = ["--layers", "0", "--heads", "0"]
HELD = "another run is at work in this folder"


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def parts(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    for i in range(2):
        qkscope(*CAPTURE, "-o", folder / str(i), "--shard", f"{i}/2", expect=0)
    qkscope(*CAPTURE, "-o", folder / "whole", expect=0)
    return folder


@pytest.fixture
def at_work(program, tmp_path):
    """at_work(options...) -> a capture in tmp_path / "o" that has begun and stands still."""
    runs = []

    def begin(*options):
        run = subprocess.Popen([program, *CAPTURE, "-o", tmp_path / "o", *options], env=environment())
        runs.append(run)
        while run.poll() is None and not list((tmp_path / "o").glob(".partial/.units/*/b*")):
            time.sleep(0.0005)
        if not stop(run):
            pytest.skip("it was done before it could be stopped")
        return run
    yield begin
    for run in runs:
        run.kill()
        run.wait()


@pytest.mark.parametrize("options", [[], ["--shard", "0/2"]])
@pytest.mark.parametrize("command", ["repack", "merge", "capture", "analyze", "synth", "report", "compare", "study"])
def test_a_run_at_work_is_left_alone(qkscope, at_work, parts, tmp_path, options, command):
    (tmp_path / "s.yaml").write_text(f"models:\n  - {{name: a, source: {EXAMPLE}}}\nanalyses: [pca]\n")
    words = {"repack": ["repack", EXAMPLE, "--force"], "merge": ["merge", parts / "0", parts / "1", "--force"],
             "capture": [*CAPTURE, "--max-texts", "3", "--force"], "analyze": ["analyze", EXAMPLE, *LAYER, "--force"],
             "synth": ["synth"], "report": ["report", EXAMPLE], "compare": ["compare", EXAMPLE, EXAMPLE, *LAYER, "--force"],
             "study": ["study", tmp_path / "s.yaml", "--force"]}[command]
    run = at_work(*options)
    before = files(tmp_path / "o")
    said = qkscope(*words, "-o", tmp_path / "o", "-q", expect=1)
    assert f"{tmp_path / 'o'}: {HELD}" in said.err
    assert files(tmp_path / "o") == before
    run.send_signal(signal.SIGCONT)
    assert run.wait(timeout=60) == 0
    if not options:
        assert files(tmp_path / "o") == files(parts / "whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o", "s.yaml"]


@pytest.mark.parametrize("words", [["repack", EXAMPLE, "--force"], [*CAPTURE, "--force"], ["analyze", EXAMPLE, *LAYER]])
def test_a_writer_of_vectors_holds_its_folder(program, qkscope, tmp_path, words):
    """qk_capture_writer, by which synth and programs write."""
    out = tmp_path / "o"
    run = subprocess.Popen([program, "synth", "-o", out, "--examples", "60", "--rows", "1000", "--layers", "2", "-q"], env=environment())
    while run.poll() is None and not (out / "capture.json").exists():
        time.sleep(0.0005)
    assert stop(run)
    try:
        assert f"{out}: {HELD}" in qkscope(*words, "-o", out, "-q", expect=1).err
    finally:
        run.send_signal(signal.SIGCONT)
        code = run.wait(timeout=120)
    assert code == 0
    qkscope("inspect", out, expect=0)


@pytest.mark.usefixtures("exchange")
@pytest.mark.parametrize("words", [["repack", EXAMPLE, "--force"], [*CAPTURE, "--max-texts", "3", "--force"]])
def test_a_shard_of_another_machine_is_asked(qkscope, parts, tmp_path, words):
    """Its lock does not reach here, but its number does."""
    out = tmp_path / "o"
    qkscope(*CAPTURE, "-o", out, "--shard", "0/2", expect=0)
    rank = next(out.glob(".partial/.units/*/ranks")) / "1-of-2"
    rank.write_text("elsewhere-0123456789abcdef-77-88\n\n")
    before = files(out)
    said = qkscope(*words, "-o", out, "-q", expect=1).err
    assert str(rank) in said and "elsewhere" in said and "remove that file" in said
    assert files(out) == before
    rank.unlink()
    qkscope(*words, "-o", out, "-q", expect=0)
    assert json.loads((out / "capture.json").read_text())["complete"]


def test_a_merge_into_a_folder_of_its_own_pieces(qkscope, parts, tmp_path):
    """--force replaces a capture, not what is being merged."""
    for i in range(2):
        qkscope(*CAPTURE, "-o", tmp_path / str(i), "--shard", f"{i}/2", expect=0)
    qkscope("merge", tmp_path / "0", tmp_path / "1", "-o", tmp_path / "0", "--force", "-q", expect=0)
    assert files(tmp_path / "0") == files(parts / "whole")


def test_a_finished_capture_is_not_touched(qkscope, parts):
    """Not even for a moment: it may lie where nobody may write."""
    folder = parts / "whole"
    before = folder.stat().st_mtime_ns
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert qkscope(*CAPTURE, "-o", folder, expect=0)
    os.close(lock)
    assert folder.stat().st_mtime_ns == before


def test_a_fork_does_not_hold_the_folder(tmp_path):
    qk = pytest.importorskip("qkscope")
    model = qk.Model("made up", num_layers=1, num_q_heads=1, num_k_heads=1, head_dim=4)
    first = qk.Sink(tmp_path / "o", model=model, texts=1)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        first.close()
        qk.Sink(tmp_path / "o", model=model, texts=1).close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
