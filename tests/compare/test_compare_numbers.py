# SPDX-License-Identifier: Apache-2.0
"""qkscope compare against NumPy and SciPy, and on results of captures whose truth is known."""
import json
import math
import shutil

import numpy as np
import pytest
import scipy.stats
from conftest import head_names, head_pairs, read_csv, read_json, read_rows, synth, write_rows

oracle = pytest.importorskip("compare_oracle")

NAMES = ("r_q", "r_k", "r_q_a", "r_k_a", "alpha_q", "alpha_k", "bias_strength", "separation_strength", "bias_over_context",
         "key_share")


def compare(qkscope, a, b, out, *more):
    qkscope("compare", a, b, "-o", out, "--no-html", *more, expect=0)
    rows = {(r["layer"], r["q_head"], r["metric"]): r for r in read_csv(out / "compare.csv")}
    assert len(rows) == len(read_csv(out / "compare.csv"))
    return rows


def is_open(rows, layer, head, name):
    """Whether the sign of PC0, and with it the number's, may be another in b."""
    (was_q, is_q), (was_k, is_k) = ((rows[layer, head, r]["a"], rows[layer, head, r]["b"]) for r in ("r_q", "r_k"))
    return name in ("r_q", "r_k", "mu_q", "mu_k", "alpha", "beta") and was_k * is_k < 0 and was_q * is_q + was_k * is_k < 0


def analyze(qkscope, *captures):
    """Results beside each capture."""
    for capture in captures:
        qkscope("analyze", capture, "-o", results_of(capture), "--ci", 95, expect=0)


def results_of(capture):
    return capture.with_name(f"of-{capture.name}")


def subset(source, target, keep, change=None):
    """Rows of which keep(columns) is true, with the vectors that change(name, columns) makes of them."""
    for name in head_names(source):
        columns = read_rows(source, name)
        chosen = keep(columns)
        columns = {key: values[chosen] for key, values in columns.items()}
        if change:
            columns["vector"] = change(name, columns)
        write_rows(target, name, columns)
    return target


def texts(first, end):
    return lambda columns: (columns["example_id"] >= first) & (columns["example_id"] < end)


@pytest.fixture(scope="module")
def made(qkscope, tmp_path_factory):
    """24 texts of two layers, halves of them with their results, and another capture of the texts of the first half."""
    folder = tmp_path_factory.mktemp("made")
    synth(folder / "all", layers=2, query_heads=4, dim=12, examples=24, rows=40, seed=3, rope_planes=1)
    for name, first, end in (("a", 0, 12), ("b", 12, 24)):
        subset(folder / "all", folder / name, texts(first, end))
    synth(folder / "other", layers=2, query_heads=4, dim=12, examples=12, rows=40, seed=4, rope_planes=1)
    analyze(qkscope, folder / "a", folder / "b", folder / "other")
    return folder


# ---- against SciPy ----------------------------------------------------------------------------

def check(row, want, scale):
    for column, value in zip(("difference", "difference_lo", "difference_hi"), want):
        assert row[column] == pytest.approx(value, abs=1e-8 * scale), column
    assert row["p"] == pytest.approx(want[3], rel=1e-5, abs=1e-300)


def numbers_of(results):
    """{(layer, query head, name): number}, on PC0."""
    return {(r["layer"], r["q_head"], name): r[name] for table in ("qk.csv", "heads.csv", "rotated.csv", "head_metrics.csv")
            for r in read_csv(results / table) if r.get("pc", 0) == 0 for name in r}


@pytest.mark.test_all
def test_paired_differences(qkscope, made, tmp_path):
    """Texts of the same ids: what each does to both falls out."""
    rows = compare(qkscope, made / "of-a", made / "of-other", tmp_path / "out")
    sides = [{(layer, head): (q, k) for layer, head, q, k in head_pairs(made / side, 2)} for side in ("a", "other")]
    numbers, cut = {side: numbers_of(made / f"of-{side}") for side in ("a", "other")}, 0
    for head in sides[0]:
        a, b = (oracle.repeated(*side[head]) for side in sides)
        degrees = min(oracle.intervals_oracle.degrees_of(*side[head]) for side in sides)
        for name in a:
            row = rows[(*head, name)]
            assert row["paired"] == 1
            _, *ends, p = oracle.paired(a[name], b[name], degrees)
            if name in oracle.CORRELATIONS:
                limits = oracle.limits([numbers[side][(*head, f"{name}_{end}")] for side in ("a", "other") for end in ("lo", "hi")])
                ends, cut = [max(ends[0], limits[0]), min(ends[1], limits[1])], cut + (ends[0] < limits[0]) + (ends[1] > limits[1])
            check(row, (row["b"] - row["a"], *ends, p), max(abs(a[name][0]), abs(b[name][0])))
    assert 0 < cut < 30
    assert {rows[key]["paired"] for key in rows if key[2] in ("key_share", "ap_overall", "ap_drop")} == {1}


def test_what_is_not_of_the_same_texts(qkscope, made, tmp_path):
    """One text fewer, another list of texts with the same ids, or repetitions of a run before."""
    def paired(a, b):
        rows = compare(qkscope, a, b, tmp_path / f"{a.name}-{b.name}")
        return {row["paired"] for row in rows.values() if row["p"] is not None}
    assert paired(made / "of-a", made / "of-b") == {0} and paired(made / "of-a", made / "of-other") == {1}
    analyze(qkscope, subset(made / "a", tmp_path / "fewer", texts(0, 11)))
    assert paired(made / "of-a", tmp_path / "of-fewer") == {0}
    shutil.copytree(made / "a", tmp_path / "told")
    facts = read_json(tmp_path / "told" / "capture.json") if (tmp_path / "told" / "capture.json").exists() else {}
    (tmp_path / "told" / "capture.json").write_text(json.dumps(facts | {"q_per_kv_group": 2, "run": {"texts": {"xxh3_128": "0f"}}}))
    analyze(qkscope, tmp_path / "told")
    assert paired(made / "of-a", tmp_path / "of-told") == {0} and paired(tmp_path / "of-told", tmp_path / "of-told") == {1}
    shutil.copytree(made / "of-other", tmp_path / "later")
    qkscope("rotate", made / "other", "-o", tmp_path / "later", "--ci", 95, expect=0)
    assert paired(made / "of-a", tmp_path / "later") == {0}


def test_independent_differences(qkscope, made, tmp_path):
    """The interval of Zou and Donner, and p by its inversion; numbers are those of the tables."""
    rows = compare(qkscope, made / "of-a", made / "of-b", tmp_path / "out")
    a, b = (numbers_of(made / f"of-{name}") for name in "ab")
    seen = 0
    for (*head, name), row in rows.items():
        key = (*head, name)
        assert (row["a"], row["b"]) == (a[key], b[key])
        assert row["difference"] == pytest.approx(b[key] - a[key], rel=1e-12, abs=1e-15)
        if name not in (*NAMES, "ap_overall", "ap_drop") or is_open(rows, *key):
            assert row["p"] is None and row["difference_lo"] is None
            continue
        # the interval is about the difference of the cross-fitted numbers
        was, is_ = (side.get((*head, f"{name}_cv"), side[key]) for side in (a, b))
        ends = [(side[(*head, f"{name}_lo")], side[(*head, f"{name}_hi")]) for side in (a, b)]
        check(row, (row["difference"], *oracle.independent(name, was, is_, *ends, 12)[1:]), max(abs(was), abs(is_)))
        assert (row["difference_lo"] <= 0 <= row["difference_hi"]) == (row["p"] >= 0.05)
        seen += 1
    assert seen == 8 * 12 - sum(is_open(rows, *key) for key in rows if key[2] in ("r_q", "r_k")) > 80


def test_texts_of_unequal_length(qkscope, made, tmp_path):
    """p is of as many texts as count, where these are fewer than there are; of too few nothing is tested."""
    few, some = (subset(made / "a", tmp_path / name, lambda columns, least=least: columns["position"] <
                        2048 * (1 - (1 - least) / 11 * columns["example_id"])) for name, least in (("few", 0.05), ("some", 0.65)))
    analyze(qkscope, few, some)
    for shorter, tested in ((few, False), (some, True)):
        rows = compare(qkscope, made / "of-b", results_of(shorter), tmp_path / f"out-{shorter.name}", "--any-length")
        a, b = numbers_of(made / "of-b"), numbers_of(results_of(shorter))
        for (*head, name), row in rows.items():
            assert name not in NAMES or (row["p"] is not None) == tested
            if row["p"] is None:
                continue
            was, is_ = (side.get((*head, f"{name}_cv"), side[*head, name]) for side in (a, b))
            ends = [(side[*head, f"{name}_lo"], side[*head, f"{name}_hi"]) for side in (a, b)]
            count = b[*head, "effective_texts"]
            assert 9.4 < count < 11.5 and a[*head, "effective_texts"] == 12
            assert row["p"] == pytest.approx(oracle.independent(name, was, is_, *ends, count)[3], rel=1e-5, abs=1e-300)


def test_what_is_tested_is_corrected_together(qkscope, made, tmp_path):
    """Of heads. Two layers do not tell how layers differ, so their means have neither interval nor p."""
    rows = compare(qkscope, made / "of-a", made / "of-other", tmp_path / "out")
    tested = [r for r in rows.values() if r["p"] is not None]
    want = scipy.stats.false_discovery_control([r["p"] for r in tested])
    assert [r["p_corrected"] for r in tested] == pytest.approx(want.tolist(), rel=1e-12)
    assert len(tested) == 96 and 0 < sum(want < 0.05) < 96
    metrics = read_json(tmp_path / "out" / "compare_summary.json")["metrics"]
    assert len(metrics) > 12 and {m[key] for m in metrics for key in ("low", "high", "p_corrected")} == {None}


@pytest.mark.test_all  # the oracle takes a minute or two
def test_means_over_key_heads_and_layers(qkscope, tmp_path):
    """The less certain of Student's t over key heads and the model of layers, as on the page; the p-values are corrected together."""
    for name, seed in (("a", 5), ("b", 6)):
        synth(tmp_path / name, layers=5, query_heads=4, dim=6, examples=3, rows=40, seed=seed)
        qkscope("pca", tmp_path / name, "-o", tmp_path / f"of-{name}", expect=0)
    # heads of a layer that moved alike, so that ten key heads are far fewer than ten
    qk = (tmp_path / "of-b" / "qk.csv").read_text().splitlines()
    columns = qk[0].split(",")
    for i, line in enumerate(qk[1:], 1):
        cells = dict(zip(columns, line.split(",")))
        cells["r_q"] = repr(float(cells["r_q"]) / 50 + 0.4 - 0.12 * (int(cells["layer"]) % 3))
        qk[i] = ",".join(cells.values())
    (tmp_path / "of-b" / "qk.csv").write_text("\n".join(qk) + "\n")
    rows = compare(qkscope, tmp_path / "of-a", tmp_path / "of-b", tmp_path / "out", "--force")
    summary = {m["metric"]: m for m in read_json(tmp_path / "out" / "compare_summary.json")["metrics"]}
    p, by_layers = {}, set()
    for name in summary:
        own = [r for key, r in rows.items() if key[2] == name and r["difference"] is not None and not is_open(rows, *key)]
        groups = {}
        for r in own:
            groups.setdefault((r["layer"], r["k_head"]), []).append(r["difference"])
        means, layer = np.array([np.mean(group) for group in groups.values()]), np.array([key[0] for key in groups])
        assert summary[name]["mean_difference"] == pytest.approx(np.mean(means), rel=1e-9)
        p[name], low, high, layers = oracle.mean_over_layers(layer, means)
        by_layers |= {name} if layers else set()
        assert [summary[name]["low"], summary[name]["high"]] == pytest.approx([low, high], rel=1e-5)
        values = np.array([[r["a"], r["b"]] for r in own])
        for r in own:
            assert r["size"] == pytest.approx(r["difference"] / values.std(), rel=1e-9)
    assert by_layers and p["r_q"] > 5 * scipy.stats.ttest_1samp(means_of(rows, "r_q"), 0).pvalue
    want = scipy.stats.false_discovery_control(list(p.values()))
    assert [summary[name]["p_corrected"] for name in p] == pytest.approx(want.tolist(), rel=1e-5)


def means_of(rows, name):
    groups = {}
    for (layer, head, metric), r in rows.items():
        if metric == name and r["difference"] is not None and not is_open(rows, layer, head, name):
            groups.setdefault((layer, r["k_head"]), []).append(r["difference"])
    return np.array([np.mean(group) for group in groups.values()])


# ---- the sign of PC0 --------------------------------------------------------------------------

def drifting(target, drifts, texts=20, rows=40, dim=8):
    """Heads of one query head and one key head each: along e0 lies most of the variance, and queries and keys follow
    position there with the given correlations."""
    for head, both in enumerate(drifts):
        for kind, r in zip("qk", both):
            draw = np.random.default_rng([head, "qk".index(kind)])
            n = texts * rows
            at = draw.integers(0, 1000, n)
            t = (at - at.mean()) / at.std()
            noise = draw.standard_normal(n)
            noise -= noise.mean() + t * (noise @ t) / n
            vectors = 0.3 * draw.standard_normal((n, dim))
            vectors[:, 0] = 3 * (r * t + math.sqrt(1 - r * r) * noise / noise.std())
            write_rows(target, f"l00h{head:02d}{kind}",
                       {"example_id": np.repeat(np.arange(texts), rows).astype(np.int64),
                        "position": at.astype(np.int64), "bucket": (at // 128).astype(np.int64),
                        "vector": vectors.astype(np.float32)})
    return target


def test_a_sign_that_tables_leave_open(qkscope, tmp_path):
    """r_k turns while r_q goes on: that may be the convention, so it is said, and no mover. Where r_q is large and r_k
    near 0, it is r_k that crossed 0."""
    heads = {"a": [(0.15, -0.8), (0.7, 0.1), (0.3, 0.4), (0.02, 0.5)], "b": [(0.6, 0.9), (0.7, -0.1), (0.5, 0.5), (0.9, -0.5)]}
    for name, drifts in heads.items():
        analyze(qkscope, drifting(tmp_path / name, drifts))
    out = tmp_path / "out"
    done = qkscope("compare", tmp_path / "of-a", tmp_path / "of-b", "-o", out, "--no-html", expect=0)
    said = "r_k of 2 heads changes sign (0:0, 0:3): tables do not hold the axes, so this may be the convention of PC0 alone"
    summary = read_json(out / "compare_summary.json")
    assert said in done.err and any(said in warning for warning in summary["warnings"])
    top = {r["q_head"]: r["top_metric"] for r in read_csv(out / "compare_heads.csv")}
    movers = {m["q_head"]: m["metric"] for m in summary["movers"]}
    assert movers == top and len(top) == 4
    assert not {movers[0], movers[3]} & {"r_q", "r_k", "mu_q", "mu_k", "alpha", "beta"}
    rows = {(r["q_head"], r["metric"]): r for r in read_csv(out / "compare.csv")}
    assert rows[0, "r_k"]["difference"] == pytest.approx(1.7, abs=0.05)  # the table keeps it
    for metric in ("r_q", "r_k"):
        assert {h for h in range(4) if rows[h, metric]["p"] is None and rows[h, metric]["difference_lo"] is None} == {0, 3}
        mean = next(m for m in summary["metrics"] if m["metric"] == metric)
        assert (mean["heads"], mean["heads_tested"]) == (2, 2)
        assert mean["mean_difference"] == pytest.approx(np.mean([rows[h, metric]["difference"] for h in (1, 2)]))
    assert rows[0, "key_share"]["p"] is not None


# ---- known truth ------------------------------------------------------------------------------

@pytest.mark.test_all
def test_a_changed_head_is_found_among_others(qkscope, tmp_path):
    """Two disjoint sets of texts of one truth; in b one head drifts faster."""
    synth(tmp_path / "all", layers=3, query_heads=4, dim=16, examples=32, rows=120, seed=6, r_q=0.4, r_k=0.4)

    def change(name, columns):
        vectors, t = columns["vector"].astype(np.float64), columns["position"]
        return vectors + 3 * (t - t.mean())[:, None] * np.polyfit(t, vectors, 1)[0] if name == "l01h02q" else columns["vector"]
    analyze(qkscope, subset(tmp_path / "all", tmp_path / "a", texts(0, 16)),
            subset(tmp_path / "all", tmp_path / "b", texts(16, 32), change))
    rows = compare(qkscope, tmp_path / "of-a", tmp_path / "of-b", tmp_path / "out")
    summary = read_json(tmp_path / "out" / "compare_summary.json")
    assert (summary["movers"][0]["layer"], summary["movers"][0]["q_head"]) == (1, 2)
    supported = {key[:2] for key, row in rows.items() if (row["p_corrected"] or 1) < 0.05}
    assert (1, 2) in supported and len(supported) <= 2
    assert rows[1, 2, "r_q_a"]["p_corrected"] < 1e-4


@pytest.mark.test_all
def test_chance_is_not_called_a_change(qkscope, tmp_path):
    """Disjoint texts of one truth: about one test in twenty has p below 0.05, and corrected ones none."""
    p, corrected = [], []
    for seed in (2, 3):
        whole, a, b = (tmp_path / f"{name}{seed}" for name in ("all", "a", "b"))
        synth(whole, layers=3, query_heads=8, dim=16, examples=32, rows=80, seed=seed)
        analyze(qkscope, subset(whole, a, texts(0, 16)), subset(whole, b, texts(16, 32)))
        rows = compare(qkscope, results_of(a), results_of(b), tmp_path / f"out{seed}")
        own = [row for key, row in rows.items() if key[2] in NAMES and not is_open(rows, *key)]
        p += [row["p"] for row in own]
        corrected += [row["p_corrected"] for row in own]
    assert 440 < len(p) <= 2 * 24 * len(NAMES) and 0.005 < (np.array(p) < 0.05).mean() < 0.09
    assert sum(value < 0.05 for value in corrected) <= 3
