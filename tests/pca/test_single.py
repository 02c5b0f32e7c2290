# SPDX-License-Identifier: Apache-2.0
"""Single-kind analysis: correlations.csv and summary.json against NumPy and SciPy; which heads and rows are taken."""
import json
import math
import random
import shutil
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from conftest import (EXAMPLE, head_name, head_names, read_csv, read_head, read_json,
                      write_head)

pytest.importorskip("pyarrow")
stats = pytest.importorskip("scipy.stats")
oracle = pytest.importorskip("pca_oracle")

IDS = ["layer", "head", "kind", "pca_dim"]
COLUMNS = [*IDS, "correlation", "p_value", "explained_variance_ratio"]


def table(folder):
    return [{name: row[name] for name in COLUMNS} for row in read_csv(folder / "correlations.csv")]


def targets(root, kinds):
    """Ordered as the tables are: by layer, head, kind, k before q."""
    heads = [(int(n[1:3]), int(n[4:6]), n[6]) for n in head_names(root) if n[-1] in kinds]
    return sorted(heads, key=lambda h: (h[0], h[1], "kq".index(h[2])))


def expected_table(root, kinds, layer, components=10, rows=None):
    lines = []
    for head in targets(root, kinds):
        if head[0] != layer:
            continue
        x, t = read_head(root, head_name(*head))
        x, t = x[:rows], t[:rows]
        fitted = min(components, x.shape[1], len(x) - 1)
        centered = x - x.mean(axis=0)
        _, singular, vectors = np.linalg.svd(centered, full_matrices=False)
        projections, ratios = centered @ vectors[:fitted].T, singular**2 / (singular**2).sum()
        for i in range(fitted):
            v = vectors[i]  # its largest entry is positive
            r, p = stats.pearsonr(projections[:, i] * np.sign(v[np.abs(v).argmax()]), t)
            lines.append(dict(zip(COLUMNS, [*head, i, r, p, ratios[i]])))
    return lines


def compare(got, want):
    for row, line in zip(got, want, strict=True):
        assert [row[name] for name in IDS] == [line[name] for name in IDS]
        assert row["correlation"] == pytest.approx(line["correlation"], abs=1e-9)
        assert row["explained_variance_ratio"] == pytest.approx(line["explained_variance_ratio"], rel=1e-9)
        assert row["p_value"] == pytest.approx(line["p_value"], rel=1e-6, abs=1.1e-300)


@pytest.mark.parametrize("kinds", ["q", "k,q"])
def test_against_singular_values(qkscope, tmp_path, kinds):
    qkscope("pca", EXAMPLE, "-o", tmp_path, "--kinds", kinds, "--layers", 1, expect=0)
    compare(table(tmp_path), expected_table(EXAMPLE, kinds, 1))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["correlations.csv", "manifest.json",
                                                          "schema.json", "summary.json"]


@pytest.mark.parametrize("components", [1, 1000])
def test_components(qkscope, tmp_path, components):
    qkscope("pca", EXAMPLE, "-o", tmp_path, "--kinds", "k", "--layers", "3", "--components",
            components, expect=0)
    compare(table(tmp_path), expected_table(EXAMPLE, "k", 3, components))


# ---- summary.json ----------------------------------------------------------------------------

def heads_in(rows):
    return len({tuple(row[name] for name in IDS[:3]) for row in rows})


@pytest.mark.parametrize("threshold", [None, 0.1])
def test_summary(qkscope, tmp_path, threshold):
    given = [] if threshold is None else ["--threshold", threshold]
    qkscope("pca", EXAMPLE, "-o", tmp_path, "--kinds", "q,k", *given, expect=0)
    summary, rows = read_json(tmp_path / "summary.json"), table(tmp_path)
    threshold = 0.3 if threshold is None else threshold
    high = [row for row in rows if abs(row["correlation"]) >= threshold]
    negative = [row for row in high if row["correlation"] < 0]
    assert summary["heads_analyzed"] == 30
    assert summary["n_components"] == 10
    assert summary["split"] is None
    assert (summary["device"], summary["pca_backend"]) == ("auto", "sklearn")
    spent = datetime.now(timezone.utc) - datetime.fromisoformat(summary["timestamp"])
    assert timedelta(0) <= spent < timedelta(hours=1)
    assert summary["total_samples"] == sum(len(read_head(EXAMPLE, n)[1])
                                           for n in head_names(EXAMPLE))
    counts = summary["high_correlation_summary"]
    assert counts.pop("high_abs_hits") == high
    assert counts == {
        "threshold": threshold, "total_components": len(rows),
        "high_abs_components": len(high), "high_neg_components": len(negative),
        "heads_total": 30, "heads_with_high_abs": heads_in(high),
        "heads_with_high_neg": heads_in(negative)}
    order = sorted(rows, key=lambda row: -abs(row["correlation"]))
    assert summary["top_correlations"] == order[:20]


def test_summary_says_what_the_file_asked_for(qkscope, tmp_path):
    """One capture among several, by the name of the older tool's configuration."""
    shutil.copytree(EXAMPLE, tmp_path / "many" / "train")
    shutil.copytree(EXAMPLE / "l00h00q", tmp_path / "many" / "test" / "l00h00q")
    (tmp_path / "c.yaml").write_text(
        f"data: {{dataset_name: {tmp_path / 'many'}, split: train, layers: [1]}}\n"
        "pca: {n_components: 4, backend: torch}\n"
        "analysis: {correlation_threshold: 0.25}\ndevice: cuda:0\n"
        f"output: {{results_dir: {tmp_path / 'o'}}}\n")
    done = qkscope("pca", "--config", tmp_path / "c.yaml", expect=0)
    summary, rows = read_json(tmp_path / "o" / "summary.json"), table(tmp_path / "o")
    assert list(summary) == ["dataset", "split", "timestamp", "device", "n_components",
                             "pca_backend", "heads_analyzed", "total_samples",
                             "high_correlation_summary", "top_correlations"]
    assert (summary["split"], summary["device"], summary["pca_backend"]) == ("train", "cuda:0",
                                                                             "torch")
    high = [row for row in rows if abs(row["correlation"]) >= 0.25]
    negative = [row for row in high if row["correlation"] < 0]
    heads = [heads_in(t) for t in (high, rows, negative)]
    assert (f"\nHigh-correlation summary (|r| >= 0.25):\n"
            f"  {len(high)}/{len(rows)} components, {heads[0]}/{heads[1]} heads\n"
            f"  Negative: {len(negative)} components, {heads[2]} heads\n") in done.out
    said = json.loads(qkscope("pca", "--config", tmp_path / "c.yaml", "--json").out)
    assert said["high_correlations"] == {
        "threshold": 0.25, "components": len(rows), "heads": heads[1], "high": len(high),
        "high_negative": len(negative), "heads_high": heads[0], "heads_high_negative": heads[2]}


def test_summary_of_few_components(qkscope, tmp_path):
    qkscope("pca", EXAMPLE, "-o", tmp_path, "--kinds", "q", "--layers", "0", "--heads", "1",
            "--components", 3, expect=0)
    assert len(read_json(tmp_path / "summary.json")["top_correlations"]) == 3


# ---- heads and rows --------------------------------------------------------------------------

@pytest.fixture(scope="module")
def many_heads(tmp_path_factory):
    """40 query heads in 4 layers and 20 key heads, a few rows each."""
    root = tmp_path_factory.mktemp("many")
    rng = np.random.default_rng(3)
    for layer in range(4):
        for kind, heads in (("q", 10), ("k", 5)):
            for head in range(heads):
                write_head(root, head_name(layer, head, kind),
                           rng.standard_normal((12, 4)).astype(np.float32), np.arange(12))
    return root


def heads_of(folder):
    return list(dict.fromkeys((r["layer"], r["head"], r["kind"])
                              for r in read_csv(folder / "correlations.csv")))


def test_published_selection(qkscope, tmp_path):
    """The ten heads of the older tool's results, of a model with 32 layers, 15 query and 5 key heads."""
    rng = np.random.default_rng(1)
    one = write_head(tmp_path, "one", rng.standard_normal((12, 4)).astype(np.float32), np.arange(12))
    for layer in range(32):
        for kind, heads in (("q", 15), ("k", 5)):
            for head in range(heads):
                folder = tmp_path / "c" / head_name(layer, head, kind)
                folder.mkdir(parents=True)
                (folder / "data.parquet").hardlink_to(one / "data.parquet")
    (tmp_path / "c.yaml").write_text(
        f"data: {{dataset_name: {tmp_path / 'c'}, sample_heads: 10, seed: 42}}\n"
        f"output: {{results_dir: {tmp_path / 'o'}}}\n")
    qkscope("pca", "--config", tmp_path / "c.yaml", expect=0)
    assert heads_of(tmp_path / "o") == [
        (1, 2, "q"), (4, 4, "q"), (5, 2, "k"), (5, 9, "q"), (7, 1, "k"), (11, 4, "k"), (12, 5, "q"),
        (14, 0, "q"), (27, 13, "q"), (30, 2, "k")]


# CPython keeps a pool for small populations and a set of what it drew for larger ones.
@pytest.mark.cases(4)
@pytest.mark.parametrize("count, branch, seed", [(5, "set", 0), (6, "pool", 7), (59, "pool", 2 ** 40 + 1), (500, "all", -3)])
def test_sample_heads(qkscope, many_heads, tmp_path, count, branch, seed):
    everything = targets(many_heads, "qk")
    assert len(everything) == 60
    room = 21 if count <= 5 else 21 + 4 ** math.ceil(math.log(3 * count, 4))
    assert branch == ("all" if count >= 60 else "pool" if 60 <= room else "set")
    qkscope("pca", many_heads, "-o", tmp_path, "--kinds", "q,k", "--sample-heads", count,
            "--seed", seed, "-q", expect=0)
    drawn = random.Random(seed).sample(everything, min(count, 60))
    assert heads_of(tmp_path) == [h for h in everything if h in drawn]


def test_sample_after_filters(qkscope, many_heads, tmp_path):
    options = ["--layers", "1,3", "--heads", "2-8", "--sample-heads", 5, "--seed", 2]
    left = [h for h in targets(many_heads, "q") if h[0] in (1, 3) and 2 <= h[1] <= 8]
    drawn = sorted(random.Random(2).sample(left, 5))
    qkscope("pca", many_heads, "-o", tmp_path / "1", "--kinds", "q", *options, expect=0)
    assert heads_of(tmp_path / "1") == drawn
    qkscope("pca", many_heads, "-o", tmp_path / "2", *options, expect=0)
    assert [(r["layer"], r["q_head"], "q") for r in read_csv(tmp_path / "2" / "heads.csv")] == drawn


def test_filters(qkscope, many_heads, tmp_path):
    """A layer that is not there is warned of, no more."""
    options = ["--layers", "3,1,77", "--heads", "0,2-3,9"]
    qkscope("pca", many_heads, "-o", tmp_path / "1", "--kinds", "q,k", *options, expect=0)
    want = [h for h in targets(many_heads, "qk") if h[0] in (1, 3) and h[1] in (0, 2, 3, 9)]
    assert heads_of(tmp_path / "1") == want
    qkscope("pca", many_heads, "-o", tmp_path / "2", *options, expect=0)
    got = [(r["layer"], r["q_head"], "q") for r in read_csv(tmp_path / "2" / "heads.csv")]
    assert got == [h for h in want if h[2] == "q"]


@pytest.mark.cases(3)
@pytest.mark.parametrize("rows", [2, 257, 10 ** 9])
def test_max_samples(qkscope, tmp_path, rows):
    qkscope("pca", EXAMPLE, "-o", tmp_path, "--kinds", "q,k", "--layers", 2, "--max-samples",
            rows, expect=0)
    got, want = table(tmp_path), expected_table(EXAMPLE, "qk", 2, rows=rows)
    if rows == 2:
        assert [abs(row["correlation"]) for row in got] == pytest.approx([1] * len(want))
        assert all(row["p_value"] == 1 for row in got)
    else:
        compare(got, want)


def test_max_samples_of_the_combined_analysis(qkscope, tmp_path):
    qkscope("pca", EXAMPLE, "-o", tmp_path, "--max-samples", 77, "--layers", 1, "--heads", 3,
            expect=0)
    q, k = read_head(EXAMPLE, "l01h03q"), read_head(EXAMPLE, "l01h01k")
    truth = oracle.Combined(q[0][:77], q[1][:77], k[0][:77], k[1][:77])
    for row, want in zip(read_csv(tmp_path / "qk.csv"), truth.rows, strict=True):
        assert (row["n_q"], row["n_k"]) == (77, 77)
        assert row["explained_variance"] == pytest.approx(want["explained_variance"], rel=1e-9)
        assert row["r_q"] == pytest.approx(want["r_q"], abs=1e-9)
        assert row["beta"] == pytest.approx(want["beta"], rel=1e-9)
