# SPDX-License-Identifier: Apache-2.0
"""Sums over rows of attention by the bridge, beside eager attention in float64, beside NumPy on the rows of a capture,
and by all the ways that rows go. hf_attention.py makes what is read here."""
import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, TIER, read_rows

from hf_environment import hf_run, once

pytestmark = pytest.mark.test_all

sys.path.append(str(ROOT / "tests" / "attention"))
from attention_rows import AT, SUMS, attention, bin_of, joined, scores_of, sums_of_text  # noqa: E402

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
load_file = pytest.importorskip("safetensors.numpy").load_file

SAVED = ROOT / "tests" / "data" / "saved"
EVERY = 5
# Windows, sinks, soft caps, position bias, scales of their own, queries and keys of two parts, layers without attention.
KINDS = ["gpt_oss", "cohere2", "gpt2", "deepseek_v3", "gemma2", "bamba", "modernbert-decoder", "phi", "inkling_text", "granite",
         "mimo_v2_flash", "llama4_text", "afmoe", "gpt_neox", "olmo3", "flint", "opt", "stablelm", "granitemoehybrid", "starcoder2",
         "qwen3_next", "gemma3n_text", "glm4_moe", "biogpt", "hy_v4", "recurrent_gemma",
         *(str(path) for path in sorted(SAVED.iterdir()) if path.is_dir() and path.suffix != ".golden")]


@pytest.fixture(scope="session")
def ran(tmp_path_factory):
    """Folder of all that hf_attention.py made."""
    return once(tmp_path_factory, "hf_attention", lambda folder: hf_run(
        Path(__file__).with_name("hf_attention.py"), folder, *(KINDS if TIER == "long" else KINDS[::EVERY])))


@pytest.mark.parametrize("check", ["ways", "windows", "unknown", "pieces"])
def test_check(ran, check):
    found = json.loads((ran / "found.json").read_text())[check]
    assert found["error"] is None, found["error"]


# ---- beside eager attention ----------------------------------------------------------------------

@pytest.mark.sample(EVERY)
@pytest.mark.parametrize("kind", KINDS, ids=[Path(kind).name if "/" not in kind else "saved-" + Path(kind).name for kind in KINDS])
def test_eager(ran, kind):
    """Every column, as a mean over the rows; models of transformers count the softmax in float32, most of them."""
    row, = (row for row in json.loads((ran / "rows.json").read_text()) if row["type"] == kind)
    assert "failed" not in row and row["why"] == "" and row["layers"] > 0, row
    assert row["error"] < 1e-6 and row["float32"] < 1e-5 and row["tiles"] < 1e-12, row


# ---- beside the rows of a capture ----------------------------------------------------------------

def examples(folder):
    with open(folder / "examples.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def sums_in(folder, layer):
    """{head: [row bucket][SUMS]} over all texts."""
    data = load_file(folder / "attention" / f"l{layer:02d}.safetensors")
    made = {}
    for place, head in enumerate(data["q.heads"]):
        made[int(head)] = {int(b): np.append(count[place] * mean[place, :-1], mean[place, -1]) for b, count, mean in
                           zip(data["q.bucket"], data["q.bucket_count"], data["q.bucket_mean"])}
    return made


def total(folder, layer, head):
    return joined(list(sums_in(folder, layer)[head].values()))


@pytest.mark.parametrize("name", ["host", "made"])
def test_rows_of_the_capture(ran, name):
    """By bucket, in NumPy, from the queries and keys that lie beside them."""
    folder = ran / "ways" / name
    layer, head = 1, 2
    q, k = (read_rows(folder, f"l{layer:02d}h{h:02d}{kind}") for h, kind in ((head, "q"), (head // 2, "k")))
    wanted = {}
    for row in examples(folder):
        mine, theirs = (x["vector"][x["example_id"] == int(row["example_id"])] for x in (q, k))
        of = mine, theirs, mine.shape[1] ** -0.5
        for b, values in enumerate(sums_of_text(attention(*of), scores=scores_of(*of))):  # without tokens
            wanted[b] = joined([wanted[b], values]) if b in wanted else values
    found = sums_in(folder, layer)[head]
    tokens = [i for n, i in AT.items() if n.startswith(("duplicate", "induction"))]
    assert found.keys() == wanted.keys()
    for b, values in wanted.items():
        other = np.setdiff1d(np.arange(SUMS), tokens)
        scale = np.maximum(values[AT["rows"]], np.abs(values[other]))
        assert (np.abs(found[b][other] - values[other]) <= 1e-5 * scale).all(), b


def test_made_texts_repeat(ran):
    """From the second of four copies on each row has a copy behind it, and one that follows it."""
    sums = total(ran / "ways" / "made", 0, 0)
    texts, length = 6, 20
    assert sums[AT["rows"]] == texts * 4 * length
    assert sums[AT["duplicate_rows"]] >= texts * 3 * length and sums[AT["induction_rows"]] >= texts * 3 * length
    assert sums[AT["duplicate_rows"]] < texts * 4 * length
    uniform = sum(1 / (i + 1) * (i // length) for i in range(4 * length)) * texts
    assert sums[AT["duplicate_uniform"]] >= uniform * (1 - 1e-12)  # more where a token comes twice in a copy


def test_engine(ran, qkscope, tmp_path):
    """What the C engine measures in its prefill."""
    qkscope("capture", "-m", ROOT / "examples" / "kjv-tiny" / "step-2004", "-t", "repeat:20x4:6:1", "--sampler", "all",
            "--keep", "rows,attention", "-o", tmp_path / "c", "-q", expect=0)
    for layer in range(5):
        mine, theirs = sums_in(ran / "ways" / "made", layer), sums_in(tmp_path / "c", layer)
        assert mine.keys() == theirs.keys()
        for head, by_bucket in theirs.items():
            assert mine[head].keys() == by_bucket.keys()
            for b, values in by_bucket.items():
                scale = np.maximum(np.abs(values), values[AT["rows"]])
                assert (np.abs(mine[head][b] - values) <= 1e-5 * scale).all(), (layer, head, b)


# ---- by all ways ---------------------------------------------------------------------------------

@pytest.mark.parametrize("name, loose", [("chunks", 1e-5), ("together", 1e-5), ("device", 1e-5), ("device_chunks", 1e-5),
                                         ("eager", 1e-5), ("moments", 0), ("device_moments", 1e-5), ("all_of_few", 0),
                                         ("some", 1e-5), ("whole", 1e-12), ("both/post", 0)])
def test_ways(ran, name, loose):
    """Also of all rows where few are kept, and of a sample that is all of them."""
    mine = ran / "ways" / name
    assert not (mine.parent / "pre" / "attention").exists()
    layers = sorted(p.name for p in (mine / "attention").iterdir())
    assert layers == (["l00.safetensors", "l02.safetensors"] if name == "some" else [f"l{i:02d}.safetensors" for i in range(5)])
    for layer in (0, 2):
        got, wanted = sums_in(mine, layer), sums_in(ran / "ways" / "host", layer)
        assert got.keys() == (wanted.keys() if name != "some" else {0: {1}, 2: {0, 1, 2, 3}}[layer])
        for head in got:
            for b, values in got[head].items():
                assert (np.abs(values - wanted[head][b]) <= loose * np.maximum(wanted[head][b], wanted[head][b][0])).all()


def test_windows(ran):
    whole, chunks = ran / "windows" / "whole", ran / "windows" / "chunks"
    for layer in range(4):
        for head, by_bucket in sums_in(whole, layer).items():
            for b, values in by_bucket.items():
                assert (np.abs(sums_in(chunks, layer)[head][b] - values) <= 2e-5 * np.maximum(values, values[0])).all()
            total = joined(list(by_bucket.values()))
            assert 0 < total[AT["no_key"]] < total[AT["rows"]]


def test_few(ran):
    """A text of which no row was kept adds nothing."""
    folder = ran / "ways" / "few"
    rows = read_rows(folder, "l00h00q")
    kept = set(rows["example_id"])
    assert 0 < len(kept) < len(examples(folder))
    assert 0 < total(folder, 0, 0)[0] < sum(int(row["tokens"]) for row in examples(folder))


# ---- what a row stands for -----------------------------------------------------------------------

def test_weights_of_a_sample():
    """Rows of a bucket of the sampler stand for all rows in it; and so on average, over ids of texts, sums over a sample
    are those over all rows."""
    choose_rows = pytest.importorskip("qkscope.hf.attention").choose_rows
    tokens, sampler = 100, qk.Sampler("uniform", 8, 16)
    values = np.sin(np.arange(tokens)) + 2
    found = []
    for example in range(3000):
        kept = np.asarray(sampler.positions(example, 3, "q", tokens))
        chosen = choose_rows(kept, tokens, sampler)
        buckets, drawn = np.arange(tokens) // 16, kept // 16
        assert chosen.positions.tolist() == kept.tolist() and chosen.num_buckets == 8
        assert chosen.buckets.tolist() == [bin_of(p) for p in kept]
        np.testing.assert_allclose(chosen.weights, [(buckets == b).sum() / (drawn == b).sum() for b in drawn])
        if set(drawn) == set(buckets):
            found.append((chosen.weights * values[kept]).sum())
    found = np.array(found)
    assert len(found) > 2000
    assert abs(found.mean() - values.sum()) < 4 * found.std() / len(found) ** 0.5
    whole = choose_rows(range(tokens), tokens, sampler)
    assert (whole.weights == 1).all() and whole.positions.tolist() == list(range(tokens))
    none = choose_rows([], tokens, sampler)
    assert none.positions.tolist() == [0] and none.weights.tolist() == [0] and none.buckets.tolist() == [0]
    late = choose_rows([2**23], 2**23 + 1, None)
    assert late.buckets.tolist() == [21] and late.num_buckets == 22
