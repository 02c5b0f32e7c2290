# SPDX-License-Identifier: Apache-2.0
"""How sure categories are: probabilities of categories, texts and r_q_width of heads.csv against a
jackknife and a bootstrap over texts done by hand, and what a run says about few rows and few texts."""
import itertools
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
from conftest import EXAMPLE, capture_table, head_name, head_pairs, read_bytes, read_csv, write_rows, write_table

pa = pytest.importorskip("pyarrow")
sys.path.insert(0, str(Path(__file__).parent))
from pca_oracle import Combined, Rows, axes_of, category, center  # noqa: E402

GROUPS = 16
CATEGORIES = ["position-dominated", "Q-positional", "K-positional", "content-focused", "mixed"]
COLUMNS = [f"probability_{name.lower().replace('-', '_')}" for name in CATEGORIES]


# ---- the definition --------------------------------------------------------------------------

def group_labels(ids):
    """Ids in their last bits: all 64, or as many as leave no more than GROUPS groups."""
    bits = np.asarray(ids, np.int64).view(np.uint64)
    for kept in range(64, -1, -1):
        labels = bits & np.uint64((1 << kept) - 1)
        if len(np.unique(labels)) <= GROUPS:
            return labels
    raise AssertionError


def effective(position, labels):
    """As many texts of equal length know as much, by the groups' shares of the spread of positions; and groups."""
    far = (np.asarray(position, float) - np.mean(position)) ** 2
    share = np.array([far[labels == label].sum() for label in np.unique(labels)])
    found = share.sum() ** 2 / max((share ** 2).sum(), 1e-300)
    return (len(share) if found > len(share) - 0.5 else found), len(share)


def width_of(r, values, known):
    """Of the 95 % interval of a correlation, from its replicates and how many of them count."""
    known, g = known
    if len(values) < 2 or known < (g if g < 8 else (g + 16) / 3) or abs(r) == 1 or any(v is None or abs(v) == 1 for v in values):
        return None
    z, g = np.arctanh(values), len(values)
    se = math.sqrt((g - 1) / g * float(((z - z.mean()) ** 2).sum()))
    reach = scipy.stats.t.ppf(0.975, known - 1) * se
    return math.tanh(math.atanh(r) + reach) - math.tanh(math.atanh(r) - reach)


def along(rows, axis, kept):
    return Rows(rows["vector"][kept], rows["position"][kept]).along(axis)[3] if kept.any() else None


def student(z, covariance, degrees):
    """Probability of each category where (z_q, z_k) has a bivariate t distribution: along z_q by
    adaptive quadrature, z_k by its conditional distribution."""
    edges = [-np.inf, *np.arctanh([-0.7, -0.3, 0.3, 0.7]), np.inf]
    middle = [0.85, 0.5, 0, 0.5, 0.85]
    s_q = math.sqrt(covariance[0][0])
    slope = covariance[0][1] / covariance[0][0]
    rest = covariance[1][1] - slope * covariance[0][1]
    peak = scipy.stats.t.pdf(0, degrees)
    found = dict.fromkeys(CATEGORIES, 0)
    for j, k in itertools.product(range(5), range(5)):
        def density(t):
            scale = math.sqrt(rest * (degrees + t * t) / (degrees + 1))
            ends = (np.array(edges[k:k + 2]) - z[1] - slope * s_q * t) / scale
            near = scipy.special.stdtr(degrees + 1, ends)
            return peak * (1 + t * t / degrees) ** (-(degrees + 1) / 2) * (near[1] - near[0])
        ends = np.clip((np.array(edges[j:j + 2]) - z[0]) / s_q, -300, 300)
        parts = np.unique(np.clip([-300, -30, -5, -1, 1, 5, 30, 300], *ends))
        found[category(middle[j], middle[k])] += sum(
            scipy.integrate.quad(density, *part, epsabs=1e-12)[0] for part in itertools.pairwise(parts))
    return found


def group_sums(columns, labels, groups):
    """Of each group: n, sums of t, t^2, x, x t, x x^T."""
    x, t = np.asarray(columns["vector"], float), np.asarray(columns["position"], float)
    x, t = x - x.mean(0), t - t.mean()
    return [np.array([*[(labels == g).sum(), t[labels == g].sum(), (t[labels == g] ** 2).sum()],
                      *x[labels == g].sum(0), *(t[labels == g] @ x[labels == g]),
                      *(x[labels == g].T @ x[labels == g]).ravel()]) for g in groups]


def moments(sums, d):
    n, t, tt = sums[:3]
    x, xt, xx = sums[3:3 + d], sums[3 + d:3 + 2 * d], sums[3 + 2 * d:].reshape(d, d)
    return (xx / n - np.outer(x, x) / n ** 2, xt / n - x * t / n ** 2, tt / n - (t / n) ** 2,
            x / n, n)


def pooled(q, k, d, gap_of_means):
    (q_cov, *_, q_mean, n_q), (k_cov, *_, k_mean, n_k) = moments(q, d), moments(k, d)
    between = q_mean - k_mean + gap_of_means
    n = n_q + n_k
    return n_q / n * q_cov + n_k / n * k_cov + n_q * n_k / n ** 2 * np.outer(between, between)


def drawn(q, k, labels_q, labels_k, groups, known, draws=600):
    """Probability of each category by drawing groups anew, in all dimensions (pca.md)."""
    d, count = len(q["vector"][0]), len(groups)
    sums_q, sums_k = group_sums(q, labels_q, groups), group_sums(k, labels_k, groups)
    step = np.mean(np.asarray(q["vector"], float), 0) - np.mean(np.asarray(k["vector"], float), 0)
    all_q, all_k = sum(sums_q), sum(sums_k)
    values, axes = np.linalg.eigh(pooled(all_q, all_k, d, step))
    def gap_of(a, b):
        found = np.linalg.eigvalsh(pooled(a, b, d, step))
        return math.log(found[-1] / found[-2])
    without = np.array([gap_of(all_q - a, all_k - b) for a, b in zip(sums_q, sums_k)])
    gap = gap_of(all_q, all_k)
    honest = gap - (count - 1) * (without.mean() - gap)
    error = math.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum())
    closed = honest <= scipy.stats.t.ppf(0.975, known - 1) * error
    shift = (values[-1] - values[-2]) / 2 * (1 if closed else 1 - min(honest / gap, 1))
    change = shift * (np.outer(axes[:, -2], axes[:, -2]) - np.outer(axes[:, -1], axes[:, -1]))
    rng = np.random.default_rng(12)
    found = dict.fromkeys(CATEGORIES, 0)
    for _ in range(draws):
        weight = rng.multinomial(count, np.full(count, 1 / count)) - 1
        stretch = math.sqrt(known / rng.chisquare(known - 1))
        a = all_q + stretch * sum(w * s for w, s in zip(weight, sums_q))
        b = all_k + stretch * sum(w * s for w, s in zip(weight, sums_k))
        if min(a[0], b[0]) <= 0:
            continue
        axis = np.linalg.eigh(pooled(a, b, d, step) + change)[1][:, -1]
        r = []
        for part in (a, b):
            cov, drift, spread, *_ = moments(part, d)
            r.append(axis @ drift / np.sqrt(axis @ cov @ axis * spread))
        if np.isfinite(r).all():
            found[category(abs(r[0]), r[1])] += 1
    total = sum(found.values())
    return {name: value / total for name, value in found.items()}


def refitted(q, k, labels_q, labels_k, groups):
    """(r_q, r_k) without each group along the PC0 that is then, in the space of the first eight components."""
    axes = Combined(q["vector"], q["position"], k["vector"], k["position"], 8).axes
    x_q, x_k = (np.asarray(side["vector"], float) @ axes.T for side in (q, k))
    found = []
    for out in groups:
        left_q, left_k = labels_q != out, labels_k != out
        if not left_q.any() or not left_k.any():
            found.append((None, None))
            continue
        t_q, t_k = q["position"][left_q], k["position"][left_k]
        axis = axes_of(center(np.concatenate([x_q[left_q], x_k[left_k]]))[1], 1)[1][0]
        axis = axis if axis[0] > 0 else -axis
        found.append((Rows(x_q[left_q], t_q).along(axis)[3], Rows(x_k[left_k], t_k).along(axis)[3]))
    return found


def certainty(q, k):
    """(probabilities, how near they must be, width, effective texts) of a head; None for what is undefined."""
    whole = Combined(q["vector"], q["position"], k["vector"], k["position"], 2)
    axis, first = whole.axes[0], whole.rows[0]
    n = len(q["example_id"])
    labels = group_labels(np.concatenate([q["example_id"], k["example_id"]]))
    groups = np.unique(labels)
    if len(groups) < 2:
        return None, None, None, None
    r, r_q = [], []
    for out in groups:
        left_q, left_k = labels[:n] != out, labels[n:] != out
        r.append((along(q, axis, left_q), along(k, axis, left_k)))
        if not left_q.all():
            r_q.append(r[-1][0])
    of_q, of_k = effective(q["position"], labels[:n]), effective(k["position"], labels[n:])
    width, known = width_of(first["r_q"], r_q, of_q), min(of_q[0], of_k[0])
    if known < 8 or any(found < (count + 16) / 3 for found, count in (of_q, of_k)) or any(None in pair for pair in r):
        return None, None, width, known
    if whole.rows[1]["explained_variance"] > 0.5 * first["explained_variance"]:
        return drawn(q, k, labels[:n], labels[n:], groups, round(known)), 0.07, width, known
    refits = refitted(q, k, labels[:n], labels[n:], groups)
    z = np.arctanh([fixed if 0 in fixed else refit for fixed, refit in zip(r, refits, strict=True)])
    covariance = np.cov(z.T) * (len(groups) - 1) ** 2 / len(groups)
    return (student(np.arctanh([first["r_q"], first["r_k"]]), covariance, known - 1), 1e-7,
            width, known)


def compare(qkscope, capture, out, group=1, *arguments):
    """The table's rows, which agree with the definition."""
    qkscope("pca", capture, "-o", out, "--q-per-kv-group", group, *arguments, expect=0)
    table = read_csv(out / "heads.csv")
    for (layer, head, q, k), row in zip(head_pairs(capture, group), table):
        expected, near, width, known = certainty(q, k)
        assert (row["layer"], row["q_head"]) == (layer, head)
        if expected is None:
            assert all(row[name] is None for name in ["category_probability", *COLUMNS])
        else:
            assert [row[name] for name in COLUMNS] == pytest.approx(list(expected.values()), abs=near)
            own = COLUMNS[CATEGORIES.index(row["category"])]
            assert row["category_probability"] == row[own]
            assert sum(row[name] for name in COLUMNS) == pytest.approx(1, abs=1e-12)
        assert row["r_q_width"] == (width if width is None else pytest.approx(width, rel=1e-7))
        assert row["effective_texts"] == (known if known is None else pytest.approx(known, rel=1e-9))
        assert row["texts"] == min(len(np.unique(q["example_id"])), len(np.unique(k["example_id"])))
    return table


def test_the_rule_of_groups():
    assert len(np.unique(group_labels([5, -3, 2 ** 40]))) == 3
    for ids in (np.arange(70), np.arange(70) * 7 - 100, np.arange(70) * 1024, -np.arange(33)):
        labels = group_labels(ids)
        dealt = np.arange(len(ids)) % GROUPS
        assert len(set(zip(labels.tolist(), dealt.tolist()))) == GROUPS  # the same groups


# ---- captures --------------------------------------------------------------------------------

def test_example_capture(qkscope, tmp_path):
    table = compare(qkscope, EXAMPLE, tmp_path, 2, "--layers", "0", "--heads", "0")
    assert len(table) == 1 and {row["texts"] for row in table} == {60}
    header = (tmp_path / "heads.csv").read_text().split("\n")[0].split(",")
    assert header.index("category_probability") == header.index("category") + 1


@pytest.mark.test_all
def test_all_heads(qkscope, tmp_path):
    table = compare(qkscope, EXAMPLE, tmp_path, 2)
    assert len(table) == 20 and any(row["category_probability"] < 0.8 for row in table)
    assert {row["near_tie"] for row in table} == {0, 1}


def draw(rng, ids, rows, d=5):
    """Texts of which each follows position in its own way, rows in the order of texts."""
    example = np.repeat(np.asarray(ids, np.int64), rows)
    position = np.concatenate([rng.choice(1000, rows, replace=False) for _ in ids])
    slope = {i: rng.standard_normal() for i in ids}
    x = rng.standard_normal((len(example), d))
    x[:, 0] += (position / 400) * (1 + np.array([slope[i] for i in example.tolist()]))
    return {"vector": x.astype(np.float32), "position": position, "example_id": example}


def shuffled(rng, columns):
    order = rng.permutation(len(columns["position"]))
    return {name: values[order] for name, values in columns.items()}


RANDOM_IDS = np.random.default_rng(3).integers(-2 ** 63, 2 ** 63, 40).tolist()
TEXTS = {
    "negative ids, many": (list(range(-30, 10)), list(range(-30, 10))),
    "ids with gaps": ([3, 70, 71, 500, -9], [3, 70, 71, 500, -9]),
    "random ids": (RANDOM_IDS, RANDOM_IDS),
    "other texts": (list(range(20)), list(range(10, 40))),
    "few and many": ([7, 8, 9], list(range(50))),
    "texts without keys": ([1, 2, 3, 4], [2, 4]),
    "seven texts": (range(7), range(7)),
    "eight texts": (range(8), range(8)),
    "one text": ([5], [5]),
    "one text of queries": ([5], [4, 5, 6]),
}


@pytest.mark.cases(10)
@pytest.mark.parametrize("name", TEXTS)
def test_texts(qkscope, tmp_path, name):
    rng = np.random.default_rng(list(name.encode()))
    for kind, ids in zip("qk", TEXTS[name]):
        write_rows(tmp_path / "c", head_name(0, 0, kind), shuffled(rng, draw(rng, ids, 25)))
    [row] = compare(qkscope, tmp_path / "c", tmp_path / "out")
    if name.startswith("one text"):
        assert row["category_probability"] is None and row["r_q_width"] is None


@pytest.mark.parametrize("long, told", [(50, True), (400, False)])
def test_texts_of_unequal_length(qkscope, tmp_path, long, told):
    """Of twelve texts two are longer. With 50 rows for 40 ten count, with 400 hardly more than those two do."""
    rng = np.random.default_rng(long)
    for kind in "qk":
        columns = draw(rng, [*[i for i in range(10) for _ in range(40)], *[10, 11] * long], 1)
        at = np.zeros(12, int)
        for row, text in enumerate(columns["example_id"]):
            columns["position"][row] = at[text]
            at[text] += 1
        write_rows(tmp_path / "c", head_name(0, 0, kind), columns)
    [row] = compare(qkscope, tmp_path / "c", tmp_path / "out")
    assert row["texts"] == 12 and (row["effective_texts"] >= 8) == told
    assert (row["category_probability"] is not None) == (row["r_q_width"] is not None) == told


@pytest.mark.parametrize("vectors", ["far means, in floats", "d 96, in doubles", "near a threshold, in floats"])
def test_rows(qkscope, tmp_path, vectors):
    rng = np.random.default_rng(list(vectors.encode()))
    for kind in "qk":
        columns = draw(rng, range(12), 40, d=96 if "96" in vectors else 12)
        if "threshold" in vectors:
            columns["vector"][:, 0] *= 0.4
        if "far" in vectors:
            columns["vector"] += 1000
            columns["position"] += 1000000
        write_table(tmp_path / "c", head_name(0, 0, kind), table_of(columns, "doubles" in vectors))
    compare(qkscope, tmp_path / "c", tmp_path / "out")


@pytest.mark.test_all
@pytest.mark.parametrize("double", [False, True], ids=["float", "double"])
@pytest.mark.parametrize("order", ["by text", "unsorted"])
def test_texts_that_come_late(qkscope, tmp_path, order, double):
    """Groups join when some of their rows are in the sums already, and there are many batches."""
    rng = np.random.default_rng(4)
    for kind in "qk":
        columns = draw(rng, list(range(0, 300, 5)), 240, d=3)
        write_table(tmp_path / "c", head_name(0, 0, kind),
                    table_of(columns if order == "by text" else shuffled(rng, columns), double))
    compare(qkscope, tmp_path / "c", tmp_path / "out")


def table_of(columns, double=False):
    table = capture_table(columns["vector"].astype(np.float64 if double else np.float32),
                          columns["position"], position_type=pa.int64(),
                          vector_type=pa.float64() if double else None)
    at = table.column_names.index("example_id")
    return table.set_column(at, "example_id", pa.array(columns["example_id"]))


@pytest.mark.test_all
def test_order_and_shards_do_not_matter(qkscope, tmp_path):
    """The same texts in another order are the same groups: the share is the same, numbers are but
    for rounding."""
    rng = np.random.default_rng(9)
    seen = []
    heads = {kind: draw(rng, RANDOM_IDS, 30) for kind in "qk"}
    for name, change, shards in (("a", lambda c: c, 1), ("b", lambda c: shuffled(rng, c), 1),
                                 ("c", lambda c: c, 4), ("d", lambda c: shuffled(rng, c), 5)):
        for kind in "qk":
            write_rows(tmp_path / name, head_name(0, 0, kind), change(heads[kind]), shards=shards)
        seen += compare(qkscope, tmp_path / name, tmp_path / f"out-{name}")
    for row in seen:
        assert row["category_probability"] == pytest.approx(seen[0]["category_probability"], abs=5e-3)
        assert row["r_q_width"] == pytest.approx(seen[0]["r_q_width"], rel=1e-9)


@pytest.mark.test_all
def test_same_bytes(qkscope, tmp_path):
    """For any number of threads, row groups and pages, alone or with the other analyses."""
    rng = np.random.default_rng(10)
    for kind in "qk":
        columns = shuffled(rng, draw(rng, list(range(40)), 130, d=9))
        columns["bucket"] = columns["position"] // 100
        write_rows(tmp_path / "a", head_name(0, 0, kind), columns)
        write_rows(tmp_path / "b", head_name(0, 0, kind), columns, row_group_size=37,
                   data_page_size=100)
    found = set()
    for command in ("pca", "analyze"):
        for capture in "ab":
            for threads in (1, 3):
                out = tmp_path / f"{command}-{capture}-{threads}"
                qkscope(command, tmp_path / capture, "-o", out, "--threads", threads, expect=0)
                found.add(tuple(read_bytes(out, "qk.csv", "heads.csv").values()))
    assert len(found) == 1


# ---- captures that do not tell texts ---------------------------------------------------------

def string_ids(columns):
    return pa.array([f"text {i}" for i in columns["example_id"]])


IDS = {"no column": None,
       "strings": string_ids,
       "nulls only": lambda columns: pa.nulls(len(columns["position"])),
       "null integers": lambda columns: pa.array([None] * len(columns["position"]), pa.int64())}


@pytest.mark.parametrize("name", IDS)
def test_without_ids(qkscope, tmp_path, name):
    rng = np.random.default_rng(6)
    for kind in "qk":
        columns = draw(rng, [0, 1, 2], 50)
        table = table_of(columns)
        at = table.column_names.index("example_id")
        table = table.remove_column(at) if IDS[name] is None else table.set_column(
            at, "example_id", IDS[name](columns))
        write_table(tmp_path / "c", head_name(0, 0, kind), table)
    outcome = qkscope("pca", tmp_path / "c", "-o", tmp_path / "out", expect=0)
    [row] = read_csv(tmp_path / "out" / "heads.csv")
    assert row["category_probability"] is None and row["r_q_width"] is None
    assert "warning" in outcome.err
    assert re.search(r"uncertain \(probability < 0.95\) +-\n", outcome.out)
    if name == "null integers":  # rows without an id count as one text
        assert row["texts"] == 1 and "fewer than 8 texts (the fewest 1)" in outcome.err
    else:
        assert row["texts"] is None and "1 of 1 heads have no integers" in outcome.err
        assert "texts: least -" in outcome.out


def test_some_shards_without_ids(qkscope, tmp_path):
    rng = np.random.default_rng(7)
    for kind in "qk":
        folder = tmp_path / "c" / head_name(0, 0, kind)
        write_table(tmp_path / "c", head_name(0, 0, kind), table_of(draw(rng, [0, 1], 50)), shards=2)
        last = sorted(folder.glob("*.parquet"))[-1]
        import pyarrow.parquet as pq
        pq.write_table(pq.read_table(last).drop(["example_id"]), last)
    qkscope("pca", tmp_path / "c", "-o", tmp_path / "out", expect=0)
    [row] = read_csv(tmp_path / "out" / "heads.csv")
    assert row["category_probability"] is None and row["texts"] is None


# ---- what is said ----------------------------------------------------------------------------

def test_few_texts_and_wide_intervals_are_warned_of(qkscope, tmp_path):
    rng = np.random.default_rng(8)
    for kind in "qk":
        write_rows(tmp_path / "c", head_name(0, 0, kind), draw(rng, [0, 1, 2], 8))
    outcome = qkscope("pca", tmp_path / "c", "-o", tmp_path / "out", expect=0)
    [row] = read_csv(tmp_path / "out" / "heads.csv")
    assert row["r_q_width"] > 0.2
    assert "1 of 1 heads have fewer than 8 texts (the fewest 3)" in outcome.err
    assert f"(the widest is {row['r_q_width']:.2f}, of l00h00q)" in outcome.err


def test_what_is_said_of_rows_and_certainty(qkscope, tmp_path):
    out = qkscope("pca", EXAMPLE, "-o", tmp_path, "--layers", 0, expect=0).out
    rows = read_csv(tmp_path / "heads.csv")
    uncertain = sum(row["category_probability"] < 0.95 for row in rows)
    counts = [row[column] for row in rows for column in ("n_q", "n_k")]
    assert f"rows per head: least {min(counts)}, median {np.median(counts):g}; texts: least 60\n" in out
    assert re.search(rf"uncertain \(probability < 0.95\) +{uncertain} of 4 heads", out)
    found = json.loads(qkscope("pca", EXAMPLE, "-o", tmp_path, "--layers", 0, "--json", expect=0).out)
    assert found["rows_per_head"] == {"least": min(counts), "median": np.median(counts)}
    assert found["texts"] == {"least": 60, "median": 60}
    assert found["certainty"] == {
        "heads": 4, "not_judged": 0, "uncertain": uncertain, "wide_r_q": 0,
        "widest_r_q": pytest.approx(max(row["r_q_width"] for row in rows), rel=1e-9)}
    off = [max(row["position_r_q"], row["position_r_k"]) > 0.7 for row in rows if row["category"] == "content-focused"]
    assert found["position_off_pc0"] == {"content_focused": len(off), "heads": sum(off)}


def test_no_number_is_printed_as_nan(qkscope, tmp_path):
    """One text of one bucket: no drop, no fifths, no certainty."""
    rng = np.random.default_rng(11)
    for kind in "qk":
        columns = draw(rng, [1], 12)
        columns["position"] = np.arange(12)
        columns["bucket"] = np.zeros(12, np.int64)
        write_rows(tmp_path / "c", head_name(0, 0, kind), columns)
    for command in ("pca", "rotate", "plasticity", "analyze"):
        outcome = qkscope(command, tmp_path / "c", "-o", tmp_path / command)
        assert not re.search(r"\b(nan|inf)\b", outcome.out + outcome.err), outcome.out
    assert re.search(r"drop, first to last +-\n", outcome.out)


@pytest.mark.parametrize("rows, warned", [(99, True), (100, False)])
def test_too_few_rows(qkscope, tmp_path, rows, warned):
    """Said of the rows themselves, also where no interval can be told."""
    rng = np.random.default_rng(8)
    for kind in "qk":
        x = rng.standard_normal((rows, 6)).astype(np.float32)
        write_rows(tmp_path / "c", head_name(0, 0, kind),
                   {"vector": x, "position": np.arange(rows), "example_id": np.zeros(rows, int)})
    outcome = qkscope("pca", tmp_path / "c", "-o", tmp_path / "out", expect=0)
    assert ("fewer than 100 rows of a kind (the fewest 99)" in outcome.err) == warned
    assert "certainty cannot be told         1 of 1 head\n" in outcome.out


def test_no_certainty_without_variance(qkscope, tmp_path):
    """Equal positions give r = 0 whichever texts are left out: that is not certain, but nothing.
    The first heads are named, all are counted."""
    rng = np.random.default_rng(9)
    for head in range(4):
        for kind in "qk":
            columns = {**draw(rng, range(12), 20), "position": np.zeros(240, int)}
            write_table(tmp_path / "c", head_name(0, head, kind), table_of(columns))
    outcome = qkscope("pca", tmp_path / "c", "-o", tmp_path / "out", "--q-per-kv-group", "1",
                      "--allow-repeats", expect=0)
    assert [row["category_probability"] for row in read_csv(tmp_path / "out" / "heads.csv")] == [None] * 4
    assert outcome.err.count("positions are equal;") == 3
    assert "all positions are equal in 8 heads of queries or keys" in outcome.err
    assert "certainty cannot be told         4 of 4 heads" in outcome.out


def test_windows_of_one_text_are_one_text(qkscope, tmp_path):
    rng = np.random.default_rng(10)
    for kind in "qk":
        write_table(tmp_path / "c", head_name(0, 0, kind), table_of(draw(rng, range(30), 20)))
    (tmp_path / "c" / "capture.json").write_text(json.dumps(
        {"qkscope_capture": 1, "complete": True, "texts": {"count": 2, "windows": 30}}))
    outcome = qkscope("pca", tmp_path / "c", "-o", tmp_path / "out", expect=0)
    [row] = read_csv(tmp_path / "out" / "heads.csv")
    assert row["texts"] == 2 and "texts: least 2\n" in outcome.out
    assert "fewer than 8 texts (the fewest 2)" in outcome.err
    assert row["category_probability"] is None and "no text_id in examples.csv" in outcome.err


def test_examples_of_a_text_are_one_text(qkscope, tmp_path):
    """36 examples of 12 texts, as examples.csv says, are what 12 ids say."""
    rng, found = np.random.default_rng(11), {}
    rows = {kind: draw(rng, range(12), 60) for kind in "qk"}
    for name, step in (("apart", 12), ("joined", 0)):
        for kind, columns in rows.items():
            write_rows(tmp_path / name, head_name(0, 0, kind),
                       {**columns, "example_id": columns["example_id"] + step * (np.arange(720) % 60 // 20)})
    (tmp_path / "apart" / "examples.csv").write_text(
        "example_id,text_id\n" + "".join(f"{i},{i % 12}\n" for i in range(36)))
    for name in ("apart", "joined"):
        said = qkscope("pca", tmp_path / name, "-o", tmp_path / f"{name}.out", "--ci", 95, expect=0).err
        assert ("36 examples are 12 texts" in said) == (name == "apart")
        found[name] = [row for file in ("heads.csv", "qk.csv") for row in read_csv(tmp_path / f"{name}.out" / file)]
    for one, other in zip(found["apart"], found["joined"], strict=True):
        assert one == other
    assert found["joined"][0]["texts"] == 12 and found["joined"][0]["category_probability"] is not None
