# SPDX-License-Identifier: Apache-2.0
"""A file that cannot be removed, or read, for once: the next run finds it, or this one says so."""
import os
import shutil
import subprocess

import pytest
from conftest import EXAMPLE, ROOT, environment

TINY = ROOT / "examples" / "kjv-tiny"
LAYER = ["--layers", "0", "--heads", "0"]
CAPTURE = ["capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", "--max-length", "64", "--max-texts", "4",
           *LAYER, "--sampler", "all", "--threads", "1", "-q", "--force"]
REPACK = ["repack", EXAMPLE, "-q", "--force"]


@pytest.fixture(autouse=True)
def traced(sanitized):
    if sanitized or not shutil.which("strace"):
        pytest.skip("strace is not installed, or a sanitizer does not run under it")


def fail_once(program, fault, words, *only):
    run = subprocess.run(["strace", "-f", "-o", os.devnull, *only, "-e", f"inject={fault}", program, *words],
                         env=environment(), capture_output=True, text=True)
    if "ptrace" in run.stderr:
        pytest.skip("strace may not trace here")
    return run


@pytest.mark.usefixtures("exchange")
@pytest.mark.parametrize("words", [CAPTURE, REPACK], ids=["capture", "repack"])
def test_what_was_not_removed_is_removed_by_the_next_run(program, qkscope, tmp_path, words):
    out, left = tmp_path / "out", 0
    qkscope(*words, "-o", out, expect=0)
    for n in range(1, 15):
        run = fail_once(program, f"unlinkat:error=EACCES:when={n}", [*words, "-o", out])
        assert run.returncode == 0, run.stderr
        left += os.listdir(tmp_path) != ["out"]
        qkscope(*words, "-o", out, expect=0)
        assert os.listdir(tmp_path) == ["out"]
    qkscope("inspect", out, expect=0)
    print(f"\n{left} times something was left")
    assert left > 3


def test_a_list_of_figures_that_cannot_be_read(program, qkscope, tmp_path):
    if not shutil.which("gnuplot"):
        pytest.skip("gnuplot is not installed")
    out = tmp_path / "r"
    qkscope("pca", EXAMPLE, *LAYER, "-o", out, "-q", expect=0)
    words = ["report", out, "--format", "svg", "--no-html", "-q"]
    qkscope(*words, expect=0)
    before = (out / "figures" / "README.md").read_bytes()
    run = fail_once(program, "openat:error=EACCES", words, "-P", out / "figures" / "README.md")
    assert run.returncode == 1 and "figures/README.md: cannot open" in run.stderr
    assert (out / "figures" / "README.md").read_bytes() == before
