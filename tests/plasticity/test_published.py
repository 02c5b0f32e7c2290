# SPDX-License-Identifier: Apache-2.0
"""The published convention against its definitions written anew. `pytest -s` prints the worst deviation of every column."""
import numpy as np
import pytest
from conftest import EXAMPLE, Agreement, head_pairs, last_run, read_bytes, read_csv, write_rows

pytest.importorskip("pyarrow")
published = pytest.importorskip("published_oracle")
stats = pytest.importorskip("scipy.stats")

METRICS = ["n_q_tokens", "n_k_tokens", "d_model", "q_R2_pos", "q_beta_norm", "q_R2_scalar",
           "q_mae_baseline", "q_mae_proj", "q_mae_ratio", "q_resid0_skew", "q_resid0_kurt",
           "q_resid0_ks_p", "q_noise_med_abs_skew", "q_noise_med_abs_kurt", "q_noise_med_ks_p",
           "q_noise_frac_ks_p_lt_alpha", "ap_overall"]
TABLES = ["head_metrics.csv", "head_bucket_plasticity.csv", "head_component_weights.csv"]
# What our own tables call them.
OURS = {"n_q_tokens": "n_q", "n_k_tokens": "n_k", "d_model": "d", "q_beta_norm": "beta_norm",
        "ap_overall": "ap_mean"}
SCALES = {"q_resid0_skew": 1e-2, "q_resid0_kurt": 1e-2, "q_noise_med_abs_skew": 1e-2,
          "q_noise_med_abs_kurt": 1e-2, "q_R2_scalar": 1e-3}


def of_head(rows, layer, head):
    return [r for r in rows if (r["layer"], r["q_head"]) == (layer, head)]


def compare(tables, capture, group, title):
    """Tables by file name."""
    seen, heads = Agreement(), 0
    for (layer, head, q, k), _ in zip(head_pairs(capture, group), tables["head_metrics.csv"]):
        truth, place = published.Head(q, k), f"{title} {layer}.{head}"
        row, = of_head(tables["head_metrics.csv"], layer, head)
        for column in METRICS:
            seen.add(column, row[OURS.get(column, column)], truth.metrics[column], place,
                     SCALES.get(column))
        rows = of_head(tables["head_bucket_plasticity.csv"], layer, head)
        assert [(r["q_bucket"], r["k_bucket"]) for r in rows] == sorted(truth.buckets), place
        for r in rows:
            seen.add("ap_bucket", r["ap_bucket"], truth.buckets[r["q_bucket"], r["k_bucket"]],
                     place)
        rows = of_head(tables["head_component_weights.csv"], layer, head)
        for r, r2, weight in zip(rows, truth.r2, truth.weights, strict=True):
            # 1 - residuals / total: digits of 1, not of a small share
            seen.add("component_r2", r["component_r2"], r2, place, 1e-3)
            seen.add("component_weight", r["component_weight"], weight, place, 1e-3)
        heads += 1
    assert heads > 0
    seen.check(title)


def run(qkscope, capture, out, *options, convention="published"):
    qkscope("plasticity", capture, "-o", out, "--max-pairs", 0, "--convention", convention,
            *options, expect=0)
    return {name: read_csv(out / name) for name in TABLES}


# ---- the convention --------------------------------------------------------------------------

def test_a_head_of_the_example(qkscope, tmp_path):
    compare(run(qkscope, EXAMPLE, tmp_path / "o", "--layers", 0, "--heads", 0), EXAMPLE, 2, "a head of the example")
    assert last_run(tmp_path / "o")["settings"]["plasticity"]["convention"] == "published"


@pytest.mark.test_all
@pytest.mark.parametrize("writer", ["of the example", "arrow-rs"])
def test_real_capture(qkscope, shared_data, tmp_path, writer):
    folder = EXAMPLE if writer == "of the example" else shared_data("kjv-tiny-capture") / writer
    tables = run(qkscope, folder, tmp_path / "o")
    assert len(tables["head_metrics.csv"]) == 20
    compare(tables, folder, 2, f"kjv-tiny-capture {writer}")


@pytest.mark.parametrize("window", [2, 100])
def test_windows_count_buckets(qkscope, tmp_path, window):
    rng = np.random.default_rng(window)
    for kind in "qk":
        position = np.concatenate([np.sort(rng.choice(512, 60, replace=False)) for _ in range(3)])
        write_rows(tmp_path / "c", f"l00h00{kind}", {
            "vector": rng.standard_normal((180, 6)) + np.outer(position / 200, rng.standard_normal(6)),
            "position": position, "bucket": position // 64, "example_id": np.arange(180) // 60,
            "sliding_window": np.full(180, window)})
    tables = run(qkscope, tmp_path / "c", tmp_path / "o")
    compare(tables, tmp_path / "c", 1, f"window {window}")
    reach = {r["q_bucket"] - r["k_bucket"] for r in tables["head_bucket_plasticity.csv"]}
    assert reach == set(range(1, min(window, 7) + 1))


@pytest.mark.parametrize("signs", [1, -1])
def test_orientation(qkscope, tmp_path, signs):
    """Only the sign of the first coordinate of the mean keys, over buckets and not over rows,
    changes anything."""
    rng = np.random.default_rng(5)
    rows, d = 300, 5
    for kind in "qk":
        # Most rows lie in the first bucket.
        position = np.sort(np.concatenate([rng.integers(0, 8, 200), rng.integers(8, 64, 100)]))
        bucket = position // 8
        vector = rng.standard_normal((rows, d)) + np.outer(position / 20, rng.standard_normal(d))
        if kind == "k":
            vector[:, 0] = np.where(bucket == 0, -3.0, 1.0) * signs + rng.normal(0, 0.5, rows)
        write_rows(tmp_path / "c", f"l00h00{kind}", {
            "vector": vector, "position": position, "bucket": bucket,
            "example_id": np.arange(rows) % 3})
    tables = run(qkscope, tmp_path / "c", tmp_path / "o", "--q-per-kv-group", 1)
    compare(tables, tmp_path / "c", 1, f"first coordinate {signs}")
    exact = run(qkscope, tmp_path / "c", tmp_path / "e", "--q-per-kv-group", 1,
                convention="exact")
    same = exact["head_bucket_plasticity.csv"] == tables["head_bucket_plasticity.csv"]
    assert same == (signs == 1)


def test_both_means_in_either_convention(qkscope, tmp_path):
    """ap_mean is the plain mean over pairs of buckets, ap_overall ours."""
    for convention in ("exact", "published"):
        out = tmp_path / convention
        tables = run(qkscope, EXAMPLE, out, "--layers", 1, convention=convention)
        model, = read_csv(out / "model_report.csv")
        for row in tables["head_metrics.csv"]:
            cells = of_head(tables["head_bucket_plasticity.csv"], row["layer"], row["q_head"])
            profile = of_head(read_csv(out / "head_profile.csv"), row["layer"], row["q_head"])
            assert row["ap_mean"] == pytest.approx(
                np.mean([c["ap_bucket"] for c in cells if c["n_pairs"]]), abs=1e-12)
            assert row["ap_overall"] == pytest.approx(np.average(
                [p["ap"] for p in profile], weights=[p["n_queries"] for p in profile]))
        assert model["ap_mean"] == pytest.approx(
            np.mean([r["ap_mean"] for r in tables["head_metrics.csv"]]))


@pytest.mark.test_all
def test_differences_have_the_documented_size(qkscope, tmp_path):
    """docs/methods.md#plasticity gives them for the bundled capture."""
    ours = run(qkscope, EXAMPLE, tmp_path / "e", convention="exact")
    theirs = run(qkscope, EXAMPLE, tmp_path / "p")
    a, b = ([r["ap_bucket"] for r in t["head_bucket_plasticity.csv"]] for t in (ours, theirs))
    change = np.abs(np.subtract(a, b))
    assert np.sqrt((change ** 2).mean()) == pytest.approx(7.3e-4, rel=0.02)
    assert change.max() == pytest.approx(5.9e-3, rel=0.02)
    rows = theirs["head_metrics.csv"]
    rank = stats.spearmanr([r["ap_overall"] for r in rows], [r["ap_mean"] for r in rows])
    assert rank.statistic == pytest.approx(0.85, abs=0.01)


@pytest.mark.test_all
def test_threads_and_intervals(qkscope, tmp_path):
    names = ("head_metrics.csv", "head_bucket_plasticity.csv", "head_distance.csv")
    for threads in (1, 3):
        run(qkscope, EXAMPLE, tmp_path / str(threads), "--threads", threads, "--ci", 95)
    assert read_bytes(tmp_path / "1", *names) == read_bytes(tmp_path / "3", *names)
    for row in read_csv(tmp_path / "1" / "head_metrics.csv"):
        assert row["ap_overall_lo"] <= row["ap_overall"] <= row["ap_overall_hi"]


def test_unknown_convention(qkscope, tmp_path):
    outcome = qkscope("plasticity", EXAMPLE, "-o", tmp_path, "--convention", "mine", expect=2)
    assert "expected exact or published" in outcome.err
    config = tmp_path / "c.yaml"
    config.write_text(f"data: {{dataset_name: {EXAMPLE}}}\nplasticity: {{convention: mine}}\n")
    outcome = qkscope("plasticity", "--config", config, "-o", tmp_path, expect=2)
    assert "plasticity.convention" in outcome.err
