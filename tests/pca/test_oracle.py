# SPDX-License-Identifier: Apache-2.0
"""qk.csv and heads.csv against the NumPy oracle, on real and made-up captures. `pytest -s`
prints the worst deviation of every column."""
import math
import re
from collections import defaultdict

import numpy as np
import pytest
from conftest import EXAMPLE, head_name, read_bytes, read_csv, read_head, write_head

mpmath = pytest.importorskip("mpmath")
pytest.importorskip("pyarrow")
oracle = pytest.importorskip("pca_oracle")

LIMITS = {"r_q": 1e-9, "r_k": 1e-9, "p_q": 1e-6, "p_k": 1e-6}
LIMIT = 1e-9
# Below this share of the largest eigenvalue a variance is rounding, for any method.
NOISE = 1e-13


class Worst:
    """Largest deviation per column, and where."""

    def __init__(self):
        self.seen = defaultdict(lambda: (0.0, ""))

    def add(self, column, deviation, place):
        assert not math.isnan(deviation), (column, place)
        self.seen[column] = max(self.seen[column], (float(deviation), place))

    def check(self, title):
        print(f"\n{title}:")
        for column, (deviation, place) in self.seen.items():
            print(f"  {column:22} {deviation:9.2e}  {place}")
        bad = {c: v for c, v in self.seen.items() if v[0] > LIMITS.get(c.split()[0], LIMIT)}
        assert not bad, bad


OVERALL = Worst()


@pytest.fixture(scope="module", autouse=True)
def report_overall():
    yield
    OVERALL.check("worst of all captures")


# ---- comparing -------------------------------------------------------------------------------

def off(value, expected, scale):
    """|value - expected| in units of scale; both or neither undefined."""
    if value is None or expected is None:
        assert value is None and expected is None, (value, expected)
        return 0.0
    return abs(value - expected) / scale if value != expected else 0.0


def p_deviation(p, r, n):
    """Relative error of p as the p-value of the r printed beside it. r itself is rounded to 53
    bits, which near |r| = 1 is worth more than the arithmetic."""
    expected = oracle.p_value(r, n)
    if expected < mpmath.mpf("1e-300"):
        assert p <= 1.1e-300
        return 0.0
    rounding = np.finfo(float).eps * (n - 2) / max((1 - abs(r)) * (1 + abs(r)), 1e-300)
    error = float(abs(p / expected - 1))
    return error if error < 1e-8 else max(0.0, error - rounding)


def scales(truth):
    """What an error of one radian in a component is worth in each column; a slope as small as
    a thousandth of the spread is as good as none."""
    sizes = {}
    for mean, slope, kind in (("mu_q", "alpha", truth.q), ("mu_k", "beta", truth.k)):
        sd, sd_t = math.sqrt(kind.trace), math.sqrt(kind.var_t) or 1.0
        sizes[mean] = math.hypot(np.linalg.norm(kind.mean), sd)
        sizes[slope] = math.hypot(np.linalg.norm(kind.c) / sd_t, 1e-3 * sd) / sd_t
    return {name: size or 1.0 for name, size in sizes.items()}


def compare_component(row, want, truth, worst, place):
    size = scales(truth)
    worst.add("explained_variance",
              off(row["explained_variance"], want["explained_variance"],
                  want["explained_variance"]), place)
    for name in ("r_q", "r_k"):
        worst.add(name, off(row[name], want[name], 1), place)
    for name in ("mu_q", "mu_k", "alpha", "beta"):
        worst.add(name, off(row[name], want[name], size[name]), place)
    for name in ("sd_q", "sd_k"):
        # A kind may hardly vary along an axis on which the other one does.
        floor = 1e-6 * math.sqrt(truth.values[0])
        worst.add(name, off(row[name], want[name], max(want[name], floor)), place)


def sign_is_open(want):
    """The rule for the sign is about to change its mind."""
    r_q, r_k = want["r_q"], want["r_k"]
    return abs(abs(r_q) - 0.05) < 1e-9 or (abs(r_q) < 0.05 and abs(r_k) < 1e-9)


def compare_subspace(rows, members, truth, worst, place):
    """Components with equal eigenvalues: axes may be turned among each other, but the numbers
    are projections of four fixed vectors, whose inner products within the space are not."""
    total = sum(truth.rows[i]["explained_variance"] for i in members)
    worst.add("explained_variance tied",
              abs(sum(rows[i]["explained_variance"] for i in members) - total) / total, place)
    size = scales(truth)
    names = [n for n in size if rows[members[0]][n] is not None]
    got, want = (np.array([[r[n] / size[n] for n in names] for r in
                           (source[i] for i in members)]) for source in (rows, truth.rows))
    worst.add("inner products tied", np.abs(got.T @ got - want.T @ want).max(), place)
    for name in ("sd_q", "sd_k"):
        expected = math.fsum(truth.rows[i][name] ** 2 for i in members)
        value = math.fsum(rows[i][name] ** 2 for i in members)
        worst.add(name + " tied", off(value, expected, max(expected, 1e-9 * truth.values[0])),
                  place)


def check_row_itself(row, truth, worst, place):
    """What holds between the columns of one row, whichever axis it stands for. A kind that
    hardly varies along it has no digits to compare."""
    assert row["r_q"] >= 0 or (abs(row["r_q"]) < 0.05 and row["r_k"] >= 0), place
    for kind, slope, rows in (("q", "alpha", truth.q), ("k", "beta", truth.k)):
        r, sd, n = row[f"r_{kind}"], row[f"sd_{kind}"], row[f"n_{kind}"]
        assert n == rows.n and -1 <= r <= 1
        worst.add(f"p_{kind}", p_deviation(row[f"p_{kind}"], r, n), place)
        if row[slope] is None:
            assert r == 0 and row[f"p_{kind}"] == 1 and rows.var_t == 0
        elif sd > 1e-7 * math.sqrt(truth.values[0]):
            from_slope = row[slope] * math.sqrt(rows.var_t) / sd
            worst.add("r from slope", abs(r - from_slope), place)


def compare_head(head, rows, truth, exact, worst, place):
    """heads.csv: against qk.csv in any case, and against the oracle where PC0 is unique."""
    first = rows[0]
    distance = first["mu_q"] - first["mu_k"]
    assert head["category"] == oracle.category(first["r_q"], first["r_k"]), place
    assert head["ev0"] == first["explained_variance"]
    reach = max(scales(truth)[name] for name in ("mu_q", "mu_k"))
    worst.add("separation", off(head["separation"], abs(distance), reach), place)
    if first["beta"] is not None:
        bias = first["mu_q"] * first["beta"]
        worst.add("mu_q_beta", off(head["mu_q_beta"], bias, abs(bias) or 1), place)
    for name in ("n_q", "n_k", "d"):
        assert head[name] == truth.head[name]
    for name in ("lin_var_q", "lin_var_k", "positional_overhead"):
        worst.add(name, off(head[name], truth.head[name], max(truth.head[name] or 1, 1e-6)),
                  place)
    worst.add("key_share", off(head["key_share"], truth.head["key_share"], 1), place)
    if truth.held is None:
        assert head["score_rank"] is None
    else:
        assert int((truth.held < 0.9 - 1e-9).sum()) < head["score_rank"] <= int((truth.held < 0.9 + 1e-9).sum()) + 1, place
    for kind in "qk":
        worst.add(f"pos_var_{kind}", abs(head[f"pos_var_{kind}"] - math.fsum(
            row["explained_variance"] * row[f"r_{kind}"] ** 2 for row in rows)), place)
    if not exact:
        return
    want = truth.head
    if min(abs(abs(truth.rows[0][r]) - limit) for r in ("r_q", "r_k")
           for limit in (oracle.LOW, oracle.HIGH)) > 1e-9:
        assert head["category"] == want["category"], place
    spread = truth.rows[0]["sd_q"] ** 2 + truth.rows[0]["sd_k"] ** 2
    slope = scales(truth)
    units = {"ev0": want["ev0"], "pos_var_q": 1, "pos_var_k": 1, "pos_var_q_pc0_share": 1,
             "separation": reach, "mu_q_beta": slope["mu_q"] * slope["beta"],
             "alpha_beta": slope["alpha"] * slope["beta"],
             # a small difference of large means keeps fewer digits
             "fisher": reach * (abs(distance) + 1e-9 * reach) / spread if spread else 1}
    for name, unit in units.items():
        if name == "pos_var_q_pc0_share" and want["pos_var_q"] < 1e-12:
            continue
        worst.add(name, off(head[name], want[name], unit), place)


def compare_lda(head, truth):
    """Rows right on the line may fall to either side."""
    if head["lda_accuracy"] is None:
        return
    margins = truth.margins
    sure, open_ = (margins > 1e-9).sum(), (np.abs(margins) <= 1e-9).sum()
    right = head["lda_accuracy"] * len(margins)
    assert abs(right - round(right)) < 1e-6
    assert sure <= round(right) <= sure + open_, (right, sure, open_)


def load_all(folder, group):
    cache = {}

    def rows_of(name):
        if name not in cache:
            cache[name] = read_head(folder, name)
        return cache[name]

    for path in sorted(folder.iterdir()):
        match = re.fullmatch(r"l(\d+)h(\d+)q", path.name)
        if match:
            layer, head = map(int, match.groups())
            key = head_name(layer, head // group, "k")
            yield layer, head, rows_of(path.name) + rows_of(key)


def check_capture(qkscope, folder, out, group, title, components=10, lda=True, options=()):
    """Runs the program on a capture and compares both tables with the oracle."""
    arguments = ["pca", folder, "-o", out, "--components", components, *options]
    qkscope(*arguments, *(["--lda"] if lda else []), expect=0)
    table, heads = read_csv(out / "qk.csv"), read_csv(out / "heads.csv")
    by_head = defaultdict(list)
    for row in table:
        by_head[row["layer"], row["q_head"]].append(row)
    assert [(r["layer"], r["q_head"], r["pc"]) for r in table] == sorted(
        (r["layer"], r["q_head"], r["pc"]) for r in table)
    worst, count = Worst(), 0
    for (layer, q_head, data), head in zip(load_all(folder, group), heads):
        place = f"{title} {head_name(layer, q_head, 'q')}"
        rows = by_head[layer, q_head]
        truth = oracle.Combined(*data, components=components, lda=lda)
        assert (head["layer"], head["q_head"]) == (layer, q_head)
        assert head["k_head"] == q_head // group
        assert [row["pc"] for row in rows] == list(range(len(truth.rows))), place
        compare_one(rows, head, truth, worst, place, lda)
        count += 1
    assert count == len(heads) > 0 and sum(map(len, by_head.values())) == len(table)
    for column, (deviation, place) in worst.seen.items():
        OVERALL.add(column, deviation, place)
    worst.check(title)


def compare_one(rows, head, truth, worst, place, lda):
    first_is_alone = False
    for members, complete in truth.groups():
        if truth.values[members[0]] < NOISE * truth.values[0]:
            for i in members:
                assert rows[i]["explained_variance"] < 1e-12, place
                assert rows[i]["r_q"] == 0 and rows[i]["p_q"] == 1, (place, rows[i])
                assert rows[i]["r_k"] == 0 and rows[i]["p_k"] == 1, (place, rows[i])
            continue
        for i in members:
            check_row_itself(rows[i], truth, worst, f"{place} pc{i}")
        if complete and len(members) > 1:
            compare_subspace(rows, members, truth, worst, f"{place} pc{members[0]}")
        elif complete:
            i = members[0]
            if sign_is_open(truth.rows[i]) and rows[i]["mu_q"] * truth.rows[i]["mu_q"] < 0:
                truth.flip(i)
            compare_component(rows[i], truth.rows[i], truth, worst, f"{place} pc{i}")
            first_is_alone |= i == 0
    compare_head(head, rows, truth, first_is_alone, worst, place)
    if lda and first_is_alone and len(truth.axes) > 1:
        compare_lda(head, truth)


# ---- real captures ---------------------------------------------------------------------------

def test_two_layers_of_the_example(qkscope, tmp_path):
    check_capture(qkscope, EXAMPLE, tmp_path / "out", 2, "examples/kjv-tiny-capture", options=["--layers", "0,1"])


@pytest.mark.test_all
def test_example_capture(qkscope, tmp_path):
    check_capture(qkscope, EXAMPLE, tmp_path / "out", 2, "examples/kjv-tiny-capture")


@pytest.mark.test_all
def test_real_capture(qkscope, shared_data, tmp_path):
    """The same rows by two writers: the same bytes, so one of them is compared."""
    tables = []
    for writer in ("duckdb", "arrow-rs"):
        folder, out = shared_data("kjv-tiny-capture") / writer, tmp_path / writer
        qkscope("pca", folder, "-o", out, "--lda", "--q-per-kv-group", 2, expect=0)
        tables.append(read_bytes(out, "qk.csv", "heads.csv"))
    assert tables[0] == tables[1]
    check_capture(qkscope, folder, tmp_path / "out", 2, "kjv-tiny-capture/arrow-rs")


# ---- made-up captures ------------------------------------------------------------------------

def draw(rng, n, d, first_position=0, spacing=3.0, offset=1.0, drift=1.0, decay=1.0,
         basis=None, dtype=np.float32):
    """Rows around a mean, with a spectrum that falls and a drift along several axes."""
    position = first_position + np.sort(rng.choice(max(int(n * spacing), n), n, replace=False))
    scale = np.exp(-decay * np.arange(d) / d)
    if basis is None:
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    z = rng.standard_normal((n, d))
    t = position - position.mean()
    t /= t.std() or 1.0
    z += drift * np.outer(t, rng.standard_normal(d) * rng.choice([0, 0.1, 0.5, 1.5], d))
    x = offset * rng.standard_normal(d) + (z * scale) @ basis
    return x.astype(dtype), position


def bfloat16(x, t):
    return (x.view(np.uint32) + 0x8000 & 0xFFFF0000).astype(np.uint32).view(np.float32), t


def write_pairs(root, rng, n_q, n_k, d, layers=1, kv=1, group=1, change=None, shards=1,
                writing=None, **drawing):
    """A capture of kv * group query heads a layer; change(x, t) has the last word on rows."""
    for layer in range(layers):
        for kind, heads, n in (("q", kv * group, n_q), ("k", kv, n_k)):
            for head in range(heads):
                x, t = draw(rng, n, d, **drawing)
                if change:
                    x, t = change(x, t)
                write_head(root, head_name(layer, head, kind), x, t, shards, **(writing or {}))


def outlier(x, t):
    x = x.copy()
    x[0] *= 1e4
    return x, t


def hold_some(x, t):
    """Half of the dimensions say nothing."""
    x = x.copy()
    x[:, ::2] = np.float32(0.1)
    return x, t


def follow_position(x, t):
    """Rows on a straight line: r = 1 and nothing else."""
    line = np.outer(t, np.arange(1, x.shape[1] + 1)).astype(np.float32)
    return line, t


CASES = {
    "d8-n2": dict(n_q=2, n_k=2, d=8),
    "d8-n4": dict(n_q=4, n_k=3, d=8, layers=3),
    "d32-n10": dict(n_q=10, n_k=10, d=32, layers=2, kv=2, group=2),
    "d64-n129": dict(n_q=129, n_k=128, d=64, kv=2, group=3),
    "d128-n3000-bfloat16": dict(n_q=3000, n_k=3000, d=128, change=bfloat16),
    "d256-n1000": dict(n_q=1000, n_k=1000, d=256, kv=1, group=2),
    "d32-n100000": dict(n_q=100000, n_k=100000, d=32, writing=dict(row_group_size=8192)),
    "d32-unequal": dict(n_q=5, n_k=8000, d=32),
    "positions-near-2^31": dict(n_q=1000, n_k=1000, d=32, first_position=2 ** 31 - 1000,
                                spacing=1),
    "positions-int64": dict(n_q=1000, n_k=1000, d=32, first_position=5 * 10 ** 12, spacing=1),
    "means-1000-sd-float64": dict(n_q=8000, n_k=1000, d=64, offset=1000, dtype=np.float64),
    "outlier-first": dict(n_q=1000, n_k=1000, d=64, change=outlier),
    "float16": dict(n_q=1000, n_k=1000, d=80, dtype=np.float16),
    "more-shards-than-rows": dict(n_q=5, n_k=4, d=8, shards=7),
    "no-drift": dict(n_q=1000, n_k=1000, d=32, layers=6, drift=0),
    "constant-dimensions": dict(n_q=200, n_k=200, d=12, change=hold_some),
    "rows-on-a-line": dict(n_q=200, n_k=100, d=8, change=follow_position),
    "steep-spectrum": dict(n_q=1000, n_k=1000, d=64, decay=6),
}
COMPONENTS = {"constant-dimensions": 12, "rows-on-a-line": 8, "d64-n129": 100,
              "outlier-first": 64}


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", CASES)
def test_made_up(qkscope, tmp_path, name):
    import pyarrow as pa
    case = dict(CASES[name])
    writing = dict(case.pop("writing", {}))
    if case.get("first_position", 0) > 2 ** 30 or name == "d32-n10":
        writing["position_type"] = pa.int64()
    rng = np.random.default_rng(list(name.encode()))
    write_pairs(tmp_path / "c", rng, writing=writing, **case)
    group = case.get("group", 1)
    check_capture(qkscope, tmp_path / "c", tmp_path / "out", group, name,
                  COMPONENTS.get(name, 10))


@pytest.mark.parametrize("group", [1, 3])
def test_group_sizes(qkscope, tmp_path, group):
    """Given: several sizes fit a single key head."""
    rng = np.random.default_rng(group)
    write_pairs(tmp_path / "c", rng, 60, 50, 8, layers=2, kv=2, group=group)
    check_capture(qkscope, tmp_path / "c", tmp_path / "out", group, f"group {group}",
                  options=["--q-per-kv-group", group])
    assert {(r["q_head"], r["k_head"]) for r in read_csv(tmp_path / "out" / "heads.csv")} == {
        (q, q // group) for q in range(2 * group)}


# ---- equal eigenvalues -----------------------------------------------------------------------

def hadamard(order):
    h = np.ones((1, 1))
    while len(h) < order:
        h = np.block([[h, h], [h, -h]])
    return h


def rows_with(lengths, copies, rng):
    """+- rows of a Hadamard matrix: the covariance has exactly the eigenvalues lengths^2 (up to
    a common factor), each axis turned away from the coordinates."""
    h = hadamard(len(lengths)) * np.asarray(lengths)[:, None]
    x = np.concatenate([h, -h] * copies)
    return x[rng.permutation(len(x))].astype(np.float64)


@pytest.mark.parametrize("lengths, components", [("equal", 4), ("near", 16), ("pairs", 10), ("blocks", 10)])
def test_equal_eigenvalues(qkscope, tmp_path, lengths, components):
    values = {"equal": np.ones(16),
              "blocks": np.repeat([3.0, 2.0, 1.0], [4, 6, 6]),
              "near": 1 + 1e-9 * np.arange(16),
              "pairs": np.repeat(np.arange(8, 0, -1.0), 2) * (1 + 1e-13)}[lengths]
    rng = np.random.default_rng(len(lengths))
    for kind, copies in (("q", 3), ("k", 2)):
        x = rows_with(values, copies, rng)
        write_head(tmp_path / "c", head_name(0, 0, kind), x, rng.permutation(len(x)) * 7)
    check_capture(qkscope, tmp_path / "c", tmp_path / "out", 1, f"eigenvalues {lengths}",
                  components)


# ---- p-values --------------------------------------------------------------------------------

def test_p_values_down_to_underflow(qkscope, tmp_path):
    """Heads whose p_q on PC0 lie evenly between 1 and 10^-340, below the smallest double."""
    rng = np.random.default_rng(5)
    n, seen = 400, []
    write = tmp_path / "c"
    for head, zeros in enumerate(np.linspace(0.1, 340, 18)):
        r = math.sqrt(1 - 10 ** (-2 * zeros / (n - 2)))
        for kind in "qk":
            t = np.arange(n)
            u = (t - t.mean()) / t.std()
            noise = rng.standard_normal((n, 3))
            noise -= np.outer(u, u @ noise) / n
            noise -= noise.mean(axis=0)
            x = noise / noise.std(axis=0) * [1, 0.5, 0.1]
            x[:, 0] = r * u + math.sqrt(1 - r * r) * x[:, 0]
            write_head(write, head_name(0, head, kind), x * 3 + 1, t)
    check_capture(qkscope, write, tmp_path / "out", 1, "p-values", lda=False)
    for row in read_csv(tmp_path / "out" / "qk.csv"):
        seen += [row["p_q"], row["p_k"]]
    decades = {int(-math.log10(p)) // 20 for p in seen if p > 0}
    assert decades >= set(range(16)), sorted(decades)
    assert min(seen) == 0
