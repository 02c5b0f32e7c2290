# SPDX-License-Identifier: Apache-2.0
"""What tools/make_capture.py writes down as truth is what its rows show, and every command takes its captures."""
import math
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, read_json, read_rows, synth


def z_scores(head, rows, center):
    """Of means, slopes and correlation, and of the covariance that is left without drift and planes."""
    x, t, n, expected = rows["vector"], rows["position"].astype(float), len(rows["position"]), head["expected"]
    yield (x.mean(axis=0) - expected["mean"]) / (x.std(axis=0) / math.sqrt(n))
    slope = (x - x.mean(axis=0)).T @ (t - t.mean()) / n / t.var()
    yield (slope - expected["slope"]) / (x.std(axis=0) / math.sqrt(n * t.var()))
    yield (np.arctanh(np.corrcoef(x @ head["a"], t)[0, 1]) - np.arctanh(head["r"])) * math.sqrt(n - 3)
    rest = x - np.array(head["mean"]) - np.outer(head["alpha"] * (t - center), head["a"])
    for plane in head["planes"]:
        angle = plane["omega"] * t + plane["phase"]
        rest[:, plane["coordinates"]] -= plane["amplitude"] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    basis = np.array(head["basis"])
    want = basis.T @ np.diag(head["eigenvalues"]) @ basis
    yield (rest.T @ rest / n - want) / np.sqrt((np.outer(np.diag(want), np.diag(want)) + want ** 2) / n)


def test_rows_show_the_truth(tmp_path):
    synth(tmp_path / "c", layers=1, dim=12, examples=20, rows=500, float32=True, truth_matrices=True, seed=11)
    truth = read_json(tmp_path / "c" / "truth.json")
    assert [head["name"] for head in truth["heads"]] == ["l00h00q", "l00h00k", "l00h01q", "l00h01k", "l00h02q", "l00h03q"]
    for head in truth["heads"]:
        rows = read_rows(tmp_path / "c", head["name"])
        assert max(np.abs(z).max() for z in z_scores(head, rows, truth["position_center"])) < 5
        assert rows["vector"].var(axis=0).sum() == pytest.approx(head["expected"]["total_variance"], rel=0.03)
        first = rows["position"][:500]
        assert (np.diff(first) > 0).all() and set(np.bincount(first // 128)) == {31, 32}


def test_what_is_given_holds(qkscope, tmp_path):
    pytest.importorskip("pyarrow")
    words = ["--layers", 1, "--dim", 8, "--r-q", 0.5, "--r-k=-0.25", "--separation", 3, "--scale", 2, "--frequencies", "0.5,0.01",
             "--rows", 50, "--layout", "packed", "--shards", 2, "--token-strings"]
    subprocess.run([sys.executable, ROOT / "tools" / "make_capture.py", tmp_path / "c", *map(str, words)], check=True)
    heads = {head["name"]: head for head in read_json(tmp_path / "c" / "truth.json")["heads"]}
    for name, head in heads.items():
        assert head["r"] == pytest.approx(0.5 if name.endswith("q") else -0.25)
        assert np.mean(head["eigenvalues"]) == pytest.approx(4) and [plane["omega"] for plane in head["planes"]] == [0.5, 0.01]
    assert heads["l00h03q"]["pair"]["key_head"] == "l00h01k" and heads["l00h03q"]["pair"]["separation"] == pytest.approx(6)
    assert len(list((tmp_path / "c" / "l00q").iterdir())) == 2
    qkscope("analyze", tmp_path / "c", "-o", tmp_path / "r", expect=0)
    done = subprocess.run([sys.executable, ROOT / "tools" / "make_capture.py", tmp_path / "c"], capture_output=True, text=True)
    assert done.returncode == 1 and "not empty" in done.stderr
