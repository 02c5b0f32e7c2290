# SPDX-License-Identifier: Apache-2.0
"""qkscope.export and qkscope-export: each format against NumPy on the rows, from rows and from moments; what is refused, and that
nothing is written then."""
import contextlib
import json
import sys
import warnings

import numpy as np
import pytest
from conftest import ROOT, VERSION, read_csv, read_json
from export_oracle import (DIM, FREQUENCIES, GROUP, KEYS, LAYERS, LENGTH, QUERIES, TEXTS, duo_scores, kvpress_stats, make_heads,
                           q_filters, write_ablation, write_capture)
from safetensors.numpy import load_file

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from qkscope.export import q_filters as q_filters_module  # noqa: E402
from qkscope.export.cli import main  # noqa: E402

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

def test_the_formats_are_listed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--list"])
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert ended.value.code == 0 and names == ["kvpress-stats", "duo-attention", "q-filters", "triattention", "triattention-ggml",
                                               "key-means", "layer-types"]


@pytest.mark.parametrize("first", [None, 9])
def test_kvpress_stats_are_mean_and_covariance_of_the_rows(heads, before, tmp_path, first):
    qk.export("kvpress-stats", before, tmp_path / "out", dataset="a/b", from_position=first)
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
def test_duo_scores_of_means(heads, tmp_path, case):
    special = case != "whole"
    factor, scale, type = (1.3, 0.7, "yarn") if special else (1.0, DIM ** -0.5, "default")
    frequencies = {0: FREQUENCIES[:3], 1: []} if special else {0: FREQUENCIES, 1: FREQUENCIES}
    rope = {"type": type, "pairing": "interleaved" if special else "half", "attention_factor": factor,
            "frequencies": {str(layer): values for layer, values in frequencies.items() if values}}
    write_capture(tmp_path / "in", heads, rope=rope, attention_scale=scale if special else None)
    qk.export("duo-attention", tmp_path / "in", tmp_path / "out", sink=64)
    expected = duo_scores(heads, frequencies, scale, factor, interleaved=special)
    near(table(tmp_path / "out"), expected, 1e-12)
    assert len(set(expected.ravel().round(6))) > 1
    told = read_json(tmp_path / "out" / "config.json")
    assert told.pop("qkscope")["from"] == "means" and told == {"sink_size": 64, "recent_size": 256}


def test_duo_scores_of_an_ablation(tmp_path):
    """The largest loss of the query heads of a key head, over the largest of all; no loss is 0."""
    deltas = np.random.default_rng(3).normal(0.01, 0.02, (LAYERS, QUERIES))
    deltas[1, 2:] = [-0.3, -0.1]
    source = write_ablation(tmp_path / "in" / "ablation", deltas).parent  # as a folder of results has one
    made = qk.export("duo-attention", source, tmp_path / "out")
    assert (made.format, made.files, made.heads) == ("duo-attention", ("full_attention_heads.tsv", "config.json"), LAYERS * KEYS)
    best = np.maximum(deltas.reshape(LAYERS, KEYS, GROUP).max(2), 0)
    near(table(tmp_path / "out"), best / best.max(), 1e-15)
    assert table(tmp_path / "out")[1, 1] == 0 and table(tmp_path / "out").max() == 1
    assert made.says == "by ablation" and read_json(tmp_path / "out" / "config.json")["qkscope"] == {
        "program": f"qkscope {VERSION}", "from": "ablation", "change": "window:256:128", "model": "org/made"}


@pytest.mark.parametrize("reach, said", [("0.5,3", None), ("0.06,3", "changed 6 % of the predictions, in 3 texts"),
                                         ("1.0,1", "changed 100 % of the predictions, in 1 text:")])
@pytest.mark.cases(3)
def test_duo_scores_of_texts_that_hardly_reach(tmp_path, reach, said):
    source = write_ablation(tmp_path / "in", LOSSES, reach=reach)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        qk.export("duo-attention", source, tmp_path / "out")
    assert [said in str(one.message) for one in seen] == ([True] if said else [])


def test_duo_scores_of_measured_attention(qkscope, tmp_path):
    """The largest far mass of the query heads of a key head. Means come where it is not kept, or when they are asked for."""
    qkscope("capture", "-m", MODEL, "-t", TEXT, "--max-texts", 2, "--max-length", 160, "--long", "cut", "--stage", "both", "--sampler", "all", "--keep",
            "moments,attention", "-o", tmp_path / "in", expect=0)
    qkscope("attention", tmp_path / "in" / "post", "-o", tmp_path / "results", expect=0)
    qk.export("duo-attention", tmp_path / "in" / "post", tmp_path / "out")
    far = np.zeros((5, 4))
    for row in read_csv(tmp_path / "results" / "attention.csv"):
        far[int(row["layer"]), int(row["q_head"])] = float(row["far_mass"])
    near(table(tmp_path / "out"), far.reshape(5, 2, 2).max(2), 1e-15)
    made_from = read_json(tmp_path / "out" / "config.json")["qkscope"]
    assert (made_from["from"], made_from["number"], made_from["texts"], made_from["tokens"]) == ("attention", "far_mass", 2, 320)
    assert qk.export("duo-attention", tmp_path / "in" / "pre", tmp_path / "means").says == "by means"
    with pytest.raises(qk.Error, match="--stage pre"):
        qk.export("duo-attention", tmp_path / "in" / "post", tmp_path / "no", from_="means")
    with pytest.raises(qk.ArgumentError, match="ablation, attention or means"):
        qk.export("duo-attention", tmp_path / "in" / "post", tmp_path / "no", from_="guess")


def test_q_filters_are_first_singular_vectors(heads, after, tmp_path):
    """And heads whose sign is not clear are named."""
    made = qk.export("q-filters", after, tmp_path / "out")
    filters, majority = q_filters(heads)
    assert majority.min() > 0.65 and made.unsure == 0
    near(tensors(tmp_path / "out")["q_filters"], filters)
    assert read_json(tmp_path / "out" / "config.json") == {"num_layers": LAYERS, "num_kv_heads": KEYS, "kv_head_dim": DIM}
    mixed = {name: dict(rows) for name, rows in heads.items()}
    for name in ("l00h03q", "l01h00q"):
        mixed[name]["vector"] = mixed[name]["vector"] * np.where(np.arange(TEXTS * LENGTH) % 2, 1, -1)[:, None].astype(np.float32)
    with pytest.warns(qk.QkscopeWarning, match="^2 of 8 query heads .*: l00h03q, l01h00q$"):
        assert qk.export("q-filters", write_capture(tmp_path / "in", mixed, "post-rope"), tmp_path / "mixed").unsure == 2


@pytest.mark.test_all
def test_moments_give_what_rows_give(qkscope, tmp_path):
    """Of a real model, also on several threads."""
    for keep in ("rows", "moments,first=4"):
        qkscope("capture", "-m", MODEL, "-t", TEXT, "--max-texts", 3, "--stage", "both", "--sampler", "all", "--keep", keep,
                "-o", tmp_path / keep[:4], expect=0)
    for form, stage in (("kvpress-stats", "pre"), ("q-filters", "post"), ("duo-attention", "pre")):
        for keep, threads in (("rows", 1), ("mome", 1), ("mome", 3)):
            out = tmp_path / form / f"{keep}{threads}"
            qk.export(form, tmp_path / keep / stage, out, threads=threads)
        rows, moments, again = (tmp_path / form / name for name in ("rows1", "mome1", "mome3"))
        of_rows, of_moments = (read_json(folder / "config.json") for folder in (rows, moments))
        made_from = [told.pop("qkscope", {}) for told in (of_rows, of_moments)]
        assert of_rows == of_moments and [{**one, "capture": 0} for one in made_from[:1]] == [{**one, "capture": 0} for one in made_from[1:]]
        assert listing(moments) == listing(again)
        if form == "duo-attention":
            near(table(moments), table(rows), 1e-9)
            continue
        for name, x in tensors(rows).items():
            near(tensors(moments)[name], x)


@pytest.mark.parametrize("kept, said", [({"type": "uniform"}, None), ({"type": "log_uniform"}, "in: --sampler log_uniform has kept early"),
                                        ({"type": "all", "max_rows": 9}, "in: --max-rows 9 has kept few positions")])
@pytest.mark.cases(3)
def test_positions_that_were_not_kept_evenly_are_told(heads, tmp_path, kept, said):
    source = write_capture(tmp_path / "in", heads, run={"sink": {"sampler": {"max_rows": 0, **kept}}})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        qk.export("duo-attention", source, tmp_path / "out")
    assert [said in str(one.message) for one in seen] == ([True] if said else [])
    made_from = read_json(tmp_path / "out" / "config.json")["qkscope"]
    assert (made_from["sampler"], made_from.get("max_rows")) == (kept["type"], kept.get("max_rows"))


def test_a_model_has_its_own_rotation(heads, before, tmp_path):
    """By its config.json, which may be alone; it has to have the shape of the capture."""
    told = {"model_type": "llama", "num_hidden_layers": LAYERS, "num_attention_heads": QUERIES, "num_key_value_heads": KEYS,
            "hidden_size": QUERIES * DIM, "head_dim": DIM, "intermediate_size": 8, "vocab_size": 16, "rope_theta": 50.0,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-6}
    for name, change in (("model", {}), ("other", {"num_attention_heads": 2 * QUERIES})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({**told, **change}))
    with pytest.warns(qk.QkscopeWarning, match="other frequencies in layer 0, and .*/model has its own: the file follows .*/model"):
        qk.export("duo-attention", before, tmp_path / "out", model=tmp_path / "model", length=30)
    frequencies = 50.0 ** (-np.arange(0, DIM, 2) / DIM)
    near(table(tmp_path / "out"), duo_scores(heads, [frequencies] * LAYERS, DIM ** -0.5, length=30), 1e-6)
    with pytest.raises(qk.DataError, match="2 layers of 4 query and 2 key heads of 8 values, and the model has 2 of 8 and 2 of 8"):
        qk.export("duo-attention", before, tmp_path / "no", model=tmp_path / "other")


# ---- from a shell ----------------------------------------------------------------------------

def test_the_program_says_what_it_wrote(heads, before, after, tmp_path, capsys):
    assert main(["kvpress-stats", str(before), "-o", str(tmp_path / "a"), "--dataset", "a/b", "--from-position", "9"]) == 0
    assert capsys.readouterr() == (f"8 heads for kvpress-stats\n{tmp_path}/a/model.safetensors\n{tmp_path}/a/config.json\n", "")
    qk.export("kvpress-stats", before, tmp_path / "b", dataset="a/b", from_position=9)
    assert listing(tmp_path / "a") == listing(tmp_path / "b")
    assert main(["q-filters", str(after), "-o", str(tmp_path / "c"), "--json", "--sink", "4"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"format": "q-filters", "output": str(tmp_path / "c"), "heads": 4, "unsure": 0, "says": "",
                               "files": ["model.safetensors", "config.json"]}
    assert err == "warning: sink=4 does nothing for q-filters\n"


def test_a_list_that_cannot_be_written_is_a_failure(monkeypatch, capsys):
    with open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended:
            main(["--list"])
        monkeypatch.undo()
        assert ended.value.code == 1 and "qkscope-export: [Errno 28]" in capsys.readouterr().err
        with contextlib.suppress(OSError):
            full.close()


def test_the_program_refuses(before, tmp_path, capsys):
    for code, words, message in ((1, ["q-filters", before], "--stage post"), (1, ["q-filters", tmp_path / "nowhere"], "nowhere"),
                                 (2, ["duo", before], "triattention-ggml, key-means or layer-types"),
                                 (2, ["transformer-lens", before], "qkscope heads --format list"),
                                 (2, ["kvpress-stats", before, "--from-position", "3"], "give 4 or more"),
                                 (2, ["duo-attention", before, "--length", "1"], "at least 2")):
        assert main([*map(str, words), "-o", str(tmp_path / "out")]) == code
        out, err = capsys.readouterr()
        assert not out and err.startswith("qkscope-export: ") and message in err
    with pytest.raises(SystemExit) as left:
        main(["q-filters", str(before)])
    assert left.value.code == 2 and not (tmp_path / "out").exists()


# ---- what is refused -------------------------------------------------------------------------

def without(heads, name):
    return {key: rows for key, rows in heads.items() if key != name}


def changed(heads, name, change):
    return {**heads, name: {**heads[name], "vector": change(heads[name]["vector"])}}


def stopped(folder):
    (folder / ".units" / "ablate-0123456789abcdef").mkdir(parents=True)
    return folder


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
    ("duo-attention", lambda f, h: stopped(f), "an ablation that was stopped: run the same qkscope ablate again"),
    ("duo-attention", lambda f, h: write_ablation(f, LOSSES, tables=["ablation.csv"], contents={"ablation.csv": {"bytes": 7}}),
     "ablation.csv is not as it was written"),
    ("duo-attention", lambda f, h: write_ablation(f, LOSSES, told=False), "no num_layers: run qkscope ablate again"),
    ("duo-attention", lambda f, h: write_ablation(f, np.where(np.eye(*LOSSES.shape) > 0, np.nan, LOSSES)), "layer 0, head 0"),
]


@pytest.mark.parametrize("form, make, message", REFUSED, ids=[message for *_, message in REFUSED])
def test_what_is_refused_leaves_nothing(heads, tmp_path, form, make, message):
    source = make(tmp_path / "in", heads)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "config.json").write_text("{}")
    for output, force in (("new", False), ("kept", True)):
        with pytest.raises(qk.Error, match=message):
            qk.export(form, source, tmp_path / output, force=force)
    assert not (tmp_path / "new").exists() and listing(tmp_path / "kept") == {"config.json": b"{}"}


def test_files_that_are_there_are_replaced_by_force_alone(before, tmp_path):
    folder = tmp_path / "model"  # config.json and model.safetensors are a model's, too
    folder.mkdir()
    (tmp_path / "theirs").write_text("theirs")
    (folder / "config.json").symlink_to("../theirs")  # a link is replaced, not followed
    with pytest.raises(qk.ExistsError, match="config.json: is there already: .* --force"):
        qk.export("kvpress-stats", before, folder)
    qk.export("kvpress-stats", before, folder, force=True)
    assert set(listing(folder)) == {"config.json", "model.safetensors"}
    assert (tmp_path / "theirs").read_text() == "theirs" and not (folder / "config.json").is_symlink()
    with pytest.raises(qk.InputOutputError):
        qk.export("kvpress-stats", before, tmp_path / "theirs" / "below")


def test_of_two_exports_at_once_one_is_refused(before, after, tmp_path, monkeypatch):
    """The second, whose first file has a place when the other's is there: nothing of it stays."""
    make = q_filters_module.make

    def slow(request):
        made = make(request)
        qk.export("duo-attention", before, request.output)
        return made
    monkeypatch.setattr(q_filters_module, "make", slow)
    with pytest.raises(qk.ExistsError, match="out/config.json: is there already"):
        qk.export("q-filters", after, tmp_path / "out")
    assert set(listing(tmp_path / "out")) == {"full_attention_heads.tsv", "config.json"}
    assert "sink_size" in read_json(tmp_path / "out" / "config.json")


def test_keywords_of_other_formats_are_told(before, tmp_path):
    with pytest.warns(qk.QkscopeWarning, match="^sink=2 does nothing for kvpress-stats$") as seen:
        qk.export("kvpress-stats", before, tmp_path / "out", sink=2)
    assert {one.filename for one in seen} == {__file__}
