# SPDX-License-Identifier: Apache-2.0
"""qkscope export: each format against NumPy on the rows, from rows and from moments; what is refused, and that nothing is
written then."""
import numpy as np
import pytest
from conftest import EXAMPLE, ROOT, read_json
from export_oracle import (DIM, FREQUENCIES, GROUP, KEYS, LAYERS, LENGTH, QUERIES, TEXTS, duo_scores, kvpress_stats, make_heads,
                           q_filters, write_ablation, write_capture)
from safetensors.numpy import load_file

MODEL = ROOT / "examples" / "kjv-tiny" / "step-2004"
TEXT = ROOT / "examples" / "kjv-tiny" / "passages.jsonl"


@pytest.fixture(scope="module")
def heads():
    return make_heads()


@pytest.fixture(scope="module")
def before(heads, tmp_path_factory):
    return write_capture(tmp_path_factory.mktemp("before"), heads)


@pytest.fixture(scope="module")
def after(heads, tmp_path_factory):
    return write_capture(tmp_path_factory.mktemp("after"), heads, "post-rope")


def tensors(folder):
    return load_file(folder / "model.safetensors")


def table(folder):
    return np.loadtxt(folder / "full_attention_heads.tsv", delimiter="\t", ndmin=2)


def listing(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def near(a, b, rtol=1e-6):
    """Beside the largest number of b, since single ones may be near 0."""
    assert a.shape == b.shape
    assert np.abs(a - b).max() <= rtol * np.abs(b).max()


# ---- the formats -----------------------------------------------------------------------------

@pytest.mark.parametrize("first", [None, 9])
def test_kvpress_stats_are_mean_and_covariance_of_the_rows(qkscope, heads, before, tmp_path, first):
    options = [] if first is None else ["--from-position", first]
    qkscope("export", "kvpress-stats", before, "-o", tmp_path / "out", "--dataset", "a/b", *options, expect=0)
    mean, cov = kvpress_stats(heads, first or 4)
    found = tensors(tmp_path / "out")
    assert {name: (x.shape, x.dtype) for name, x in found.items()} == {
        "query_mean": ((LAYERS, QUERIES, DIM), np.float32), "query_cov": ((LAYERS, QUERIES, DIM, DIM), np.float32)}
    near(found["query_mean"], mean, 1e-7)
    near(found["query_cov"], cov, 1e-7)
    assert read_json(tmp_path / "out" / "config.json") == {
        "num_layers": LAYERS, "num_heads": QUERIES, "head_dim": DIM, "dataset_name": "a/b", "model_name": "org/made",
        "num_samples": TEXTS, "sample_seq_len": LENGTH, "n_sink": first or 4}


@pytest.mark.parametrize("case", ["whole", "factor, interleaved, one layer"])
def test_duo_scores_of_means(qkscope, heads, tmp_path, case):
    special = case != "whole"
    factor, scale, type = (1.3, 0.7, "yarn") if special else (1.0, DIM ** -0.5, "default")
    frequencies = {0: FREQUENCIES[:3], 1: []} if special else {0: FREQUENCIES, 1: FREQUENCIES}
    rope = {"type": type, "pairing": "interleaved" if special else "half", "attention_factor": factor,
            "frequencies": {str(layer): values for layer, values in frequencies.items() if values}}
    write_capture(tmp_path / "in", heads, rope=rope, attention_scale=scale if special else None)
    qkscope("export", "duo-attention", tmp_path / "in", "-o", tmp_path / "out", "--sink", 64, expect=0)
    expected = duo_scores(heads, frequencies, scale, factor, interleaved=special)
    near(table(tmp_path / "out"), expected, 1e-10)
    assert len(set(expected.ravel().round(6))) > 1
    assert read_json(tmp_path / "out" / "config.json") == {"sink_size": 64, "recent_size": 256}


def test_duo_scores_of_an_ablation(qkscope, tmp_path):
    """The largest loss of the query heads of a key head, over the largest of all; no loss is 0."""
    deltas = np.random.default_rng(3).normal(0.01, 0.02, (LAYERS, QUERIES))
    deltas[1, 2:] = [-0.3, -0.1]
    source = write_ablation(tmp_path / "in", deltas)
    qkscope("export", "duo-attention", source, "-o", tmp_path / "out", expect=0)
    best = np.maximum(deltas.reshape(LAYERS, KEYS, GROUP).max(2), 0)
    near(table(tmp_path / "out"), best / best.max(), 1e-15)
    assert table(tmp_path / "out")[1, 1] == 0 and table(tmp_path / "out").max() == 1


def test_q_filters_are_first_singular_vectors(qkscope, heads, after, tmp_path):
    """And heads whose sign is not clear are named."""
    done = qkscope("export", "q-filters", after, "-o", tmp_path / "out", expect=0)
    filters, majority = q_filters(heads)
    assert majority.min() > 0.65 and "not sure" not in done.err
    near(tensors(tmp_path / "out")["q_filters"], filters)
    assert read_json(tmp_path / "out" / "config.json") == {"num_layers": LAYERS, "num_kv_heads": KEYS, "kv_head_dim": DIM}
    mixed = {name: dict(rows) for name, rows in heads.items()}
    for name in ("l00h03q", "l01h00q"):
        mixed[name]["vector"] = mixed[name]["vector"] * np.where(np.arange(TEXTS * LENGTH) % 2, 1, -1)[:, None].astype(np.float32)
    done = qkscope("export", "q-filters", write_capture(tmp_path / "in", mixed, "post-rope"), "-o", tmp_path / "mixed", expect=0)
    assert "2 of 8 query heads" in done.err and "l00h03q, l01h00q\n" in done.err


@pytest.mark.test_all
def test_moments_give_what_rows_give(qkscope, tmp_path):
    """Of a real model, also on several threads."""
    for keep in ("rows", "moments,first=4"):
        qkscope("capture", "-m", MODEL, "-t", TEXT, "--max-texts", 3, "--stage", "both", "--sampler", "all", "--keep", keep,
                "-o", tmp_path / keep[:4], expect=0)
    for form, stage in (("kvpress-stats", "pre"), ("q-filters", "post"), ("duo-attention", "pre")):
        for keep, threads in (("rows", 1), ("mome", 1), ("mome", 3)):
            out = tmp_path / form / f"{keep}{threads}"
            qkscope("export", form, tmp_path / keep / stage, "-o", out, "--threads", threads, expect=0)
        rows, moments, again = (tmp_path / form / name for name in ("rows1", "mome1", "mome3"))
        assert read_json(rows / "config.json") == read_json(moments / "config.json") and listing(moments) == listing(again)
        if form == "duo-attention":
            near(table(moments), table(rows), 1e-9)
            continue
        for name, x in tensors(rows).items():
            near(tensors(moments)[name], x)


def test_a_list_is_that_of_heads(qkscope, tmp_path):
    qkscope("pca", EXAMPLE, "-o", tmp_path / "results", "--layers", "0,1", expect=0)
    query = ["--where", "r_q > 0.1", "--sort", "-abs(r_k)", "--top", 5]
    qkscope("export", "transformer-lens", tmp_path / "results", "-o", tmp_path / "out", *query, expect=0)
    listed = qkscope("heads", tmp_path / "results", "--format", "list", *query, expect=0).out.strip()
    found = read_json(tmp_path / "out" / "heads.json")
    assert len(found) == 5 and ",".join(f"{layer}:{head}" for layer, head in found) == listed


# ---- what is refused -------------------------------------------------------------------------

def without(heads, name):
    return {key: rows for key, rows in heads.items() if key != name}


def changed(heads, name, change):
    return {**heads, name: {**heads[name], "vector": change(heads[name]["vector"])}}


LOSSES = np.full((LAYERS, QUERIES), 0.1)
REFUSED = [
    ("kvpress-stats", lambda f, h: write_capture(f, changed(h, "l01h02q", lambda x: np.where(x > 1, np.nan, x))), "l01h02q"),
    ("kvpress-stats", lambda f, h: write_capture(f, without(h, "l01h02q")), "the first is l01h02q"),
    ("duo-attention", lambda f, h: write_capture(f, without(h, "l01h00k")), "the first is l01h00k"),
    ("duo-attention", lambda f, h: write_capture(f, h, "post-rope"), "--stage pre"),
    ("q-filters", lambda f, h: write_capture(f, h), "--stage post"),
    ("q-filters", lambda f, h: write_capture(f, h, None), '"stage": "post-rope"'),
    ("duo-attention", lambda f, h: write_ablation(f, LOSSES, "window:16:4"), "--what window:256:128"),
    ("duo-attention", lambda f, h: write_ablation(f, LOSSES[:, :3]), "6 of 8 heads"),
    ("duo-attention", lambda f, h: write_ablation(f, -LOSSES), "no head loses anything"),
    ("duo-attention", lambda f, h: write_ablation(f, LOSSES, complete=False), "not complete"),
]


@pytest.mark.test_all
@pytest.mark.parametrize("form, make, message", REFUSED, ids=[message for *_, message in REFUSED])
def test_what_is_refused_leaves_nothing(qkscope, heads, tmp_path, form, make, message):
    source = make(tmp_path / "in", heads)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "config.json").write_text("{}")
    for output, options in (("new", []), ("kept", ["--force"])):
        assert message in qkscope("export", form, source, "-o", tmp_path / output, *options, expect=1).err
    assert not (tmp_path / "new").exists() and listing(tmp_path / "kept") == {"config.json": b"{}"}


@pytest.mark.test_all
def test_files_that_are_there_are_replaced_by_force_alone(qkscope, before, tmp_path):
    folder = tmp_path / "model"  # config.json and model.safetensors are a model's, too
    folder.mkdir()
    (tmp_path / "theirs").write_text("theirs")
    (folder / "config.json").symlink_to("../theirs")  # a link is replaced, not followed
    done = qkscope("export", "kvpress-stats", before, "-o", folder, expect=1)
    assert "config.json: is there already" in done.err and "--force" in done.err
    qkscope("export", "kvpress-stats", before, "-o", folder, "--force", expect=0)
    assert set(listing(folder)) == {"config.json", "model.safetensors"}
    assert (tmp_path / "theirs").read_text() == "theirs" and not (folder / "config.json").is_symlink()
