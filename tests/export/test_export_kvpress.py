# SPDX-License-Identifier: Apache-2.0
"""kvpress loads what is exported, and computes the same numbers when it runs the model itself over the same texts. For this the
interpreter of `make hf-env` has to find kvpress: PYTHONPATH=FOLDERS, with kvpress, cachetools, fire and peft in them."""
import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, environment

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
pytestmark = pytest.mark.test_all
MODEL = ROOT / "examples" / "kjv-tiny" / "step-2004"
TEXTS = 3


@pytest.fixture(scope="module")
def told(qkscope, tmp_path_factory):
    python = os.environ.get("QKSCOPE_HF_PYTHON") or Path.home() / ".cache" / "qkscope" / "hf" / "bin" / "python"
    if not Path(python).exists():
        pytest.skip(f"no torch: {python} is absent (make hf-env, or QKSCOPE_HF_PYTHON)")
    found = subprocess.run([python, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('kvpress') is None)"], check=False)
    if found.returncode:
        pytest.skip("kvpress is not installed for the interpreter with torch")
    folder = tmp_path_factory.mktemp("kvpress")
    lines = (ROOT / "examples" / "kjv-tiny" / "passages.jsonl").read_text().splitlines(keepends=True)[:TEXTS]
    (folder / "all.jsonl").write_text("".join(lines))
    (folder / "one.jsonl").write_text(lines[0])
    for texts in ("all", "one"):
        qkscope("capture", "-m", MODEL, "-t", folder / f"{texts}.jsonl", "--stage", "both", "--keep", "moments,first=4",
                "-o", folder / f"capture-{texts}", expect=0)
    for form, source, output in (("kvpress-stats", "all/pre", "stats"), ("q-filters", "all/post", "filters"),
                                 ("duo-attention", "all/pre", "duo"), ("duo-attention", "one/pre", "one")):
        qk.export(form, folder / f"capture-{source}", folder / output)
    done = subprocess.run([python, Path(__file__).with_name("with_kvpress.py"), MODEL, folder / "all.jsonl", folder], text=True,
                          env=environment({"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}), capture_output=True, check=False)
    if done.returncode == 77:
        pytest.skip(f"kvpress cannot be imported: {done.stdout.strip()}")
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_its_statistics_are_those_of_its_own_run(told):
    assert told["mean"] < 1e-4 and told["cov"] < 1e-4
    assert told["id"].endswith(f"step-2004__{TEXTS}_1024_4")


def test_it_loads_filters(told):
    assert told["filters"] == [5, 2, 32] and told["scores"] < 1e-6


def test_its_scores_on_the_fly_are_those_of_means(told):
    assert told["duo"] < 1e-4


def test_it_loads_a_pattern(told):
    assert told["pattern"] == [128, 256, [5, 2]]
