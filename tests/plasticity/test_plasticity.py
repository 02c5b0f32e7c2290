# SPDX-License-Identifier: Apache-2.0
"""The six tables of the plasticity analysis against the NumPy oracle, on real and made-up
captures. `pytest -s` prints the worst deviation of every column."""
import csv
import math
from fractions import Fraction

import numpy as np
import pytest
from conftest import EXAMPLE, Agreement, head_name, head_pairs, read_bytes, read_csv, write_rows

pytest.importorskip("pyarrow")
oracle = pytest.importorskip("plasticity_oracle")

IDS = ["model", "layer", "q_head", "k_head"]
PARTS = [f"q{i}" for i in range(1, 6)] + [f"d{i}" for i in range(1, 11)]
HEADERS = {
    "head_metrics.csv": [*IDS, *oracle.METRICS],
    "head_profile.csv": [*IDS, "q_bucket", "position", "n_queries", "n_pairs", "ap"],
    "head_bucket_plasticity.csv": [*IDS, "q_bucket", "k_bucket", "n_pairs", "ap_bucket"],
    "head_distance.csv": [*IDS, "distance_bin", "lag_bin", "n_pairs", "ap"],
    "head_component_weights.csv": [*IDS, "component", "component_r2", "component_weight"],
    "model_report.csv": ["model", "heads", *PARTS, "ap_overall", "ap_first_20pct",
                         "ap_last_20pct", "ap_drop", "ap_mean"],
}
# Numbers that are differences of larger ones: what they are compared with when small.
SCALES = {"q_resid0_skew": 1e-2, "q_resid0_kurt": 1e-2, "q_noise_med_abs_skew": 1e-2,
          "q_noise_med_abs_kurt": 1e-2, "ap_drop": 1e-2, "q_R2_scalar": 1e-3,
          "position": 1.0}
OVERALL = Agreement()


@pytest.fixture(scope="module", autouse=True)
def report_overall():
    yield
    OVERALL.check("worst of all captures")


def read_tables(out):
    tables = {}
    for name, header in HEADERS.items():
        with open(out / name, newline="") as file:
            assert next(csv.reader(file)) == header, name
        tables[name] = read_csv(out / name)
    return tables


# ---- comparing -------------------------------------------------------------------------------

def of_head(rows, layer, head):
    return [row for row in rows if (row["layer"], row["q_head"]) == (layer, head)]


def compare_rows(rows, wanted, keys, exact, seen, place):
    """Rows of a table: `keys` say which one it is, `exact` columns are equal."""
    assert [tuple(r[k] for k in keys) for r in rows] == [tuple(w[k] for k in keys)
                                                         for w in wanted], place
    for row, want in zip(rows, wanted):
        where = f"{place} {[want[k] for k in keys]}"
        for column, value in want.items():
            if column in exact or column in keys:
                assert row[column] == value, (where, column, row[column], value)
            else:
                seen.add(column, row[column], value, where, SCALES.get(column))


def compare_metrics(row, truth, seen, place):
    for column in ("n_q", "n_k", "d", "sliding_window"):
        assert row[column] == truth.metrics[column], (place, column)
    for column in oracle.METRICS[4:]:
        want, rounding = truth.metrics[column], 0.0
        scale = SCALES.get(column)
        if column == "beta_norm":
            scale = 1e-3 * math.sqrt(truth.model.total / max(truth.model.sum_tt, 1))
        if column == "q_noise_frac_ks_p_lt_alpha" and any(
                p is not None and abs(p - truth.alpha) < 1e-9 for p in truth.ks):
            seen.notes["a p-value at alpha"] += 1
            continue
        seen.add(column, row[column], want, place, scale, rounding)


def expected_distances(truth):
    return [{"distance_bin": far, "lag_bin": lag, "n_pairs": len(values),
             "ap": math.fsum(values) / len(values)}
            for (far, lag), values in sorted(truth.distance.items())]


def compare_head(tables, layer, head, truth, seen, place):
    mine = {name: of_head(rows, layer, head) for name, rows in tables.items()
            if name != "model_report.csv"}
    assert len(mine["head_metrics.csv"]) == 1, place
    compare_metrics(mine["head_metrics.csv"][0], truth, seen, place)
    compare_rows(mine["head_profile.csv"], truth.profile, ["q_bucket"],
                 ["n_queries", "n_pairs"], seen, place)
    compare_rows(mine["head_bucket_plasticity.csv"], truth.buckets, ["q_bucket", "k_bucket"],
                 ["n_pairs"], seen, place)
    compare_rows(mine["head_distance.csv"], expected_distances(truth),
                 ["distance_bin", "lag_bin"], ["n_pairs"], seen, place)
    weights = truth.weights if truth.weights is not None else [None] * truth.model.dim
    wanted = [{"component": i, "component_r2": float(r), "component_weight": w}
              for i, (r, w) in enumerate(zip(truth.r2, weights))]
    compare_rows(mine["head_component_weights.csv"], wanted, ["component"], [], seen, place)


def check_capture(qkscope, capture, out, group, title, *options, width=None, alpha=None, near=None):
    """Runs the program on a capture and compares every number with the oracle."""
    arguments = ["plasticity", capture, "-o", out, "--max-pairs", 0, *options]
    arguments += ["--bucket-width", width] if width else []
    arguments += ["--ks-alpha", alpha] if alpha else []
    qkscope(*arguments, expect=0, timeout=600)
    tables, seen, heads = read_tables(out), Agreement(), []
    for (layer, head, q, k), row in zip(head_pairs(capture, group), tables["head_metrics.csv"]):
        assert (row["layer"], row["q_head"]) == (layer, head)
        place = f"{title} {head_name(layer, head, 'q')}"
        truth = oracle.Plasticity(q, k, width, alpha or 0.01, near=near)
        compare_head(tables, layer, head, truth, seen, place)
        heads.append(truth)
    for name, rows in tables.items():
        if name != "model_report.csv":
            ids = [(row["layer"], row["q_head"]) for row in rows]
            assert ids == sorted(ids), name
    assert len(tables["head_metrics.csv"]) == len(heads) > 0
    report, = tables["model_report.csv"]
    for column, want in oracle.model_report(heads).items():
        seen.add("report " + column, report[column], want, title, SCALES.get(column))
    OVERALL.merge(seen)
    seen.check(title)
    return tables


# ---- the oracle itself -----------------------------------------------------------------------

def test_oracle_reflection():
    rng = np.random.default_rng(1)
    for u in (*rng.standard_normal((5, 7)), np.eye(7)[0], -np.eye(7)[0], np.eye(7)[3],
              np.eye(7)[0] + 1e-9 * rng.standard_normal(7), np.ones(1), -np.ones(1)):
        u = u / np.linalg.norm(u)
        h = oracle.reflection(u)
        assert np.allclose(h @ u, np.eye(len(u))[0], atol=1e-15)
        assert np.allclose(h @ h, np.eye(len(u)), atol=1e-15) and np.allclose(h, h.T)


def test_oracle_bucket_widths():
    def width(position, w):
        position = np.array(position)
        return oracle.infer_width(position // w, position)
    everything = np.arange(2048)
    for w in (1, 2, 64, 100, 128, 1000):
        assert width(everything, w) == (w, True)
    assert width([5, 70, 130], 64) == (64, True)
    assert width([-100, -1, 0, 90, 101], 50) == (50, True)
    assert oracle.infer_width(np.array([0, 1, 2]), np.array([3, 8, 100])) == (
        Fraction(98, 3), False)


def test_oracle_probability():
    """p is the probability that the first key wins, over queries drawn from the model."""
    rng = np.random.default_rng(2)
    d = 4
    mean, sd = rng.standard_normal(d), np.array([0.5, 1.0, 2.0, 0.1])
    queries = mean + rng.standard_normal((100000, d)) * sd
    delta = rng.standard_normal((20, d)) * 0.5
    got = oracle.plasticity(delta @ mean, (delta ** 2) @ sd ** 2)
    p = (queries @ delta.T > 0).mean(axis=0)
    assert np.allclose(got, 4 * p * (1 - p), atol=1.2e-2)


# ---- real captures ---------------------------------------------------------------------------

def test_heads_of_the_example(qkscope, tmp_path):
    tables = check_capture(qkscope, EXAMPLE, tmp_path / "out", 2, "heads of the example", "--layers", 0, "--heads", "0-1")
    assert len(tables["head_metrics.csv"]) == 2
    assert {row["bucket_width"] for row in tables["head_metrics.csv"]} == {64}


@pytest.mark.test_all
def test_example_capture(qkscope, tmp_path):
    tables = check_capture(qkscope, EXAMPLE, tmp_path / "out", 2, "examples/kjv-tiny-capture")
    assert len(tables["head_metrics.csv"]) == 20


@pytest.mark.test_all
def test_real_capture(qkscope, shared_data, tmp_path):
    """The same rows by two writers: the same bytes, so one of them is compared."""
    tables = []
    for writer in ("duckdb", "arrow-rs"):
        folder, out = shared_data("kjv-tiny-capture") / writer, tmp_path / f"bytes {writer}"
        qkscope("plasticity", folder, "-o", out, "--model-name", "m", "--max-pairs", 0, expect=0)
        tables.append(read_bytes(out, *HEADERS))
    assert tables[0] == tables[1]
    check_capture(qkscope, folder, tmp_path / "out", 2, "kjv-tiny-capture")


# ---- made-up rows ----------------------------------------------------------------------------

def draw(rng, texts, rows, d, span=2000, first=0, drift=2.0, offset=1.0):
    """Columns of one head: texts of `rows` rows, with a mean and a drift."""
    position = np.concatenate([np.sort(rng.choice(span, rows, replace=False))
                               for _ in range(texts)])
    x = rng.standard_normal((texts * rows, d)) + offset * rng.standard_normal(d)
    x += np.outer(position / span - 0.5, drift * rng.standard_normal(d))
    return {"vector": x.astype(np.float32), "position": position + first,
            "example_id": np.repeat(np.arange(texts) * 3 + 5, rows),
            "bucket": (position + first) // 128}


def write_pair(folder, q, k, layer=0, head=0, **options):
    for kind, columns in (("q", q), ("k", k)):
        write_rows(folder, head_name(layer, head, kind), columns, **options)


DRAWN = {
    "a group of four": dict(group=4),
    "d 128": dict(d=128, texts=2),
    "far positions": dict(first=1000000),
    "far means": dict(offset=1000),
    "no drift": dict(drift=0),
    "rigid": dict(drift=50, offset=100),
    "two rows a text": dict(texts=100, rows=2),
    "shards": dict(shards=3),
    "d 1": dict(d=1),
    "d 2": dict(d=2),
}


@pytest.mark.parametrize("name", DRAWN)
def test_drawn(qkscope, tmp_path, name):
    options = {"texts": 6, "rows": 50, "d": 9, **DRAWN[name]}
    group, shards = options.pop("group", 1), options.pop("shards", 1)
    rng = np.random.default_rng(list(name.encode()))
    for head in range(group):
        write_rows(tmp_path / "c", head_name(0, head, "q"), draw(rng, **options), shards=shards)
    write_rows(tmp_path / "c", head_name(0, 0, "k"), draw(rng, **options), shards=shards)
    check_capture(qkscope, tmp_path / "c", tmp_path / "out", group, name, "--q-per-kv-group", group)


@pytest.mark.parametrize("given", [{"alpha": 0.2}, {"alpha": 0.9}, {"width": 12.5}, {"width": 1e9}])
def test_given(qkscope, tmp_path, given):
    rng = np.random.default_rng(12)
    write_pair(tmp_path / "c", draw(rng, 6, 50, 24), draw(rng, 6, 50, 24))
    tables = check_capture(qkscope, tmp_path / "c", tmp_path / "out", 1, str(given), **given)
    if "width" in given:
        assert {row["bucket_width"] for row in tables["head_metrics.csv"]} == set(given.values())


def log_buckets(columns):
    """Buckets that double in width: 0, 1, 2-3, 4-7, ..."""
    bucket = np.floor(np.log2(np.maximum(columns["position"], 1))).astype(int)
    return {**columns, "bucket": bucket}


def odd_buckets(columns):
    return {**columns, "bucket": np.searchsorted([3, 50, 51, 300, 1111], columns["position"]) * 2}


def shifted_buckets(columns):
    return {**columns, "bucket": columns["position"] // 128 + 100}


def negative_positions(columns):
    return {**columns, "position": columns["position"] - 1000,
            "bucket": (columns["position"] - 1000) // 128}


def mixed_order(columns):
    order = np.random.default_rng(4).permutation(len(columns["position"]))
    return {name: values[order] for name, values in columns.items()}


def signed_ids(columns):
    return {**columns, "example_id": columns["example_id"] * 100003 - 2 ** 31 + 1}


def window(columns):
    return {**columns, "sliding_window": np.full(len(columns["position"]), 200)}


def no_window(columns):
    size = len(columns["position"])
    return {**columns, "sliding_window": [(None, 0, -1)[i % 3] for i in range(size)]}


def duplicates(columns):
    """Every second key is the one before it once more."""
    return {name: np.repeat(values[::2], 2, axis=0) for name, values in columns.items()}


def one_dimension_still(columns):
    columns = {**columns, "vector": columns["vector"].copy()}
    columns["vector"][:, 1] = 0.1
    return columns


def grid(columns):
    """Values of few bits: scores tie, positions meet the edges of the bins exactly."""
    return {**columns, "vector": np.round(columns["vector"] * 2).astype(np.float32) / 2,
            "position": columns["position"] // 64 * 64}


ROWS = {f.__name__.replace("_", " "): f for f in (
    log_buckets, odd_buckets, shifted_buckets, negative_positions, mixed_order, signed_ids, window, no_window,
    duplicates, one_dimension_still, grid)}


@pytest.mark.cases(11)
@pytest.mark.parametrize("name", ROWS)
def test_made_up(qkscope, tmp_path, name):
    rng = np.random.default_rng(list(name.encode()))
    write_pair(tmp_path / "c", *(ROWS[name](draw(rng, 6, 50, 9)) for _ in "qk"))
    check_capture(qkscope, tmp_path / "c", tmp_path / "out", 1, name)


def first(columns, n, bucket):
    return {**{name: v[:n] for name, v in columns.items()}, "bucket": np.full(n, bucket)}


def at_position(columns, position):
    still = np.full_like(columns["position"], position)
    return {**columns, "position": still, "bucket": still // 128}


def alone(columns):
    """One query has a bucket to itself."""
    columns = {name: v.copy() for name, v in columns.items()}
    columns["position"][7], columns["bucket"][7] = 4000, 4000 // 128
    return columns


def filled(columns, value):
    return {**columns, "vector": np.full_like(columns["vector"], value)}


def between(columns, low, high):
    keep = (columns["position"] >= low) & (columns["position"] < high)
    return {name: values[keep] for name, values in columns.items()}


EDGES = {
    "one query": lambda q, k: (first(q, 1, 9), k),
    "two queries": lambda q, k: (first(q, 2, 9), k),
    "three queries": lambda q, k: (first(q, 3, 9), k),
    "texts without keys": lambda q, k: (q, first(k, 120, 0)),
    "four queries": lambda q, k: (first(q, 4, 9), k),
    "one key": lambda q, k: (q, first(k, 1, 0)),
    "two keys": lambda q, k: (q, first(k, 2, 0)),
    "queries at one position": lambda q, k: (at_position(q, 1500), k),
    "keys at one position": lambda q, k: (q, at_position(k, 700)),
    "a query alone": lambda q, k: (alone(q), k),
    "only bucket zero": lambda q, k: (between(q, 5, 128), between(k, 5, 128)),
    "only buckets -1 and 0": lambda q, k: tuple(
        {**side, "position": side["position"] - 128, "bucket": side["bucket"] - 1}
        for side in (between(q, 30, 200), between(k, 30, 200))),
    "only one bucket": lambda q, k: (between(q, 640, 768), between(k, 640, 768)),
    "equal queries": lambda q, k: (filled(q, 0.7), k),
    "equal keys": lambda q, k: (q, filled(k, 0.3)),
    "all equal": lambda q, k: (filled(q, 0.7), filled(k, 0.3)),
}


@pytest.mark.cases(15)
@pytest.mark.parametrize("name", EDGES)
def test_edges(qkscope, tmp_path, name):
    rng = np.random.default_rng(list(name.encode()))
    write_pair(tmp_path / "c", *EDGES[name](draw(rng, 6, 50, 5), draw(rng, 6, 50, 5)))
    check_capture(qkscope, tmp_path / "c", tmp_path / "out", 1, name)


# ---- bins ------------------------------------------------------------------------------------

def test_no_more_than_512_bins(qkscope, tmp_path):
    rng, width = np.random.default_rng(1), 1
    write_pair(tmp_path / "c", draw(rng, 6, 40, 4), draw(rng, 6, 40, 4))
    tables = check_capture(qkscope, tmp_path / "c", tmp_path / "out", 1, f"{width} tokens", width=width)
    rows = tables["head_distance.csv"]
    assert max(row["distance_bin"] for row in rows) < 512
    assert max(row["lag_bin"] for row in rows) < 512
    assert sum(row["n_pairs"] for row in rows) == sum(row["n_pairs"] for row in tables["head_profile.csv"])


# ---- pairs within a distance -----------------------------------------------------------------

NEAR = {"300": lambda length: 300, "5%": lambda length: 0.05 * length, "1": lambda length: 1, "12.5%": lambda length: 0.125 * length,
        "1e9": lambda length: math.inf}


@pytest.mark.parametrize("window", [None, 400])
@pytest.mark.parametrize("most", NEAR)
def test_near_pairs(qkscope, tmp_path, most, window):
    """Also of a text that is longer than a block of keys, and of texts of unlike lengths."""
    rng = np.random.default_rng([len(most), window or 0])
    for kind in "qk":
        parts = [draw(rng, 3, 40, 5, span=700), draw(rng, 2, 210, 5)]
        parts[1]["example_id"] += 100
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        if window:
            columns["sliding_window"] = np.full(len(columns["position"]), window)
        write_rows(tmp_path / "c", head_name(0, 0, kind), columns)
    tables = check_capture(qkscope, tmp_path / "c", tmp_path / "out", 1, f"pairs within {most}", "--max-distance", most,
                           near=NEAR[most])
    whole = tmp_path / "whole"
    qkscope("plasticity", tmp_path / "c", "-o", whole, "--max-pairs", 0, expect=0)
    pairs = [sum(row["n_pairs"] for row in rows) for rows in (tables["head_profile.csv"], read_csv(whole / "head_profile.csv"))]
    assert 0 < pairs[0] < pairs[1] if most != "1e9" else pairs[0] == pairs[1]
    qkscope("analyze", tmp_path / "c", "-o", tmp_path / "all", "--max-pairs", 0, "--max-distance", most, expect=0)
    assert read_bytes(tmp_path / "all", *HEADERS) == read_bytes(tmp_path / "out", *HEADERS)


def test_near_pairs_that_are_drawn(qkscope, tmp_path):
    """Of the pairs within the distance, and of no others, in the profile and in cells."""
    limit, off, rng = 60, [], np.random.default_rng(4)
    write_pair(tmp_path / "c", draw(rng, 8, 90, 8), draw(rng, 8, 90, 8))
    qkscope("plasticity", tmp_path / "c", "-o", tmp_path / "out", "--max-pairs", limit, "--max-distance", "100",
            "--q-per-kv-group", 1, expect=0)
    (_, _, q, k), = head_pairs(tmp_path / "c", 1)
    truth = oracle.Plasticity(q, k, near=lambda length: 100)
    for row, want in zip(read_csv(tmp_path / "out" / "head_profile.csv"), truth.profile, strict=True):
        values = truth.spread_pp[want["q_bucket"]]
        assert row["n_pairs"] == min(want["n_pairs"], limit)
        if len(values) > 2 * limit:
            off.append((row["ap"] - want["ap"]) / math.sqrt(values.var() * (1 - limit / len(values)) / limit))
    assert len(off) > 8 and np.abs(off).max() < 4
    # all of 128 bins of distance that a pair within 100 tokens may have: the first
    assert {row["distance_bin"] for row in read_csv(tmp_path / "out" / "head_distance.csv")} == {0}


@pytest.mark.parametrize("most", ["0", "-3", "5 %", "101%", "x", "%", "1" * 40])
def test_no_such_distance(qkscope, tmp_path, most):
    said = qkscope("plasticity", EXAMPLE, "-o", tmp_path / "out", "--max-distance", most)
    assert said.code in (1, 2) and "max-distance" in said.err and "tokens above 0, such as 2000" in said.err
    assert not (tmp_path / "out").exists()


def test_buckets_against_positions(qkscope, tmp_path):
    """Where later buckets have earlier positions, keys that are near are not neighbours."""
    rng = np.random.default_rng(5)
    columns = draw(rng, 2, 60, 4)
    columns["bucket"] = 20 - columns["bucket"]
    write_pair(tmp_path / "c", columns, columns)
    qkscope("plasticity", tmp_path / "c", "-o", tmp_path / "all", "--buckets", "capture", expect=0)
    said = qkscope("plasticity", tmp_path / "c", "-o", tmp_path / "out", "--buckets", "capture", "--max-distance", "50")
    assert said.code == 1 and "is in a later bucket than position" in said.err and "--buckets N" in said.err


# ---- sampled cells ---------------------------------------------------------------------------

def test_sampled(qkscope, tmp_path):
    """Above --max-pairs a cell's mean is one of a sample without replacement, and below it is
    exact."""
    limit, rng = 60, np.random.default_rng(8)
    for head in range(3):
        write_pair(tmp_path / "c", draw(rng, 8, 90, 8), draw(rng, 8, 90, 8), head=head)
    qkscope("plasticity", tmp_path / "c", "-o", tmp_path / "out", "--max-pairs", limit, "--q-per-kv-group", 1, expect=0)
    tables, off = read_tables(tmp_path / "out"), []
    for layer, head, q, k in head_pairs(tmp_path / "c", 1):
        truth = oracle.Plasticity(q, k)
        for name, cells, keys, ap in (
                ("head_profile.csv", truth.profile, ["q_bucket"], "ap"),
                ("head_bucket_plasticity.csv", truth.buckets, ["q_bucket", "k_bucket"],
                 "ap_bucket")):
            rows = of_head(tables[name], layer, head)
            for row, want in zip(rows, cells, strict=True):
                assert row["n_pairs"] == min(want["n_pairs"], limit)
                cell = tuple(want[key] for key in keys)
                values = truth.spread_pp[cell if len(cell) > 1 else cell[0]]
                if want["n_pairs"] <= limit:
                    assert row[ap] == pytest.approx(want[ap], rel=1e-9)
                    continue
                share = 1 - limit / len(values)
                off.append((row[ap] - want[ap]) / math.sqrt(values.var() * share / limit))
        distance = of_head(tables["head_distance.csv"], layer, head)
        profile = of_head(tables["head_profile.csv"], layer, head)
        assert sum(r["n_pairs"] for r in distance) == sum(r["n_pairs"] for r in profile)
        total = sum(r["n_pairs"] * r["ap"] for r in profile if r["ap"] is not None)
        assert sum(r["n_pairs"] * r["ap"] for r in distance) == pytest.approx(total, rel=1e-9)
    off = np.array(off)
    print(f"\n{len(off)} sampled cells, deviation in standard errors: mean {off.mean():.3f}, "
          f"sd {off.std():.3f}, worst {np.abs(off).max():.2f}")
    # Cells of one head share keys and are not independent, so the sd has some room.
    assert len(off) > 80 and np.abs(off).max() < 5 and 0.7 < off.std() < 1.3
    assert abs(off.mean()) < 0.5


def test_seed(qkscope, tmp_path):
    """The sample depends on the seed, and on nothing else."""
    rng = np.random.default_rng(9)
    write_pair(tmp_path / "c", draw(rng, 6, 60, 8), draw(rng, 6, 60, 8))
    results = []
    for i, seed in enumerate((0, 0, 1)):
        qkscope("plasticity", tmp_path / "c", "-o", tmp_path / str(i), "--seed", seed,
                "--max-pairs", 100, "--threads", i + 1, expect=0)
        results.append(read_bytes(tmp_path / str(i), *HEADERS))
    assert results[0] == results[1]
    assert results[0]["head_profile.csv"] != results[2]["head_profile.csv"]
    assert results[0]["head_component_weights.csv"] == results[2]["head_component_weights.csv"]


def test_limit_draws_nothing_below_it(qkscope, tmp_path):
    """A cell of exactly as many pairs as are allowed is not sampled."""
    rng = np.random.default_rng(3)
    for kind in "qk":
        columns = draw(rng, 1, 363, 3)
        columns["bucket"] = (columns["position"] >= 1900).astype(int) * 2
        write_rows(tmp_path / "c", head_name(0, 0, kind), columns)
    q, k = list(head_pairs(tmp_path / "c", 1))[0][2:]
    truth = oracle.Plasticity(q, k)
    count = truth.profile[0]["n_pairs"]
    for limit, same in ((count, True), (count - 1, False), (0, True)):
        qkscope("plasticity", tmp_path / "c", "-o", tmp_path / "out", "--max-pairs", limit,
                expect=0)
        row, = read_csv(tmp_path / "out" / "head_profile.csv")
        assert row["n_pairs"] == (count if same else limit)
        assert (row["ap"] == pytest.approx(truth.profile[0]["ap"], rel=1e-12)) == same
