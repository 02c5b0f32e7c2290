# SPDX-License-Identifier: Apache-2.0
"""A study that is killed goes on where it ended, and ends with the bytes of one that was not."""
import random
import signal
import subprocess
import time

import pytest

from conftest import environment, stop, synth
from test_study import snapshot


@pytest.fixture(scope="module")
def study(qkscope, tmp_path_factory):
    root = tmp_path_factory.mktemp("killed")
    names = [f"m{i}" for i in range(6)]
    for i, name in enumerate(names):
        synth(qkscope, root / name, seed=i, layers=1, query_heads=6, q_per_kv_group=2, dim=32,
              examples=2, rows=500, buckets=8, bucket_width=64)
    (root / "study.yaml").write_text("models:\n" + "".join(
        f"  - {{name: {n}, source: {n}}}\n" for n in names) + "figures: {formats: png}\n")
    return root / "study.yaml"


def start(program, study, out, *arguments):
    return subprocess.Popen([program, "study", study, "-o", out, *arguments],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, env=environment())


def start_until(program, study, out, path):
    """Starts a run on one thread and stops it, alive, as soon as the path is there."""
    process = start(program, study, out, "--no-figures", "--threads", "1")
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert stop(process) and path.exists()
    return process


def end(process, number):
    """Sends the signal, lets the process go on and returns what it said."""
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    return process.communicate()[1].decode()


def kill_until_done(program, study, out, longest, draw, *arguments):
    """Runs it again and again, each time for as long as drawn; returns how often it was
    killed."""
    for killed in range(200):
        process = start(program, study, out, *arguments)
        try:
            process.communicate(timeout=draw() * longest)
            assert process.returncode == 0
            return killed
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    raise AssertionError("after 200 runs it was still not done")


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment(program, qkscope, study, tmp_path, seed):
    began = time.monotonic()
    qkscope("study", study, "-o", tmp_path / "whole", "--no-figures", expect=0)
    longest = time.monotonic() - began
    rng = random.Random(seed)
    first = start_until(program, study, tmp_path / "out", tmp_path / "out" / "models" / f"m{seed}")
    end(first, signal.SIGKILL)
    assert first.returncode == -signal.SIGKILL
    kill_until_done(program, study, tmp_path / "out", longest, lambda: rng.uniform(0, 0.7),
                    "--no-figures")
    assert snapshot(tmp_path / "out") == snapshot(tmp_path / "whole")


def test_killed_with_other_settings_before(program, qkscope, study, tmp_path):
    """Results of two settings are never mixed: the second run dies while it replaces the
    first's, and then the first's settings are asked for again."""
    began = time.monotonic()
    qkscope("study", study, "-o", tmp_path / "out", "--no-figures", expect=0)
    longest = time.monotonic() - began
    whole = snapshot(tmp_path / "out")
    other = study.with_name("other.yaml")
    other.write_text(study.read_text() + "pca: {n_components: 3}\n")
    for i in range(1, 6):
        process = start(program, other, tmp_path / "out", "--no-figures")
        time.sleep(longest * i / 6)
        process.kill()
        process.communicate()
    qkscope("study", study, "-o", tmp_path / "out", "--no-figures", expect=0)
    assert snapshot(tmp_path / "out") == whole


def test_killed_while_drawing(program, qkscope, study, tmp_path):
    few = study.with_name("few.yaml")
    few.write_text("models:\n  - {name: m0, source: m0}\n  - {name: m1, source: m1}\n"
                   "analyses: [rotation]\nfigures: {formats: png}\n")
    began = time.monotonic()
    qkscope("study", few, "-o", tmp_path / "whole", "--no-html", expect=0)
    longest = time.monotonic() - began
    for part in (0.3, 0.5, 0.7):
        process = start(program, few, tmp_path / "out", "--no-html")
        time.sleep(longest * part)
        process.kill()
        process.communicate()
    qkscope("study", few, "-o", tmp_path / "out", "--no-html", expect=0)
    expected, found = snapshot(tmp_path / "whole"), snapshot(tmp_path / "out")
    assert found.keys() == expected.keys()
    for name in expected:
        if name.endswith((".csv", ".dat", ".gp", "figures.json")):
            assert found[name] == expected[name], name


def test_interrupted(program, study, tmp_path):
    """An interrupt ends it between two heads; what was done stays."""
    process = start_until(program, study, tmp_path / "out", tmp_path / "out" / "models" / "m1")
    message = end(process, signal.SIGINT)
    assert process.returncode == -signal.SIGINT and "stopped" in message
    assert not (tmp_path / "out" / "models.csv").exists()
    assert (tmp_path / "out" / "models" / "m0" / "manifest.json").exists()


def test_one_at_a_time(program, qkscope, study, tmp_path):
    first = start_until(program, study, tmp_path / "out", tmp_path / "out" / "models")
    second = qkscope("study", study, "-o", tmp_path / "out", "--no-figures")
    end(first, 0)
    assert first.returncode == 0
    assert second.code == 1 and "another run" in second.err
