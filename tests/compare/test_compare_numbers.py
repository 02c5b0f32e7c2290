# SPDX-License-Identifier: Apache-2.0
"""qkscope compare against NumPy and SciPy, and on captures whose truth is known."""
import math

import numpy as np
import pytest
import scipy.stats
from conftest import EXAMPLE, head_names, head_pairs, read_csv, read_json, read_rows, synth, write_rows

pytest.importorskip("pyarrow")
pytest.importorskip("mpmath")
oracle = pytest.importorskip("compare_oracle")

NAMES = ("r_q", "r_k", "r_q_a", "r_k_a", "alpha_q", "alpha_k", "bias_strength", "separation_strength")


def compare(qkscope, a, b, out, *more):
    qkscope("compare", a, b, "-o", out, "--no-html", *more, expect=0)
    rows = {(r["layer"], r["q_head"], r["metric"]): r for r in read_csv(out / "compare.csv")}
    spaces = [(r["layer"], r["q_head"], r["space"]) for r in read_csv(out / "compare_angles.csv")] \
        if (out / "compare_angles.csv").exists() else []
    assert len(rows) == len(read_csv(out / "compare.csv")) and len(set(spaces)) == len(spaces)
    return rows


def angles_of(out):
    return {(r["layer"], r["q_head"], r["space"]): r for r in read_csv(out / "compare_angles.csv")}


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
    """24 texts of two layers, and halves of them."""
    folder = tmp_path_factory.mktemp("made")
    synth(qkscope, folder / "all", layers=2, query_heads=4, dim=12, examples=24, rows=40, seed=3, rope_planes=1)
    for name, first, end in (("a", 0, 12), ("b", 12, 24)):
        subset(folder / "all", folder / name, texts(first, end))
    synth(qkscope, folder / "other", layers=2, query_heads=4, dim=12, examples=12, rows=40, seed=4, rope_planes=1)
    return folder


# ---- against SciPy ----------------------------------------------------------------------------

def check(row, want, scale):
    for column, value in zip(("difference", "difference_lo", "difference_hi"), want):
        assert row[column] == pytest.approx(value, abs=1e-8 * scale), column
    assert row["p"] == pytest.approx(want[3], rel=1e-5, abs=1e-300)


def head_runs(capture):
    return {(layer, head): (oracle.numbers_of(q, k), oracle.runs_of(q, k))
            for layer, head, q, k in head_pairs(capture, 2)}


def test_paired_differences(qkscope, made, tmp_path):
    """Texts of the same ids: the jackknife of the differences."""
    rows = compare(qkscope, made / "a", made / "other", tmp_path / "out", "--no-plasticity")
    sides = head_runs(made / "a"), head_runs(made / "other")
    pairs = [{(layer, head): (q, k) for layer, head, q, k in head_pairs(made / side, 2)} for side in ("a", "other")]
    for head in sides[0]:
        (a, runs_a), (b, runs_b) = (side[head] for side in sides)
        turn = oracle.turn_of(pairs[0][head], pairs[1][head]) or 1
        for name in NAMES:
            sign = turn if name in ("r_q", "r_k") else 1
            row = rows[(*head, name)]
            assert row["pairing"] == "paired"
            want = oracle.paired(a[name], sign * b[name], [run[name] for run in runs_a],
                                 [sign * run[name] for run in runs_b])
            check(row, want, max(abs(a[name]), abs(b[name])))


def test_paired_only_where_all_ids_are_the_same(qkscope, tmp_path):
    """More texts than the jackknife has groups, which then tell little: 0 to 39 give those of 0 to 59, and of 20 to 59."""
    shape = {"layers": 1, "query_heads": 2, "q_per_kv_group": 2, "dim": 6, "rows": 12, "rope_planes": 1}
    for name, count, seed in (("a", 40, 1), ("same", 40, 2), ("more", 60, 3)):
        synth(qkscope, tmp_path / name, examples=count, seed=seed, **shape)
    subset(tmp_path / "more", tmp_path / "shifted", texts(20, 60))
    for name, pairing in (("same", "paired"), ("more", "independent"), ("shifted", "independent")):
        done = qkscope("compare", tmp_path / "a", tmp_path / name, "-o", tmp_path / f"out-{name}", "--no-html",
                       "--no-plasticity", expect=0)
        assert {r["pairing"] for r in read_csv(tmp_path / f"out-{name}" / "compare.csv")
                if r["p"] is not None} == {pairing}, name
        warned = "differences are not paired by text: the example ids of a and b are not known to be the same" in done.err
        assert warned == (pairing == "independent"), name


def test_independent_differences(qkscope, made, tmp_path):
    """Texts of other ids, and tables of them: the interval of Zou and Donner, and p by its inversion."""
    captures = compare(qkscope, made / "a", made / "b", tmp_path / "captures")
    for name in "ab":
        qkscope("analyze", made / name, "-o", tmp_path / name, "--ci", 95, expect=0)
    tables = compare(qkscope, tmp_path / "a", tmp_path / "b", tmp_path / "tables")
    of = [{**{(r["layer"], r["q_head"], name): (r[name], r.get(f"{name}_cv", r[name]), (r[f"{name}_lo"], r[f"{name}_hi"]))
              for table in ("qk.csv", "rotated.csv", "head_metrics.csv") for r in read_csv(tmp_path / side / table)
              if r.get("pc", 0) == 0 for name in (*NAMES, "ap_overall", "ap_drop") if name in r}} for side in "ab"]
    turned = {(r["layer"], r["q_head"]): r["turned"] for r in read_csv(tmp_path / "captures" / "compare_heads.csv")}
    assert {r["turned"] for r in read_csv(tmp_path / "tables" / "compare_heads.csv")} == {None}
    seen = 0
    for key, row in tables.items():
        if key not in of[0]:
            assert row["p"] is None and row["difference_lo"] is None
            continue
        (was, a, ends_a), (is_, b, ends_b) = of[0][key], of[1][key]
        want = oracle.independent(key[2], a, b, ends_a, ends_b, 12)
        # the interval is about the difference of the cross-fitted numbers
        check(row, (is_ - was, *want[1:]), max(abs(a), abs(b)))
        assert (row["difference_lo"] <= 0 <= row["difference_hi"]) == (row["p"] >= 0.05)
        assert captures[key]["pairing"] == row["pairing"] == "independent"
        assert (captures[key]["a"], captures[key]["b"]) == pytest.approx((row["a"], row["b"]), rel=1e-9)
        if key[2] in ("r_q", "r_k") and turned[key[:2]]:
            is_, b, ends_b = -is_, -b, (-ends_b[1], -ends_b[0])
        want = oracle.independent(key[2], a, b, ends_a, ends_b, 12)
        check(captures[key], (is_ - was, *want[1:]), max(abs(a), abs(b)))
        seen += 1
    assert seen == 8 * 10


def test_corrected_together(qkscope, made, tmp_path):
    rows = [r for r in compare(qkscope, made / "a", made / "other", tmp_path / "out").values() if r["p"] is not None]
    want = scipy.stats.false_discovery_control([r["p"] for r in rows])
    assert [r["p_corrected"] for r in rows] == pytest.approx(want.tolist(), rel=1e-12)
    assert len(rows) == 80 and 0 < sum(want < 0.05) < 80


def test_means_over_key_heads(qkscope, made, tmp_path):
    rows = compare(qkscope, made / "a", made / "other", tmp_path / "out", "--no-plasticity")
    summary = {m["metric"]: m for m in read_json(tmp_path / "out" / "compare_summary.json")["metrics"]}
    p = {}
    for name in summary:
        own = [r for key, r in rows.items() if key[2] == name and r["difference"] is not None]
        groups = {}
        for r in own:
            groups.setdefault((r["layer"], r["k_head"]), []).append(r["difference"])
        means = [np.mean(group) for group in groups.values()]
        assert summary[name]["mean_difference"] == pytest.approx(np.mean(means), rel=1e-9)
        test = scipy.stats.ttest_1samp(means, 0)
        interval = test.confidence_interval(0.95)
        assert [summary[name]["low"], summary[name]["high"]] == pytest.approx(list(interval), rel=1e-9)
        p[name] = float(test.pvalue)
        values = np.array([[r["a"], r["b"]] for r in own])
        for r in own:
            assert r["size"] == pytest.approx(r["difference"] / values.std(), rel=1e-9)
    want = scipy.stats.false_discovery_control(list(p.values()))
    assert [summary[name]["p_corrected"] for name in p] == pytest.approx(want.tolist(), rel=1e-9)


@pytest.mark.parametrize("count", [1, 3, 10])
def test_angles(qkscope, made, tmp_path, count):
    compare(qkscope, made / "a", made / "b", tmp_path / "out", "--no-plasticity", "--subspace", count)
    rows = angles_of(tmp_path / "out")
    pairs = [head_pairs(made / side, 2) for side in "ab"]
    assert len(rows) == 3 * 8
    for (layer, head, q_a, k_a), (_, _, q_b, k_b) in zip(*pairs):
        spaces = [oracle.spaces_of(q, k, count) for q, k in ((q_a, k_a), (q_b, k_b))]
        within = [oracle.halves(q, k, count) for q, k in ((q_a, k_a), (q_b, k_b))]
        for name in ("qk", "q", "k"):
            row = rows[layer, head, name]
            want = oracle.angles(spaces[0][name], spaces[1][name])
            assert [row["angle_least"], row["angle_most"]] == pytest.approx([want[0], want[-1]], abs=1e-6)
            assert row["overlap"] == pytest.approx(oracle.overlap(spaces[0][name], spaces[1][name]), abs=1e-9)
            for side, mine in zip("ab", within):
                assert row[f"overlap_halves_{side}"] == pytest.approx(mine[name], abs=1e-9)
            assert row["overlap_chance"] == count / 12 and row["components"] == count


# ---- the sign of PC0 --------------------------------------------------------------------------

def drifting(target, drifts, axes=None, texts=20, rows=40, dim=8):
    """Heads of one query head and one key head each: along e0 (or axes[head]) lies most of the variance, and queries
    and keys follow position there with the given correlations."""
    for head, both in enumerate(drifts):
        for kind, r in zip("qk", both):
            draw = np.random.default_rng([head, "qk".index(kind)])
            n = texts * rows
            at = draw.integers(0, 1000, n)
            t = (at - at.mean()) / at.std()
            noise = draw.standard_normal(n)
            noise -= noise.mean() + t * (noise @ t) / n
            vectors = 0.3 * draw.standard_normal((n, dim))
            vectors[:, (axes or {}).get(head, 0)] = 3 * (r * t + math.sqrt(1 - r * r) * noise / noise.std())
            write_rows(target, f"l00h{head:02d}{kind}",
                       {"example_id": np.repeat(np.arange(texts), rows).astype(np.int64),
                        "position": at.astype(np.int64), "bucket": (at // 128).astype(np.int64),
                        "vector": vectors.astype(np.float32)})
    return target


# Along e0, in the order of heads. qk.csv has the sign with which r_q >= 0, or r_k where r_q is near 0.
SIGNS_A = [(0.02, 0.5), (0.02, 0.5), (0.3, 0.4), (0.3, 0.4)]
SIGNS_B = [(0.85, -0.5), (-0.85, 0.5), (0.3, 0.4), (-0.3, -0.4)]


def test_numbers_are_those_of_each_sides_tables(qkscope, tmp_path):
    """Whatever the signs in the other model are; the axes alone decide which way differences are taken."""
    for name, drifts, axes in (("a", SIGNS_A, None), ("b", SIGNS_B, {2: 3})):  # PC0 of head 2 is another one
        drifting(tmp_path / name, drifts, axes)
        qkscope("analyze", tmp_path / name, "-o", tmp_path / f"of-{name}", expect=0)
    own = {side: {(r["layer"], r["q_head"], name): r[name] for table in ("qk.csv", "heads.csv", "rotated.csv", "head_metrics.csv")
                  for r in read_csv(tmp_path / f"of-{side}" / table) if r.get("pc", 0) == 0 for name in r}
           for side in "ab"}
    along_first = ("r_q", "r_k", "mu_q", "mu_k", "alpha", "beta")
    for given, turns in ((("a", "b"), [0, 1, None, 1]), (("of-a", "of-b"), [None] * 4), (("a", "of-b"), [None] * 4)):
        out = tmp_path / "-".join(given)
        done = qkscope("compare", *(tmp_path / name for name in given), "-o", out, "--no-html", expect=0)
        rows = {(r["layer"], r["q_head"], r["metric"]): r for r in read_csv(out / "compare.csv")}
        assert [r["turned"] for r in read_csv(out / "compare_heads.csv")] == turns
        assert ("PC0 of 2 heads points the other way in b than in a" in done.err) == (1 in turns)
        for key, row in rows.items():
            assert (row["a"], row["b"]) == (own["a"][key], own["b"][key]), key
            sign = -1 if turns[key[1]] and key[2] in along_first else 1
            assert row["difference"] == pytest.approx(sign * row["b"] - row["a"], rel=1e-12, abs=1e-15), key
        for metric in read_json(out / "compare_summary.json")["metrics"]:
            both = [(own["a"][key], own["b"][key]) for key in rows if key[2] == metric["metric"]
                    and None not in (own["a"][key], own["b"][key])]
            assert (metric["mean_a"], metric["mean_b"]) == pytest.approx(np.mean(both, axis=0).tolist(), rel=1e-9)
    assert rows[0, 0, "r_q"]["b"] == pytest.approx(0.85, abs=0.01)  # and not -0.85


def test_the_axis_says_that_drift_turned_back(qkscope, tmp_path):
    """Both tables have r_q = 0.3: along one axis, it is 0.3 in a and -0.3 in b."""
    drifting(tmp_path / "a", SIGNS_A)
    drifting(tmp_path / "b", SIGNS_B)
    rows = compare(qkscope, tmp_path / "a", tmp_path / "b", tmp_path / "out", "--no-plasticity")
    assert (rows[0, 3, "r_q"]["a"], rows[0, 3, "r_q"]["b"]) == pytest.approx((0.3, 0.3), abs=0.02)
    assert rows[0, 3, "r_q"]["difference"] == pytest.approx(-0.6, abs=0.03) and rows[0, 3, "r_q"]["p"] < 0.01
    assert abs(rows[0, 2, "r_q"]["difference"]) < 0.03


def test_a_sign_that_tables_leave_open(qkscope, tmp_path):
    """r_k turns while r_q goes on: of tables that may be the convention, so it is said, and no mover. Where r_q is large
    and r_k near 0, it is r_k that crossed 0. Captures have the axes, which tell."""
    heads = {"a": [(0.15, -0.8), (0.7, 0.1), (0.3, 0.4), (0.02, 0.5)], "b": [(0.6, 0.9), (0.7, -0.1), (0.5, 0.5), (0.9, -0.5)]}
    for name, drifts in heads.items():
        drifting(tmp_path / name, drifts)
        qkscope("analyze", tmp_path / name, "-o", tmp_path / f"of-{name}", "--ci", 95, expect=0)
    said = "tables have no axes: r_k of 2 heads changes sign (0:0, 0:3), which may be the convention of PC0 alone"
    along_first = ("r_q", "r_k", "mu_q", "mu_k", "alpha", "beta")
    for a, b, warned in (("of-a", "of-b", True), ("a", "of-b", True), ("a", "b", False)):
        out = tmp_path / f"{a}-{b}"
        done = qkscope("compare", tmp_path / a, tmp_path / b, "-o", out, "--no-html", expect=0)
        assert (said in done.err) == warned
        summary = read_json(out / "compare_summary.json")
        assert any(said in warning for warning in summary["warnings"]) == warned
        top = {r["q_head"]: r["top_metric"] for r in read_csv(out / "compare_heads.csv")}
        movers = {m["q_head"]: m["metric"] for m in summary["movers"]}
        assert movers == top and len(top) == 4
        if warned:
            assert movers[0] not in along_first and movers[3] not in along_first
        rows = {(r["q_head"], r["metric"]): r for r in read_csv(out / "compare.csv")}
        assert rows[0, "r_k"]["difference"] == pytest.approx(1.7, abs=0.05)  # the table keeps it


# ---- known truth ------------------------------------------------------------------------------

def test_nothing_changed(qkscope, tmp_path):
    """A real capture with itself, also as tables."""
    rows = compare(qkscope, EXAMPLE, EXAMPLE, tmp_path / "out")
    assert {r["difference"] for r in rows.values()} == {0}
    assert {r["p"] for r in rows.values()} == {None, 1}
    for row in read_csv(tmp_path / "out" / "compare_angles.csv"):
        assert row["angle_most"] < 1e-6 and row["overlap"] == pytest.approx(1, abs=1e-12)
    summary = read_json(tmp_path / "out" / "compare_summary.json")
    assert summary["supported"] == 0 and summary["movers"] == [] and summary["tested"] == 200
    assert all(space["heads_moved"] == 0 for space in summary["spaces"])


def turn_plane(vectors, x, y, degrees):
    """Turns the plane of orthonormal x and y."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    p, q = vectors @ x, vectors @ y
    return vectors + np.outer(p * (c - 1) - q * s, x) + np.outer(p * s + q * (c - 1), y)


@pytest.mark.parametrize("degrees", [1e-3, 5, 30, 60, 89])
def test_a_rotated_head(qkscope, tmp_path, degrees):
    """The third leading direction is turned towards one that was outside: one angle is that, the others are 0."""
    synth(qkscope, tmp_path / "a", layers=1, query_heads=4, dim=12, examples=8, rows=60, seed=5, rope_planes=0)

    def change(name, columns):
        vectors = columns["vector"].astype(np.float64)
        if name not in ("l00h02q", "l00h01k"):
            return columns["vector"]
        axes = oracle.spaces_of({"vector": vectors}, {"vector": vectors}, 12)["q"]
        return turn_plane(vectors, axes[2], axes[7], degrees)
    subset(tmp_path / "a", tmp_path / "b", lambda c: np.full(len(c["position"]), True), change)
    compare(qkscope, tmp_path / "a", tmp_path / "b", tmp_path / "out", "--no-plasticity")
    rows = angles_of(tmp_path / "out")
    for (_, head, space), row in rows.items():
        touched = {"q": head == 2, "k": head >= 2, "qk": head >= 2}[space]
        if not touched:
            assert row["angle_most"] < 1e-5
        elif space in "qk" and space != "qk":
            assert row["angle_most"] == pytest.approx(degrees, rel=1e-4, abs=1e-4)
            assert row["angle_least"] < 1e-4
            assert row["overlap"] == pytest.approx((2 + math.cos(math.radians(degrees)) ** 2) / 3, abs=1e-6)


def test_a_changed_head_is_found_among_others(qkscope, tmp_path):
    """Two disjoint sets of texts of one truth; in b one head drifts faster."""
    synth(qkscope, tmp_path / "all", layers=3, query_heads=4, dim=16, examples=32, rows=120, seed=6, r_q=0.4, r_k=0.4)
    drift = {}

    def change(name, columns):
        vectors, t = columns["vector"].astype(np.float64), columns["position"]
        if name != "l01h02q":
            return columns["vector"]
        drift["by"] = 3 * (t - t.mean())[:, None] * np.polyfit(t, vectors, 1)[0]
        return vectors + drift["by"]
    subset(tmp_path / "all", tmp_path / "a", texts(0, 16))
    subset(tmp_path / "all", tmp_path / "b", texts(16, 32), change)
    rows = compare(qkscope, tmp_path / "a", tmp_path / "b", tmp_path / "out")
    summary = read_json(tmp_path / "out" / "compare_summary.json")
    assert (summary["movers"][0]["layer"], summary["movers"][0]["q_head"]) == (1, 2)
    supported = {key[:2] for key, row in rows.items() if (row["p_corrected"] or 1) < 0.05}
    assert (1, 2) in supported and len(supported) <= 2
    assert rows[1, 2, "r_q_a"]["p_corrected"] < 1e-4


def test_chance_is_not_called_a_change(qkscope, tmp_path):
    """Disjoint texts of one truth: about one test in twenty has p below 0.05, and corrected ones none; with the same
    texts and other rows of them, likewise."""
    p, corrected = {"independent": [], "paired": []}, []
    for seed in range(2):
        whole = tmp_path / f"all{seed}"
        synth(qkscope, whole, layers=3, query_heads=8, dim=16, examples=32, rows=80, seed=seed)
        subset(whole, tmp_path / f"a{seed}", texts(0, 16))
        subset(whole, tmp_path / f"b{seed}", texts(16, 32))
        for side in (0, 1):  # not every second row: that would be of later positions
            subset(whole, tmp_path / f"{side}{seed}",
                   lambda c, side=side: np.random.default_rng(7).permutation(len(c["position"])) % 2 == side)
        for one, other in (("a", "b"), ("0", "1")):
            rows = compare(qkscope, tmp_path / f"{one}{seed}", tmp_path / f"{other}{seed}", tmp_path / f"{one}out{seed}",
                           "--no-plasticity")
            for row in rows.values():
                if row["p"] is not None:
                    p[row["pairing"]].append(row["p"])
                    corrected.append(row["p_corrected"])
    for pairing, values in p.items():
        values = np.array(values)
        assert len(values) == 2 * 24 * 8 and 0.005 < (values < 0.05).mean() < 0.09, (pairing, (values < 0.05).mean())
    assert sum(value < 0.05 for value in corrected) <= 3


def test_a_tie_of_the_leading_components(qkscope, tmp_path):
    """PC0 may be another axis with other texts: a warning says so."""
    for seed in (1, 2):
        synth(qkscope, tmp_path / str(seed), layers=1, query_heads=2, q_per_kv_group=2, dim=8, examples=20, rows=60, seed=seed,
              exponent=0, separation=0, r_q=0, r_k=0, rope_planes=0)
    done = qkscope("compare", tmp_path / "1", tmp_path / "2", "-o", tmp_path / "out", "--no-html", expect=0)
    assert "PC0 and PC1 of 2 heads have nearly the same variance" in done.err
