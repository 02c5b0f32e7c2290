# SPDX-License-Identifier: Apache-2.0
"""TransformerLens' head detector, which loads the same weights and forms the whole pattern, says the same of each head."""
import csv
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from hf_environment import hf_run

pytestmark = pytest.mark.test_all

MODEL = ROOT / "examples" / "kjv-tiny"
LENGTH = 160
COLUMNS = {"previous_token_head": "previous_mass", "duplicate_token_head": "duplicate_mass",
           "induction_head": "induction_mass"}


def share_of_rows(name, texts):
    """Its scores are of all rows; masses of copies are of the rows that have a copy, or a key behind one."""
    if name == "previous_token_head":
        return 1
    has = [any(text[j] == text[i] for j in range(i)) for text in texts for i in range(len(text))]
    return sum(has) / len(has)


def test_detect_head(qkscope, tmp_path):
    """Texts of one length, whose tokens are bytes: the mean of its scores over texts is that over rows."""
    lines = [json.loads(line)["text"].encode()[:LENGTH].decode() for line in (MODEL / "passages.jsonl").read_text().splitlines()[:4]]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    tokens = [list(line.encode()) for line in lines]
    (tmp_path / "tokens.json").write_text(json.dumps(tokens))
    hf_run(Path(__file__).with_name("hf_lens.py"), MODEL / "step-2004", tmp_path)
    scores = json.loads((tmp_path / "scores.json").read_text())
    if scores is None:
        pytest.skip("transformer-lens is not installed")
    qkscope("capture", "-m", MODEL / "step-2004", "-t", tmp_path / "texts.jsonl", "-o", tmp_path / "capture", "-q", expect=0)
    qkscope("attention", tmp_path / "capture", "-o", tmp_path / "results", "-q", expect=0)
    with open(tmp_path / "results" / "attention.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for name, column in COLUMNS.items():
        expected = np.mean(scores[name], axis=0)
        found = np.zeros_like(expected)
        for row in rows:
            found[int(row["layer"]), int(row["q_head"])] = float(row[column]) * share_of_rows(name, tokens)
        np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=column)
