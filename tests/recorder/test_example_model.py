# SPDX-License-Identifier: Apache-2.0
"""The bundled model: captures of its training steps, and the study of them that `make demo` runs."""
import shutil

import pytest

from conftest import ROOT, read_csv

MODEL = ROOT / "examples" / "kjv-tiny"
STEPS = [20, 100, 700, 2004]


@pytest.mark.test_all
def test_training_study(qkscope, tmp_path):
    """The study file's captures lie in results/demo of the checkout: here it is in a copy."""
    (tmp_path / "examples" / "kjv-tiny").mkdir(parents=True)
    study = tmp_path / "examples" / "kjv-tiny" / "training.yaml"
    shutil.copyfile(MODEL / "training.yaml", study)
    for step in STEPS:
        qkscope("capture", "--model", MODEL / f"step-{step}", "--text", MODEL / "passages.jsonl",
                "--id-column", "id", "--max-texts", "8", "--max-length", "512", "--sampler", "uniform",
                "--base-rate", "8", "--bucket", "32", "-o",
                tmp_path / "results" / "demo" / "captures" / f"step-{step}")
    qkscope("study", study, "-o", tmp_path / "out", "--no-figures")
    heads = read_csv(tmp_path / "out" / "heads.csv")
    assert [sum(row["model"] == f"step-{step}" for row in heads) for step in STEPS] == [20] * 4


def test_each_step_is_whole(qkscope):
    for step in STEPS:
        out = qkscope("inspect", MODEL / f"step-{step}").out
        assert "llama, 5 layers of 4 query heads and 2 key heads, d = 32" in out and "0.94 million in bfloat16" in out
