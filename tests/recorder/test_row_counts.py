# SPDX-License-Identifier: Apache-2.0
"""How many rows a capture keeps by itself, and what it says of that."""
import json
import re

import numpy as np
import pytest

from conftest import ROOT, minutes_if_sanitized, read_csv
from recording import files_of, kept_positions, manifest_of, some_texts, table_of, write_jsonl, write_model

pytest.importorskip("pyarrow")

MODEL = ROOT / "examples" / "kjv-tiny"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    write_model(folder, num_hidden_layers=2)
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """name -> texts: few or many, long or short; those above 512 tokens are split."""
    return {"many short": some_texts(600, 40, 200), "one long": ["".join(some_texts(300, 200, 300))],
            "mixed": some_texts(100, 20, 60) + ["".join(some_texts(60, 250, 260))],
            "few": some_texts(12, 100, 300)}


def sampler_of(folder):
    return manifest_of(folder)["run"]["sampler"]


def rows_of(folder):
    return [head["rows"] for head in manifest_of(folder)["heads"]]


def lengths(texts, window=512):
    return [min(window, len(t) - at) for t in texts for at in range(0, len(t), window)]


@minutes_if_sanitized
@pytest.mark.test_all
def test_the_readme_commands_tell_what_all_rows_tell(qkscope, tmp_path):
    """Categories, the sign of the bias and plasticity of the bundled model on its texts."""
    words = ["capture", "--model", MODEL / "step-2004", "--text", MODEL / "passages.jsonl"]
    outcome = qkscope(*words, "-o", tmp_path / "c", expect=0)
    assert "8000 of 40960 positions of each head and kind: uniform, rate 12.5" in outcome.err
    assert "About 8000 rows of each head and kind" in outcome.out
    qkscope(*words, "--sampler", "all", "-o", tmp_path / "all", expect=0)
    assert all(abs(rows - 8000) < 320 for rows in rows_of(tmp_path / "c"))  # four standard deviations
    tables = []
    for name in ("c", "all"):
        qkscope("analyze", tmp_path / name, "-o", tmp_path / f"r-{name}", expect=0)
        tables.append([read_csv(tmp_path / f"r-{name}" / file) for file in
                       ("heads.csv", "rotated.csv", "head_metrics.csv")])
    (heads, rotated, metrics), (all_heads, all_rotated, all_metrics) = tables
    same = [a["category"] == b["category"] for a, b in zip(heads, all_heads)]
    assert len(same) == 20 and sum(same) >= 18
    signs = [float(a["bias_strength"]) * float(b["bias_strength"]) > 0
             for a, b in zip(rotated, all_rotated)]
    assert sum(signs) >= 18
    drops = [float(a["ap_drop"]) - float(b["ap_drop"]) for a, b in zip(metrics, all_metrics)]
    assert np.abs(drops).max() < 0.1 and np.abs(drops).mean() < 0.03


@pytest.mark.parametrize("name", ["many short", "one long", "mixed", "few"])
@pytest.mark.parametrize("rows, sampler", [(None, "uniform"), (500, "uniform"), (500, "log_uniform")])
def test_the_rate(qkscope, model, corpus, tmp_path, name, rows, sampler):
    """The smallest of four digits that is expected to keep so many; all where there are fewer. Of all
    heads as many come as a binomial variable may deviate."""
    texts = corpus[name]
    options = [] if rows is None else ["--rows", rows] if sampler == "uniform" else [
        "--rows", rows, "--sampler", sampler]
    qkscope("capture", "-m", model, "-t", write_jsonl(tmp_path / "t.jsonl", texts), "-o", tmp_path / "c",
            *options, expect=0)
    sizes, chosen, wanted = lengths(texts), sampler_of(tmp_path / "c"), rows or 8000
    tokens = sum(sizes)
    assert chosen["type"] == sampler and chosen["rows"] == wanted
    bucket = chosen["bucket_size"]
    assert bucket == (128 if sampler == "log_uniform" else next(
        2 ** b for b in range(20) if 16 * 2 ** b >= max(sizes)))
    positions = np.concatenate([np.arange(n) for n in sizes])
    size = bucket * np.ones(tokens) if sampler == "uniform" else 2.0 ** np.maximum(
        np.log2(bucket), np.floor(np.log2(positions + 1)))
    chance = np.minimum(1, chosen["base_rate"] / size)
    assert chosen["expected_rows"] == pytest.approx(chance.sum(), rel=1e-9)
    if tokens <= wanted:
        assert (chance == 1).all() and set(rows_of(tmp_path / "c")) == {tokens}
        return
    less = chosen["base_rate"] - 10.0 ** (np.floor(np.log10(chosen["base_rate"])) - 3)
    assert np.minimum(1, less / size).sum() < wanted <= chance.sum() + 1e-6
    assert float(f"{chosen['base_rate']:.4g}") == chosen["base_rate"]
    deviation = np.sqrt((chance * (1 - chance)).sum())
    assert np.abs(np.array(rows_of(tmp_path / "c")) - chance.sum()).max() < 5 * deviation


def test_the_same_by_hand(qkscope, model, corpus, tmp_path):
    """What was chosen, given as options, keeps the same rows."""
    source = write_jsonl(tmp_path / "t.jsonl", corpus["few"])
    base = ["capture", "-m", model, "-t", source, "-o"]
    shown = json.loads(qkscope(*base, tmp_path / "c", "--rows", 500, "--json", expect=0).out)["sampler"]
    assert shown == {"type": "uniform", "base_rate": sampler_of(tmp_path / "c")["base_rate"],
                     "bucket_size": 32, "expected_rows": sampler_of(tmp_path / "c")["expected_rows"]}
    qkscope(*base, tmp_path / "d", "--sampler", "uniform", "--base-rate", shown["base_rate"], "--bucket",
            shown["bucket_size"], expect=0)
    a, b = (files_of(tmp_path / name) for name in "cd")
    heads = [name for name in a if name.endswith(".parquet")]
    assert len(heads) == 12 and all(a[name] == b[name] for name in heads)
    assert "rows" not in sampler_of(tmp_path / "d")
    t = table_of(tmp_path / "c", "l01h01k")
    assert list(zip(t["example_id"], t["position"])) == [
        (i, p) for i, text in enumerate(corpus["few"])
        for p in kept_positions(i, 1, "k", len(text), "uniform", shown["base_rate"], 32)]


@pytest.mark.parametrize("options, expected", [
    (["--sampler", "uniform"], ("uniform", 1, 128)), (["--base-rate", 3], ("log_uniform", 3, 128)),
    (["--sampler", "all"], ("all", 1, 32)), (["--keep", "moments"], ("all", 1, 32)),
    (["--sampler", "all", "--bucket", 128], ("all", 1, 128)), (["--sampler", "uniform", "--bucket", 8], ("uniform", 1, 8))])
def test_a_sampler_that_is_given_wins(qkscope, model, tmp_path, options, expected):
    source = write_jsonl(tmp_path / "t.jsonl", some_texts(3, 200, 300))
    qkscope("capture", "-m", model, "-t", source, "-o", tmp_path / "c", *options, expect=0)
    assert sampler_of(tmp_path / "c") == dict(zip(("type", "base_rate", "bucket_size"), expected), max_rows=0)


@pytest.mark.test_all
def test_one_width_of_buckets_whatever_is_kept(qkscope, model, tmp_path):
    """All rows, their sums with a reservoir of all rows, and rows that are chosen from fewer than there may be: the
    same rows, so the same plasticity; and everybody says of which buckets."""
    source = write_jsonl(tmp_path / "t.jsonl", some_texts(6, 400, 500))
    drops = {}
    for name, options in (("all", ["--sampler", "all"]), ("moments", ["--keep", "moments,reservoir=1000"]),
                          ("rows", ["--rows", 100000])):
        made = qkscope("capture", "-m", model, "-t", source, "-o", tmp_path / name, *options, expect=0)
        assert sampler_of(tmp_path / name)["bucket_size"] == 32
        assert "buckets of 32 tokens" in made.err and "buckets of 32 tokens" in made.out
        done = qkscope("analyze", tmp_path / name, "-o", tmp_path / f"of-{name}", expect=0)
        assert re.search(r"buckets of +32 tokens", done.out)
        manifest = json.loads((tmp_path / f"of-{name}" / "manifest.json").read_text())
        assert manifest["runs"][0]["buckets"] == {"from": "capture", "width": 32}
        rows = read_csv(tmp_path / f"of-{name}" / "head_metrics.csv")
        assert {float(r["bucket_width"]) for r in rows} == {32}
        drops[name] = [float(r["ap_drop"]) for r in rows]
    assert drops["rows"] == drops["all"]
    assert drops["moments"] == pytest.approx(drops["all"], rel=1e-6, abs=1e-9)


@pytest.mark.test_all
def test_widths_that_differ_are_told(qkscope, model, tmp_path):
    source = write_jsonl(tmp_path / "t.jsonl", some_texts(6, 400, 500))
    for name, bucket in (("a", 32), ("b", 64)):
        qkscope("capture", "-m", model, "-t", source, "-o", tmp_path / name, "--bucket", bucket, expect=0)
        qkscope("analyze", tmp_path / name, "-o", tmp_path / f"of-{name}", expect=0)
    words = "plasticity of a is of buckets of 32 tokens and that of b of 64"
    assert words in qkscope("compare", tmp_path / "of-a", tmp_path / "of-b", "-o", tmp_path / "x", "--no-html", expect=0).err


@pytest.mark.parametrize("options, words", [
    (["--rows", 100, "--base-rate", 2], ["--rows", "--base-rate"]),
    (["--rows", 100, "--sampler", "all"], ["--rows", "keeps every row"]), (["--rows", 0], ["--rows"])])
def test_contradictions(qkscope, model, tmp_path, options, words):
    (tmp_path / "t.txt").write_text("text")
    err = qkscope("capture", "-m", model, "-t", tmp_path / "t.txt", "-o", tmp_path / "c", *options,
                  expect=2).err
    assert all(word in err for word in words) and not (tmp_path / "c").exists()
