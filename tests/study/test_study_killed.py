# SPDX-License-Identifier: Apache-2.0
"""A study that is killed goes on where it ended, and ends with the bytes of one that was not."""
import os
import signal
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, TIER, environment, synth
from test_study import snapshot

sys.path.append(str(ROOT / "tests" / "recorder"))
from recording import killed  # noqa: E402

# Calls of one thread of a study of three models that change a folder: most of them for models, some for their tables.
CALLS = range(7, 90, {"long": 1}.get(TIER, 11))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root = tmp_path_factory.mktemp("killed")
    for i in range(3):
        synth(root / f"m{i}", seed=i, layers=1, query_heads=4, q_per_kv_group=2, dim=8, examples=2, rows=60, buckets=4,
              bucket_width=32)
    (root / "study.yaml").write_text("models:\n" + "".join(f"  - {{name: m{i}, source: m{i}}}\n" for i in range(3)))
    return root / "study.yaml"


@pytest.fixture(scope="module")
def whole(qkscope, study):
    qkscope("study", study, "-o", study.parent / "whole", "--no-figures", expect=0)
    return snapshot(study.parent / "whole")


def words(study, out):
    return ["study", study, "-o", out, "--no-figures", "--threads", "1"]


@pytest.mark.test_all
def test_killed_at_any_call(program, study, whole, tmp_path):
    """And once more while it goes on. Results of two settings are never mixed: where the run that was killed was to replace
    those of others, they are whole again when they are asked for."""
    other = study.with_name("other.yaml")
    other.write_text(study.read_text() + "pca: {n_components: 3}\n")
    kills = 0
    for n in CALLS:
        out = tmp_path / str(n)
        kills += killed(program, n, *words(study, out)) is not None
        killed(program, n // 2, *words(study, out))
        killed(program, n, *words(other, out))
        assert killed(program, 0, *words(study, out)) is None
        assert snapshot(out) == whole, n
    assert kills > 4


@pytest.mark.test_all
def test_interrupted(program, study, tmp_path):
    """An interrupt ends it between two heads; what was done stays."""
    said = [killed(program, n, *words(study, tmp_path / str(n)), by=signal.SIGINT) for n in CALLS]
    assert "stopped" in said[1]
    done = [n for n in CALLS if (tmp_path / str(n) / "models" / "m0" / "manifest.json").exists()
            and not (tmp_path / str(n) / "models.csv").exists()]
    assert done


def test_one_at_a_time(program, qkscope, study, whole, tmp_path, sanitized):
    if sanitized:
        pytest.skip("nothing can be put in front of the C library here")
    out = tmp_path / "out"
    stop = {"LD_PRELOAD": BUILD / "tests" / "recorder" / "libkill_at.so", "KILL_AT": 20, "KILL_BY": int(signal.SIGSTOP)}
    first = subprocess.Popen([program, *map(str, words(study, out))], stdout=subprocess.DEVNULL, env=environment(stop))
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert "another run" in qkscope(*words(study, out), expect=1).err
    first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=300) == 0 and snapshot(out) == whole
