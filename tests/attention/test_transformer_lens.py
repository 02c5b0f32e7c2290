# SPDX-License-Identifier: Apache-2.0
"""Scores of TransformerLens' head detector on the same attention."""
import csv
import json
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from attention_rows import attention
from conftest import ROOT

torch = pytest.importorskip("torch", reason="torch is not installed")
detector = pytest.importorskip("transformer_lens.head_detector", reason="transformer-lens is not installed")
MODEL = ROOT / "examples" / "kjv-tiny"
LENGTH, HEADS = 160, 4
COLUMNS = {"previous_token_head": "previous_mass", "duplicate_token_head": "duplicate_mul",
           "induction_head": "induction_mul"}


def test_detect_head(qkscope, tmp_path):
    """Texts of one length, whose tokens are bytes: the mean of its scores over texts is that over rows."""
    lines = [json.loads(line)["text"].encode()[:LENGTH].decode() for line in (MODEL / "passages.jsonl").read_text().splitlines()[:4]]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    qkscope("capture", "-m", MODEL / "step-2004", "-t", tmp_path / "texts.jsonl", "-o", tmp_path / "capture", "--sampler", "all",
            "--keep", "rows,attention", "-q", expect=0)
    qkscope("attention", tmp_path / "capture", "-o", tmp_path / "results", "-q", expect=0)
    rows = list(csv.DictReader((tmp_path / "results" / "attention.csv").open()))
    layers = len(rows) // HEADS

    def vectors(name):
        table = pq.read_table(tmp_path / "capture" / name / "data.parquet")
        return np.array(table["vector"].to_pylist()).reshape(len(lines), LENGTH, -1)

    texts = np.array(pq.read_table(tmp_path / "capture" / "l00h00q" / "data.parquet")["example_id"])[::LENGTH]
    order = {hashed: i for i, hashed in enumerate(dict.fromkeys(texts.tolist()))}
    assert len(order) == len(lines)
    scores = {name: np.zeros((layers, HEADS)) for name in COLUMNS}
    for i, line in enumerate(lines):
        tokens = torch.tensor([list(line.encode())])
        model = SimpleNamespace(cfg=SimpleNamespace(device="cpu", n_layers=layers, n_heads=HEADS, n_ctx=1024, dtype=torch.float64),
                                to_tokens=lambda _, tokens=tokens: tokens)
        cache = {("pattern", layer, "attn"): torch.tensor(np.array([
            attention(vectors(f"l{layer:02d}h{head:02d}q")[i], vectors(f"l{layer:02d}h{head // 2:02d}k")[i], 32 ** -0.5)
            for head in range(HEADS)])) for layer in range(layers)}
        for name in scores:
            scores[name] += detector.detect_head(model, line, name, cache=cache).numpy() / len(lines)
    for row in rows:
        for name, column in COLUMNS.items():
            assert float(row[column]) == pytest.approx(scores[name][int(row["layer"]), int(row["q_head"])], abs=1e-6), column
