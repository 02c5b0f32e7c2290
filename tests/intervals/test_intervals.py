# SPDX-License-Identifier: Apache-2.0
"""Intervals of all three analyses against the jackknife done by hand. `pytest -s` prints the
worst deviation of every column."""
import csv
import math

import numpy as np
import pytest
from conftest import EXAMPLE, Agreement, head_name, head_pairs, read_csv, write_rows

pytest.importorskip("pyarrow")
oracle = pytest.importorskip("intervals_oracle")

TABLES = {"pca": ("qk.csv", ("r_q", "r_k"), oracle.pca),
          "rotate": ("rotated.csv", ("r_q_a", "r_k_a", "alpha_q", "alpha_k", "bias_strength",
                                     "separation_strength", "bias_over_context"), oracle.rotation),
          "plasticity": ("head_metrics.csv", ("ap_overall", "ap_drop"), oracle.plasticity),
          "key_share": ("heads.csv", ("key_share",), oracle.key_share)}  # of pca
OVERALL = Agreement()


@pytest.fixture(scope="module", autouse=True)
def report_overall():
    yield
    OVERALL.check("worst of all captures")


def ends(names):
    """Columns of intervals; some are of the number itself, without a fitted axis."""
    return [f"{name}_{end}" for name in names
            for end in (("lo", "hi") if name.startswith(("ap_", "key_")) else ("cv", "lo", "hi"))]


def run(qkscope, command, capture, out, level, *more):
    """The table's rows of the heads (of PC0); intervals are its last columns, and leave the
    others as they are."""
    table, names, _ = TABLES[command]
    more = (*more, *(["--max-pairs", 0] if command == "plasticity" else []))
    command = "pca" if command == "key_share" else command
    qkscope(command, capture, "-o", out / "without", *more, expect=0)
    qkscope(command, capture, "-o", out, "--ci", level, *more,
            expect=0, timeout=600)
    lines = {}
    for folder in (out / "without", out):
        with open(folder / table, newline="") as file:
            lines[folder] = list(csv.reader(file))
    plain, full = lines[out / "without"], lines[out]
    assert full[0] == plain[0] + ends(names)
    assert [line[:len(plain[0])] for line in full] == plain
    rows = read_csv(out / table)
    for row in rows:
        if row.get("pc", 0) > 0:
            assert all(row[end] is None for end in ends(names))
    return [row for row in rows if row.get("pc", 0) == 0]


def compare(qkscope, command, capture, out, group, title, level=95, more=(), every=1):
    """By hand each head takes as many analyses as it has groups of texts: of many heads, one of `every` is."""
    rows = run(qkscope, command, capture, out, level, *more)
    names, compute = TABLES[command][1:]
    seen = Agreement()
    for i, ((layer, head, q, k), row) in enumerate(zip(head_pairs(capture, group), rows)):
        place = f"{title} {head_name(layer, head, 'q')}"
        assert (row["layer"], row["q_head"]) == (layer, head)
        if i % every:
            continue
        want = compute(q, k, level)
        for name in names:
            low, high = want[f"{name}_lo"], want[f"{name}_hi"]
            # An end may lie near 0; what it is good for is the width of the interval.
            width = None if low is None else high - low
            for column in ends([name]):
                seen.add(column, row[column], want[column], place, width)
            if low is not None:
                middle = row.get(f"{name}_cv", row[name])
                assert row[f"{name}_lo"] <= middle <= row[f"{name}_hi"], place
    OVERALL.merge(seen)
    seen.check(f"{command} {title}")
    return rows


# ---- the oracle itself -----------------------------------------------------------------------

def test_oracle_mean():
    """One row a text and as many groups as texts: the jackknife of a mean is its standard
    error."""
    rng = np.random.default_rng(1)
    rows = {"example_id": np.arange(20), "x": rng.standard_normal(20), "position": np.arange(20) % 2}
    got = oracle.intervals(rows, rows, lambda q, k: {"m": q["x"].mean()},
                           {"m": rows["x"].mean()}, ["m"], 95)
    reach = 2.093024054408263 * rows["x"].std(ddof=1) / math.sqrt(20)
    assert got["m_hi"] - got["m_lo"] == pytest.approx(2 * reach, rel=1e-12)
    assert (got["m_hi"] + got["m_lo"]) / 2 == pytest.approx(rows["x"].mean(), rel=1e-12)


def test_oracle_groups():
    """Where all ids fit they are a group each, keys' and queries'; else their last bits count."""
    q, k = {"example_id": np.array([0, 5, 6, 8, 11])}, {"example_id": np.array([8, 5, 8, 12])}
    assert [g.tolist() if hasattr(g, "tolist") else g for g in oracle.groups_of(q, k)] == [
        [0, 1, 2, 3, 4], [3, 1, 3, 5], 6]
    many = {"example_id": np.arange(70) * 8 - 16}
    assert oracle.groups_of(many, many)[0].tolist() == [(i - 2) % 32 for i in range(70)]
    q = {"example_id": np.array([1, 3, 9, 11, -7])}
    assert oracle.groups_of(q, q, 3)[0].tolist() == [0, 1, 0, 1, 0]


# ---- captures --------------------------------------------------------------------------------

HEAD = ["--layers", 0, "--heads", 0]


@pytest.mark.parametrize("command, level", [("pca", 95), ("rotate", 50), ("plasticity", 99.9), ("key_share", 80)])
def test_a_head_of_the_example(qkscope, tmp_path, command, level):
    compare(qkscope, command, EXAMPLE, tmp_path, 2, f"a head of the example, {level} %", level, HEAD)


@pytest.mark.test_all
@pytest.mark.sample(2)
@pytest.mark.parametrize("command", TABLES)
@pytest.mark.parametrize("writer", ["of the example", "arrow-rs"])
def test_real_capture(qkscope, shared_data, tmp_path, command, writer):
    """200 texts in 32 groups."""
    capture = EXAMPLE if writer == "of the example" else shared_data("kjv-tiny-capture") / writer
    compare(qkscope, command, capture, tmp_path, 2, f"kjv-tiny-capture {writer}",
            more=["--q-per-kv-group", 2], every=3)


# ---- made-up texts ---------------------------------------------------------------------------

def draw(rng, ids, rows, d=5):
    example = np.repeat(ids, rows)
    n = len(example)
    position = np.concatenate([rng.choice(1000, rows, replace=False) for _ in ids])
    topic = {i: rng.standard_normal(d) for i in ids}
    x = rng.standard_normal((n, d)) + np.array([topic[i] for i in example])
    x += np.outer(position / 500, np.arange(d)) + 1
    return {"vector": x.astype(np.float32), "position": position, "example_id": example,
            "bucket": position // 100}


def shuffled(rng, columns):
    order = rng.permutation(len(columns["position"]))
    return {name: values[order] for name, values in columns.items()}


TEXTS = {
    "two texts": ([1, 2], [1, 2]),
    "ids with gaps": ([3, 70, 71, 500, -9], [3, 70, 71, 500, -9]),
    "texts without keys": ([1, 2, 3, 4, 5, 6], [2, 4, 6]),
    "last texts without queries": ([1, 4], [1, 2, 3, 4, 8]),
    "far ids": ([-2 ** 40, 0, 2 ** 40], [-2 ** 40, 0, 2 ** 40]),
    "33 texts": (range(33), range(33)),
    "one dimension": (range(6), range(6)),
    "50 texts and 3 queries": ([7, 8, 9], list(range(50))),
    "far means and positions": (range(10), range(10)),
    "no drift": (range(10), range(10)),
    "windows": (range(10), range(10)),
}


def texts_of(name, ids, rng):
    columns = draw(rng, list(ids), 12 if len(ids) > 30 else 25)
    if name == "one dimension":
        columns["vector"] = columns["vector"][:, 1:2]
    elif name.startswith("far means"):
        columns["vector"] += 1000
        columns["position"] += 1000000
        columns["bucket"] = columns["position"] // 100 - 10000
    elif name == "no drift":
        columns["position"] = rng.permutation(columns["position"])
        columns["bucket"] = columns["position"] // 100
    elif name == "windows":
        columns["sliding_window"] = np.full(len(columns["position"]), 300)
    return shuffled(rng, columns)


@pytest.mark.cases(6)
@pytest.mark.parametrize("command", TABLES)
@pytest.mark.parametrize("name", TEXTS)
def test_texts(qkscope, tmp_path, name, command):
    rng = np.random.default_rng(list(name.encode()))
    for kind, ids in zip("qk", TEXTS[name]):
        write_rows(tmp_path / "c", head_name(0, 0, kind), texts_of(name, ids, rng))
    compare(qkscope, command, tmp_path / "c", tmp_path / "out", 1, name)


@pytest.mark.parametrize("long, told", [(50, True), (400, False)])
def test_texts_of_unequal_length(qkscope, tmp_path, long, told):
    """Degrees of freedom are those of the texts that count; where two of twelve carry most, there is no interval."""
    rng = np.random.default_rng(long)
    example = np.concatenate([np.repeat(np.arange(10), 40), np.repeat([10, 11], long)])
    at = np.concatenate([*[np.arange(40)] * 10, *[np.arange(long)] * 2])
    for kind in "qk":
        x = rng.standard_normal((len(at), 4)) + rng.standard_normal((12, 4))[example]
        x[:, 0] += at / 10 * (1 + 0.3 * rng.standard_normal(12)[example])
        write_rows(tmp_path / "c", head_name(0, 0, kind),
                   {"vector": x.astype(np.float32), "position": at, "example_id": example})
    for command in ("pca", "rotate"):
        [row] = compare(qkscope, command, tmp_path / "c", tmp_path / command, 1, f"two texts of {long}")
        assert all((row[end] is not None) == told for end in ends(TABLES[command][1]) if not end.endswith("cv"))


def test_a_repetition_without_the_number(qkscope, tmp_path):
    """Only the first of two texts has keys at more than one position: without it there is no
    slope, and so no interval of it."""
    rng = np.random.default_rng(4)
    for kind in "qk":
        columns = draw(rng, [0, 1], 30)
        columns["position"][columns["example_id"] == 1] = 100
        write_rows(tmp_path / "c", head_name(0, 0, kind), columns)
    row, = run(qkscope, "rotate", tmp_path / "c", tmp_path / "out", 95)
    assert row["alpha_k"] is not None
    for name in ("alpha_k", "bias_strength"):
        assert row[f"{name}_lo"] is None and row[f"{name}_hi"] is None


@pytest.mark.parametrize("command", ["pca", "rotate"])
def test_correlation_of_one(qkscope, tmp_path, command):
    """Its transform is infinite: no interval."""
    for kind in "qk":
        columns = draw(np.random.default_rng(3), list(range(6)), 20)
        columns["vector"] = np.outer(columns["position"], [1.0, 2, 3])
        write_rows(tmp_path / "c", head_name(0, 0, kind), columns)
    row, = run(qkscope, command, tmp_path / "c", tmp_path / "out", 95)
    names = [name for name in TABLES[command][1] if name.startswith("r_")]
    for name in names:
        assert row[name] == pytest.approx(1)
    for end in ends(names):
        assert row[end] is None or 1 - 1e-6 < row[end] <= 1


@pytest.mark.parametrize("command", TABLES)
def test_one_text(qkscope, tmp_path, command):
    """No repetition to learn from: empty fields."""
    for kind in "qk":
        write_rows(tmp_path / "c", head_name(0, 0, kind), draw(np.random.default_rng(7), [5], 80))
    names = TABLES[command][1]
    rows = run(qkscope, command, tmp_path / "c", tmp_path / "out", 95)
    assert rows and all(row[end] is None for row in rows for end in ends(names))
    assert all(row[name] is not None for row in rows for name in names)


def test_intervals_are_of_texts_not_of_rows(qkscope, tmp_path):
    """Every row eight times over knows no more than the row: the interval stays."""
    rng = np.random.default_rng(5)
    once = {kind: draw(rng, list(range(20)), 10) for kind in "qk"}
    widths = []
    for copies in (1, 8):
        for kind, columns in once.items():
            write_rows(tmp_path / str(copies), head_name(0, 0, kind),
                       {name: np.repeat(v, copies, axis=0) for name, v in columns.items()}, repeats=True)
        out = tmp_path / f"out {copies}"
        qkscope("pca", tmp_path / str(copies), "-o", out, "--ci", 95, "--allow-repeats", expect=0)
        row = read_csv(out / "qk.csv")[0]
        widths.append(row["r_k_hi"] - row["r_k_lo"])
    assert widths[0] == pytest.approx(widths[1], rel=0.02)


@pytest.mark.test_all
def test_coverage(qkscope, tmp_path):
    """Of intervals of 80 % of 300 heads with the same truth, about 80 % hold it. The texts
    differ: each has its own shift along the drift, so that rows of one text are alike."""
    rng = np.random.default_rng(6)
    capture, truth, d = tmp_path / "c", 0.004, 3
    for head in range(300):
        for kind in "qk":
            ids = np.repeat(np.arange(24), 12)
            position = rng.integers(0, 1000, len(ids))
            x = 0.3 * rng.standard_normal((len(ids), d))
            slope = truth + 0.002 * rng.standard_normal(24)[ids]
            x[:, 0] += rng.standard_normal(24)[ids] + slope * (position - 500)
            write_rows(capture, head_name(0, head, kind),
                       {"vector": x, "position": position, "example_id": ids,
                        "bucket": position // 100}, use_dictionary=False)
    qkscope("rotate", capture, "-o", tmp_path / "out", "--ci", 80, "--q-per-kv-group", 1, expect=0)
    rows = read_csv(tmp_path / "out" / "rotated.csv")
    held = np.mean([row["alpha_k_lo"] <= truth <= row["alpha_k_hi"] for row in rows])
    print(f"\ncoverage of 80 % intervals: {100 * held:.1f} %")
    assert 0.72 < held < 0.88
