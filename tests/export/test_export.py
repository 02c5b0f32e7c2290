# SPDX-License-Identifier: Apache-2.0
"""qkscope export: each format against NumPy on the rows, from rows and from moments; what is refused, and that nothing is
written then."""
import json
import math
import os
import re
import shutil

import numpy as np
import pytest
from conftest import EXAMPLE, ROOT, read_json
from export_oracle import (DIM, FREQUENCIES, GROUP, KEYS, LAYERS, LENGTH, QUERIES, TEXTS, duo_scores, kvpress_stats, make_heads,
                           q_filters, write_ablation, write_capture)
from safetensors.numpy import load_file

MODEL = ROOT / "examples" / "kjv-tiny" / "step-2004"
TEXT = ROOT / "examples" / "kjv-tiny" / "passages.jsonl"
ALL = {layer: FREQUENCIES for layer in range(LAYERS)}


@pytest.fixture(scope="module")
def heads():
    return make_heads()


@pytest.fixture(scope="module")
def before(heads, tmp_path_factory):
    return write_capture(tmp_path_factory.mktemp("before"), heads)


@pytest.fixture(scope="module")
def after(heads, tmp_path_factory):
    return write_capture(tmp_path_factory.mktemp("after"), heads, "post-rope")


@pytest.fixture(scope="module")
def captured(qkscope, tmp_path_factory):
    """The same texts of a real model as rows, and as moments with the first 4 positions apart."""
    folder = tmp_path_factory.mktemp("captured")
    for keep in ("rows", "moments,first=4"):
        qkscope("capture", "-m", MODEL, "-t", TEXT, "--max-texts", 3, "--stage", "both", "--sampler", "all", "--keep", keep,
                "-o", folder / keep[:4], expect=0)
    return folder


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


# ---- kvpress ---------------------------------------------------------------------------------

@pytest.mark.parametrize("first", [None, 4, 9])
def test_kvpress_stats_are_mean_and_covariance_of_the_rows(qkscope, heads, before, tmp_path, first):
    options = [] if first is None else ["--from-position", first]
    qkscope("export", "kvpress-stats", before, "-o", tmp_path / "out", "--dataset", "a/b", *options, expect=0)
    mean, cov = kvpress_stats(heads, first or 4)
    found = tensors(tmp_path / "out")
    assert {name: (x.shape, x.dtype) for name, x in found.items()} == {
        "query_mean": ((LAYERS, QUERIES, DIM), np.float32), "query_cov": ((LAYERS, QUERIES, DIM, DIM), np.float32)}
    near(found["query_mean"], mean, 1e-7)
    near(found["query_cov"], cov, 1e-7)
    assert np.array_equal(found["query_cov"], found["query_cov"].transpose(0, 1, 3, 2))
    assert read_json(tmp_path / "out" / "config.json") == {
        "num_layers": LAYERS, "num_heads": QUERIES, "head_dim": DIM, "dataset_name": "a/b", "model_name": "org/made",
        "num_samples": TEXTS, "sample_seq_len": LENGTH, "n_sink": first or 4}


def test_moments_give_what_rows_give(qkscope, captured, tmp_path):
    for form, stage in (("kvpress-stats", "pre"), ("q-filters", "post"), ("duo-attention", "pre")):
        for keep in ("rows", "mome"):
            qkscope("export", form, captured / keep / stage, "-o", tmp_path / form / keep, expect=0)
        rows, moments = tmp_path / form / "rows", tmp_path / form / "mome"
        assert read_json(rows / "config.json") == read_json(moments / "config.json")
        if form == "duo-attention":
            near(table(moments), table(rows), 1e-9)
            continue
        for name, x in tensors(rows).items():
            near(tensors(moments)[name], x)


def test_results_do_not_depend_on_threads(qkscope, captured, before, tmp_path):
    for form, source in (("kvpress-stats", captured / "mome" / "pre"), ("q-filters", captured / "rows" / "post"), ("duo-attention", before)):
        for threads in (1, 3):
            qkscope("export", form, source, "-o", tmp_path / form / str(threads), "--threads", threads, expect=0)
        assert listing(tmp_path / form / "1") == listing(tmp_path / form / "3")


# ---- DuoAttention ----------------------------------------------------------------------------

@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("case", ["whole", "partial", "factor", "one layer"])
def test_duo_scores_of_means(qkscope, heads, tmp_path, case, interleaved):
    factor, scale = (1.3, 0.7) if case == "factor" else (1.0, DIM ** -0.5)
    frequencies = {**ALL}
    if case == "partial":
        frequencies = {layer: FREQUENCIES[:3] for layer in range(LAYERS)}
    if case == "one layer":
        frequencies[1] = []
    rope = {"type": "yarn" if case == "factor" else "default", "pairing": "interleaved" if interleaved else "half",
            "frequencies": {str(layer): values for layer, values in frequencies.items() if values}}
    if case == "factor":
        rope["attention_factor"] = factor
    write_capture(tmp_path / "in", heads, rope=rope, attention_scale=scale if case == "factor" else None)
    qkscope("export", "duo-attention", tmp_path / "in", "-o", tmp_path / "out", "--sink", 64, expect=0)
    expected = duo_scores(heads, frequencies, scale, factor, interleaved=interleaved)
    near(table(tmp_path / "out"), expected, 1e-10)
    assert len(set(expected.ravel().round(6))) > 1
    assert read_json(tmp_path / "out" / "config.json") == {"sink_size": 64, "recent_size": 256}


def test_duo_length_and_first_positions(qkscope, heads, before, tmp_path):
    qkscope("export", "duo-attention", before, "-o", tmp_path / "out", "--length", 37, "--from-position", 5, expect=0)
    near(table(tmp_path / "out"), duo_scores(heads, ALL, DIM ** -0.5, length=37, first=5), 1e-10)


def test_duo_takes_rope_of_a_model(qkscope, captured, tmp_path):
    source = captured / "mome" / "pre"
    told = read_json(source / "capture.json")
    qkscope("export", "duo-attention", source, "-o", tmp_path / "told", expect=0)
    del told["rope"]["frequencies"]
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "moments").symlink_to(source / "moments")
    (copy / "capture.json").write_text(json.dumps(told))
    silent = qkscope("export", "duo-attention", copy, "-o", tmp_path / "no", expect=1)
    assert "no rope.frequencies" in silent.err and "--model MODEL" in silent.err
    qkscope("export", "duo-attention", copy, "-o", tmp_path / "given", "--model", MODEL, expect=0)
    assert listing(tmp_path / "told") == listing(tmp_path / "given")
    other = qkscope("export", "duo-attention", write_capture(tmp_path / "made", make_heads()), "-o", tmp_path / "no", "--model", MODEL, expect=1)
    assert "2 layers of 4 query and 2 key heads of 8 values, and the model has 5 of 4 and 2 of 32" in other.err


def test_duo_factor_of_a_captured_model(qkscope, tmp_path):
    """YaRN multiplies queries and keys by a factor, which a capture tells."""
    shutil.copytree(MODEL, tmp_path / "model")
    config = read_json(MODEL / "config.json")
    config["rope_scaling"] = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 128}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    qkscope("capture", "-m", tmp_path / "model", "-t", TEXT, "--max-texts", 2, "--stage", "pre", "--keep", "moments", "-o", tmp_path / "in", expect=0)
    assert read_json(tmp_path / "in" / "capture.json")["rope"]["attention_factor"] == pytest.approx(0.1 * math.log(8) + 1)
    for output, options in (("told", []), ("given", ["--model", tmp_path / "model"]), ("plain", ["--model", MODEL])):
        qkscope("export", "duo-attention", tmp_path / "in", "-o", tmp_path / output, *options, expect=0)
    assert listing(tmp_path / "told") == listing(tmp_path / "given") != listing(tmp_path / "plain")


def test_duo_scores_of_an_ablation(qkscope, tmp_path):
    """The largest loss of the query heads of a key head, over the largest of all; no loss is 0."""
    deltas = np.random.default_rng(3).normal(0.01, 0.02, (LAYERS, QUERIES))
    deltas[1, 2:] = [-0.3, -0.1]
    source = write_ablation(tmp_path / "in", deltas)
    outcome = json.loads(qkscope("export", "duo-attention", source, "-o", tmp_path / "out", "--json", expect=0).out)
    best = np.maximum(deltas.reshape(LAYERS, KEYS, GROUP).max(2), 0)
    near(table(tmp_path / "out"), best / best.max(), 1e-15)
    assert table(tmp_path / "out")[1, 1] == 0 and table(tmp_path / "out").max() == 1
    assert outcome["heads"] == LAYERS * KEYS
    write_ablation(tmp_path / "small", deltas, "window:16:4")
    qkscope("export", "duo-attention", tmp_path / "small", "-o", tmp_path / "small-out", "--recent", 16, "--sink", 4, expect=0)
    assert read_json(tmp_path / "small-out" / "config.json") == {"sink_size": 4, "recent_size": 16}


def test_duo_scores_of_a_run_of_ablate(qkscope, tmp_path):
    qkscope("ablate", "-m", MODEL, "-t", TEXT, "--max-texts", 2, "--what", "window:16:4", "-o", tmp_path / "in", expect=0, timeout=300)
    qkscope("export", "duo-attention", tmp_path / "in", "-o", tmp_path / "out", "--recent", 16, "--sink", 4, expect=0)
    found = table(tmp_path / "out")
    assert found.shape == (5, 2) and found.max() == 1 and found.min() >= 0


# ---- Q-Filters -------------------------------------------------------------------------------

def test_q_filters_are_first_singular_vectors(qkscope, heads, after, tmp_path):
    done = qkscope("export", "q-filters", after, "-o", tmp_path / "out", expect=0)
    filters, majority = q_filters(heads)
    found = tensors(tmp_path / "out")["q_filters"]
    assert majority.min() > 0.65 and "not sure" not in done.err
    assert found.dtype == np.float32
    near(found, filters)
    assert read_json(tmp_path / "out" / "config.json") == {"num_layers": LAYERS, "num_kv_heads": KEYS, "kv_head_dim": DIM}


def test_q_filters_without_a_clear_sign_are_named(qkscope, heads, tmp_path):
    mixed = {name: dict(rows) for name, rows in heads.items()}
    for name in ("l00h03q", "l01h00q"):
        mixed[name]["vector"] = mixed[name]["vector"] * np.where(np.arange(TEXTS * LENGTH) % 2, 1, -1)[:, None].astype(np.float32)
    done = qkscope("export", "q-filters", write_capture(tmp_path / "in", mixed, "post-rope"), "-o", tmp_path / "out", expect=0)
    assert "2 of 8 query heads" in done.err and "l00h03q, l01h00q\n" in done.err


# ---- lists of heads --------------------------------------------------------------------------

def test_a_list_is_that_of_heads(qkscope, tmp_path):
    qkscope("analyze", EXAMPLE, "-o", tmp_path / "results", expect=0)
    query = ["--where", "r_q > 0.5", "--sort", "-abs(r_k)", "--top", 5]
    qkscope("export", "transformer-lens", tmp_path / "results", "-o", tmp_path / "out", *query, expect=0)
    listed = qkscope("heads", tmp_path / "results", "--format", "list", *query, expect=0).out.strip()
    found = read_json(tmp_path / "out" / "heads.json")
    assert len(found) == 5 and ",".join(f"{layer}:{head}" for layer, head in found) == listed
    for where, code, message in (("r_q > 7", 1, "there is no such head among 20"), ("r_w > 0", 2, "r_w"), ("r_q >", 2, "where")):
        done = qkscope("export", "transformer-lens", tmp_path / "results", "-o", tmp_path / "none", "--where", where, expect=code)
        assert message in done.err and not (tmp_path / "none").exists()


# ---- what is refused -------------------------------------------------------------------------

def spoiled(folder, heads, what):
    """A capture, or an ablation, with something wrong; and the format that is asked for."""
    heads = {name: {**rows, "vector": rows["vector"].copy()} for name, rows in heads.items()}
    vector = heads["l01h02q"]["vector"]
    deltas = np.full((LAYERS, QUERIES), 0.1)
    if what == "NaN":
        vector[17, 3] = np.nan
    if what == "huge":
        vector *= 1e30
    if what == "other dimension":
        heads["l01h02q"]["vector"] = vector[:, :6]
    if what == "few rows":
        heads = {name: {column: values[:5] for column, values in rows.items()} for name, rows in heads.items()}
    if what == "layer":
        heads = {name: rows for name, rows in heads.items() if name[:3] != "l01"}
    if what == "query head":
        del heads["l01h02q"]
    if what == "key head":
        del heads["l01h00k"]
    if what == "last head":
        heads = {name: rows for name, rows in heads.items() if name[3:] not in ("h02q", "h03q", "h01k")}
        return write_capture(folder, heads, run={"sink": {"q_heads": QUERIES, "k_heads": KEYS}})
    if what == "stage unknown":
        return write_capture(folder, heads, None)
    if what == "stage":
        return write_capture(folder, heads, "post-rope")
    if what == "factor":
        return write_capture(folder, heads, rope={"type": "yarn", "frequencies": {"0": FREQUENCIES, "1": FREQUENCIES}})
    if what == "frequencies":
        return write_capture(folder, heads, rope={"type": "default", "frequencies": {"0": FREQUENCIES * 2}})
    if what == "no window":
        return write_ablation(folder, deltas, "window:16:4")
    if what == "ablation head":
        return write_ablation(folder, deltas[:, :3])
    if what == "no loss":
        return write_ablation(folder, -deltas)
    if what == "ablation NaN":
        deltas[1, 1] = np.nan
        return write_ablation(folder, deltas)
    if what == "ablation shape":
        return write_ablation(folder, deltas, told=False)
    if what == "not complete":
        return write_ablation(folder, deltas, complete=False)
    if what == "groups":
        return write_ablation(folder, deltas, num_k_heads=3)
    return write_capture(folder, heads)


REFUSED = [
    ("kvpress-stats", "NaN", "l01h02q", "NaN or infinity"), ("kvpress-stats", "huge", "l01h02q", "float32"),
    ("kvpress-stats", "other dimension", "l01h02q", "6 values, and of 8 elsewhere"), ("kvpress-stats", "few rows", "l00h00q", "needs 2 rows"),
    ("kvpress-stats", "layer", "4 of 8 query heads are not there, the first is l01h00q",),
    ("q-filters", "stage unknown", "nothing says whether", "\"stage\": \"post-rope\""),
    ("kvpress-stats", "query head", "the first is l01h02q"), ("kvpress-stats", "last head", "the first is l00h02q"),
    ("kvpress-stats", "stage", "is after RoPE", "--stage pre"), ("duo-attention", "stage", "is after RoPE", "--stage pre"),
    ("q-filters", "", "is before RoPE", "--stage post"), ("duo-attention", "key head", "key heads are not there, the first is l01h00k"),
    ("duo-attention", "factor", "rope.attention_factor", "--model"), ("duo-attention", "frequencies", "no room for the 8 rotary pairs"),
    ("duo-attention", "no window", "0 of 8 heads have a row of window:256:128", "--what window:256:128"),
    ("duo-attention", "ablation head", "6 of 8 heads", "layer 0, head 3"), ("duo-attention", "no loss", "no head loses anything"),
    ("duo-attention", "ablation NaN", "ablation.csv: row 15, column 'delta'"),
    ("duo-attention", "ablation shape", "manifest.json: no num_layers"), ("duo-attention", "not complete", "not complete"),
    ("duo-attention", "groups", "no groups of 3"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]}, {case[1] or 'before'}")
def test_what_is_refused_leaves_nothing(qkscope, heads, tmp_path, case):
    form, what, *messages = case
    source = spoiled(tmp_path / "in", heads, what)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "config.json").write_text("{}")
    for output, options in (("new", []), ("kept", ["--force"])):
        done = qkscope("export", form, source, "-o", tmp_path / output, *options, expect=1)
        assert all(message in done.err for message in messages), done.err
    assert not (tmp_path / "new").exists()
    assert listing(tmp_path / "kept") == {"config.json": b"{}"}


def test_moments_without_first_positions_are_refused(qkscope, tmp_path):
    qkscope("capture", "-m", MODEL, "-t", TEXT, "--max-texts", 2, "--stage", "pre", "--keep", "moments", "-o", tmp_path / "in", expect=0)
    done = qkscope("export", "kvpress-stats", tmp_path / "in", "-o", tmp_path / "out", expect=2)
    assert "not those of first positions apart" in done.err and "--keep moments,first=K" in done.err
    qkscope("export", "duo-attention", tmp_path / "in", "-o", tmp_path / "duo", expect=0)


@pytest.mark.parametrize("arguments, message", [
    ([], "which format"), (["q-filters"], "of what?"), (["q-filters", "in"], "where to?"),
    (["filters", "in", "-o", "out"], "there is no format 'filters'"), (["q-filters", "absent", "-o", "out"], "absent"),
    (["kvpress-stats", "in", "-o", "out", "--from-position", "3"], "first 4 positions"),
    (["duo-attention", "in", "-o", "out", "--length", "1"], "length"), (["duo-attention", "in", "-o", "out", "--model", "absent"], "absent"),
])
def test_usage(qkscope, before, tmp_path, arguments, message):
    (tmp_path / "in").symlink_to(before)
    done = qkscope("export", *arguments, cwd=tmp_path)
    assert done.code in (1, 2) and message in done.err
    assert not (tmp_path / "out").exists()


def test_results_and_models_are_no_captures(qkscope, tmp_path):
    qkscope("analyze", EXAMPLE, "-o", tmp_path / "results", expect=0)
    assert "results" in qkscope("export", "kvpress-stats", tmp_path / "results", "-o", tmp_path / "out", expect=1).err
    assert "model" in qkscope("export", "q-filters", MODEL, "-o", tmp_path / "out", expect=1).err


@pytest.mark.parametrize("format, own", [
    ("kvpress-stats", ["revision", "split", "q-per-kv-group", "from-position", "dataset"]),
    ("duo-attention", ["revision", "split", "q-per-kv-group", "from-position", "model", "sink", "recent", "length"]),
    ("q-filters", ["revision", "split", "q-per-kv-group", "from-position"]),
    ("transformer-lens", ["where", "sort", "top"]),
])
def test_options_of_other_formats_are_told(qkscope, tmp_path, format, own):
    """Whether or not the export then comes to an end; -q is silent."""
    given = {"dataset": "x", "revision": "main", "split": "s", "q-per-kv-group": 2, "from-position": 5, "where": "r_q > 0",
             "sort": "r_q", "top": 3, "model": "m", "sink": 4, "recent": 8, "length": 100, "threads": 1}
    options = [part for name, value in given.items() for part in (f"--{name}", value)]
    done = qkscope("export", format, tmp_path / "absent", "-o", tmp_path / "out", "--force", "--offline", *options)
    assert set(re.findall(r"note: --(\S+) does nothing for (\S+)\n", done.err)) == {
        (name, format) for name in given if name not in [*own, "threads"]}
    assert "note" not in qkscope("export", format, tmp_path / "absent", "-o", tmp_path / "out", "-q", *options).err


# ---- the output folder -----------------------------------------------------------------------

def test_files_that_are_there_are_replaced_by_force_alone(qkscope, before, tmp_path):
    folder = tmp_path / "model"  # config.json and model.safetensors are a model's, too
    folder.mkdir()
    (folder / "config.json").write_text("mine")
    done = qkscope("export", "kvpress-stats", before, "-o", folder, expect=1)
    assert f"{folder}/config.json: is there already" in done.err and "--force" in done.err
    assert listing(folder) == {"config.json": b"mine"}
    qkscope("export", "kvpress-stats", before, "-o", folder, "--force", expect=0)
    assert set(listing(folder)) == {"config.json", "model.safetensors"}


def test_links(qkscope, before, tmp_path):
    """The folder may be a link; a link in it is not followed."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "real" / "config.json").symlink_to("../theirs")
    assert "is there already" in qkscope("export", "duo-attention", before, "-o", tmp_path / "link", expect=1).err
    qkscope("export", "duo-attention", before, "-o", tmp_path / "link", "--force", expect=0)
    assert (tmp_path / "theirs").read_text() == "theirs" and (tmp_path / "link").is_symlink()
    assert not (tmp_path / "real" / "config.json").is_symlink() and read_json(tmp_path / "real" / "config.json")["recent_size"] == 256
    os.symlink("nowhere", tmp_path / "dangling")
    assert "dangling" in qkscope("export", "duo-attention", before, "-o", tmp_path / "dangling", expect=1).err


def test_what_is_told_as_json(qkscope, after, tmp_path):
    done = json.loads(qkscope("export", "q-filters", after, "-o", tmp_path / "out", "--json", expect=0).out)
    assert done == {"format": "q-filters", "output": str(tmp_path / "out"), "files": ["model.safetensors", "config.json"],
                    "heads": LAYERS * KEYS, "unsure": 0}
