# SPDX-License-Identifier: Apache-2.0
"""qkscope attention, of rows that are whole texts and of sums that are kept."""
import csv
import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from attention_rows import bin_of, far_keys
from conftest import ROOT

MODEL = ROOT / "examples" / "kjv-tiny"
TEXTS = 9


@pytest.fixture(scope="module")
def capture(qkscope, tmp_path_factory):
    """Two layers of a small model, every row of nine short texts."""
    folder = tmp_path_factory.mktemp("attention")
    lines = [json.loads(line) for line in (MODEL / "passages.jsonl").read_text().splitlines()][:TEXTS]
    texts = folder / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": line["text"][:40 + 10 * i]}) + "\n" for i, line in enumerate(lines)))
    qkscope("capture", "-m", MODEL / "step-2004", "-t", texts, "--layers", "0,3", "--sampler", "all", "--stage", "both",
            "--keep", "rows", "-o", folder / "capture", "-q", expect=0)
    qkscope("capture", "-m", MODEL / "step-2004", "-t", texts, "--layers", "0,3", "--sampler", "all", "--keep", "rows,attention",
            "-o", folder / "capture" / "kept", "-q", expect=0)
    return folder / "capture"


def rows_of(capture, layer, head, kind):
    """By text: the vectors in float64, in order of position."""
    table = pq.read_table(capture / f"l{layer:02d}h{head:02d}{kind}" / "data.parquet")
    ids = np.array(table["example_id"])
    positions = np.array(table["position"])
    vectors = np.array(table["vector"].to_pylist(), np.float64)
    texts = {}
    for i in dict.fromkeys(ids):
        own = ids == i
        assert (positions[own] == np.arange(own.sum())).all()
        texts[i] = vectors[own]
    return texts


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def number(text):
    return float(text) if text else math.nan


def run(qkscope, capture, folder, *more):
    qkscope("attention", capture, "-o", folder, "-q", *more, expect=0)
    return read(folder / "attention.csv"), read(folder / "attention_profile.csv")


def test_rows_in_another_order(qkscope, capture, tmp_path):
    """Of each file another one, as DuckDB or Arrow on several threads leave it."""
    for head in (capture / "post").glob("l*"):
        table = pq.read_table(head / "data.parquet")
        order = np.random.default_rng(list(head.name.encode())).permutation(len(table))
        (tmp_path / "shuffled" / head.name).mkdir(parents=True)
        pq.write_table(table.take(order), tmp_path / "shuffled" / head.name / "data.parquet")
    (tmp_path / "shuffled" / "capture.json").write_bytes((capture / "post" / "capture.json").read_bytes())
    for name in ("post", "shuffled"):
        folder = capture / name if name == "post" else tmp_path / name
        run(qkscope, folder, tmp_path / f"out {name}", "--q-per-kv-group", 2, "--model-name", "m")
    for table in ("attention.csv", "attention_profile.csv"):
        rows, want = (read(tmp_path / f"out {name}" / table) for name in ("shuffled", "post"))
        assert len(rows) == len(want) > 0
        for row, was in zip(rows, want):
            assert row.keys() == was.keys()
            for column, value in was.items():
                same = row[column] == value or number(row[column]) == pytest.approx(number(value), rel=1e-9)
                assert same, (column, row[column], value)


def predicted(rows, slope_of):
    """Mean over rows of the softmax of a score of distance over the keys from 4 on, by bin."""
    out = np.zeros((len(rows), 22))
    for r, i in enumerate(rows):
        distance = i - far_keys(i)
        a = np.exp(slope_of[distance])
        np.add.at(out[r], [bin_of(d) for d in distance], a / a.sum())
    return out.mean(0)


def test_predictions(qkscope, capture, tmp_path):
    """The mean vectors before RoPE, of the capture of that stage; the bias of the rotation model."""
    _, profile = run(qkscope, capture / "post", tmp_path / "results")
    qkscope("rotate", capture / "post", "-o", tmp_path / "rotated", "-q", expect=0)
    bias = {(r["layer"], r["q_head"]): float(r["bias_strength"]) for r in read(tmp_path / "rotated" / "rotated.csv")}
    facts = json.loads((capture / "post" / "capture.json").read_text())
    frequencies = facts["rope_frequencies"]
    for layer, q_head, k_head in ((0, 3, 1), (3, 0, 0)):
        own = frequencies[str(layer)] if isinstance(frequencies, dict) else frequencies
        queries, keys = rows_of(capture / "pre", layer, q_head, "q"), rows_of(capture / "pre", layer, k_head, "k")
        q = np.vstack([rows[8:] for rows in queries.values()]).mean(0)
        k = np.vstack([rows[4:] for rows in keys.values()]).mean(0)
        d = len(q)
        z = (q[:d // 2] + 1j * q[d // 2:]) * np.conj(k[:d // 2] + 1j * k[d // 2:])
        distance = np.arange(128)
        by_means = (z * np.exp(1j * np.outer(distance, own))).real.sum(1) / math.sqrt(d)
        by_drift = -bias[str(layer), str(q_head)] * distance / math.sqrt(d)
        for cell in profile:
            if (int(cell["layer"]), int(cell["q_head"])) == (layer, q_head):
                rows = range(int(cell["row_first"]), int(cell["row_last"]) + 1)
                b = bin_of(int(cell["distance_first"]))
                # turned back, rows after RoPE are those before it to the digits of float32
                assert number(cell["predicted_means"]) == pytest.approx(predicted(rows, by_means)[b], abs=1e-5)
                assert number(cell["predicted_rotation"]) == pytest.approx(predicted(rows, by_drift)[b], abs=1e-9)
                assert number(cell["uniform"]) == pytest.approx(predicted(rows, 0 * by_drift)[b], abs=1e-9)


def test_scale(qkscope, capture, tmp_path):
    """At scale 1 / sqrt(d) nothing changes; at a tiny one attention is uniform."""
    usual, _ = run(qkscope, capture / "post", tmp_path / "a", "--heads", "0:3")
    given, _ = run(qkscope, capture / "post", tmp_path / "b", "--heads", "0:3", "--attention-scale", "0.25")
    dim = rows_of(capture / "post", 0, 3, "q").popitem()[1].shape[1]
    assert (usual == given) == (dim == 16)
    none, _ = run(qkscope, capture / "post", tmp_path / "c", "--heads", "0:3", "--attention-scale", "1e-12")
    assert abs(number(none[0]["information"])) < 1e-9
    assert none[0]["names"] == "uniform"


def test_analyze_has_the_tables(qkscope, capture, tmp_path):
    """The same bytes as of the command alone, by any number of threads; of sums that are kept."""
    run(qkscope, capture / "kept", tmp_path / "alone", "--ci", "90", "--threads", "1")
    qkscope("analyze", capture / "kept", "-o", tmp_path / "all", "--ci", "90", "--threads", "3", "-q", expect=0)
    for name in ("attention.csv", "attention_profile.csv"):
        assert (tmp_path / "all" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    rows = read(tmp_path / "alone" / "attention.csv")
    assert all(number(r["sink_mass_lo"]) < number(r["sink_mass"]) < number(r["sink_mass_hi"]) for r in rows)
    assert {name for r in rows for name in r["names"].split()} >= {"previous-token"}


def test_kept_sums_are_those_of_rows(qkscope, capture, tmp_path):
    """What the prefill measures, in float32, beside the rows that it wrote; test_kept_sums.py holds such sums against NumPy."""
    for tables in zip(run(qkscope, capture / "post", tmp_path / "rows", "--ci", "90"),
                      run(qkscope, capture / "kept", tmp_path / "sums", "--ci", "90"), strict=True):
        for own, kept in zip(*tables, strict=True):
            for name in own:
                if own[name] and name not in ("model", "names"):
                    assert number(kept[name]) == pytest.approx(number(own[name]), rel=2e-5, abs=2e-6), name
            assert own.get("names") == kept.get("names")
            assert kept.get("induction_uniform") != "" and not own.get("induction_uniform")  # of rows no tokens are known
            assert kept["texts"] == str(TEXTS) if "texts" in kept else own["row_first"] == kept["row_first"]


@pytest.mark.test_all
def test_study(qkscope, capture, tmp_path):
    """Of two models one has attention; the second time nothing is computed, nor where nobody asks for what is kept."""
    for analyses, heads in (["rotation", "attention"], 8), (["rotation"], 0):
        (tmp_path / "study.yaml").write_text(json.dumps({"analyses": analyses, "models": [
            {"name": name, "source": str(capture / source)} for name, source in (("with", "kept"), ("without", "post"))]}))
        out = tmp_path / str(heads)
        for _ in range(2):
            said = qkscope("study", tmp_path / "study.yaml", "-o", out, "--no-figures", "--json", expect=0)
        assert {model["state"] for model in json.loads(said.out)["models"]} == {"kept"}
        rows = read(out / "attention.csv") if heads else []
        assert len(rows) == heads and {row["model"] for row in rows} <= {"with"}
        assert (out / "attention.csv").exists() == bool(heads)


def test_without_attention(qkscope, capture, tmp_path):
    """analyze leaves it out in silence; the command says what to do."""
    some = ROOT / "examples" / "kjv-tiny-capture"
    said = qkscope("attention", some, "-o", tmp_path / "a", expect=1).err
    assert "capture with --keep rows,attention" in said
    assert not (tmp_path / "a").exists()
    said = qkscope("analyze", some, "-o", tmp_path / "b", "--layers", "0", expect=0)
    assert "attention" not in said.err.replace(str(tmp_path), "")
    assert not list((tmp_path / "b").glob("attention*"))
    assert "capture with --keep" in qkscope("attention", capture / "pre", "-o", tmp_path / "c", expect=1).err
    for more in (["--max-samples", "100"], ["--from-position", "4"]):
        assert "attention is of all rows" in qkscope("attention", capture / "post", "-o", tmp_path / "d", *more, expect=1).err
