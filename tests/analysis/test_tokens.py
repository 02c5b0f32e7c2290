# SPDX-License-Identifier: Apache-2.0
"""tokens.csv: which tokens a head attends to, as the captured rows predict it, and which keys lie far out, beside NumPy."""
import json

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats

from conftest import capture_table, head_name, read_bytes, read_csv, write_table

D, TOP = 8, 10
NAMES = [f"w{i}" for i in range(30)] + ["", " ", "\u0120the", "</script>", '"a,b"', "\n", "=1+1", "\u00e9" * 200]


def make_side(seed, texts=9, most=60, keep=0.7, first=None, nulls=False, window=0):
    """Rows of some positions of each text, shuffled. first: the texts whose position 0 is there."""
    rng = np.random.default_rng([seed, texts])
    example, position = [], []
    for text in range(texts):
        there = np.flatnonzero(rng.random(rng.integers(most // 2, most)) < keep)
        if first is not None:
            there = np.union1d(there[there > 0], [0] if text in first else []).astype(int)
        example += [100 + 7 * text] * len(there)
        position += there.tolist()
    order = rng.permutation(len(position))
    example, position = np.array(example)[order], np.array(position)[order]
    vectors = rng.standard_normal((len(position), D)).astype(np.float32) * 2
    vectors[position == 0] += 2
    token = (position * 2654435761 + example * 40503) % 997 % len(NAMES)
    token[::11] = -1 if nulls else token[::11]
    return {"x": vectors, "position": position, "example": example, "token": token, "window": window}


def write_side(root, name, side, strings=True):
    table = capture_table(side["x"], side["position"])
    columns = {"example_id": pa.array(side["example"]), "sliding_window": pa.array([side["window"] or None] * len(side["x"]), pa.int32())}
    if strings:
        columns["token_str"] = pa.array([None if t < 0 else NAMES[t] for t in side["token"]])
    for column, values in columns.items():
        at = table.column_names.index(column) if column in table.column_names else -1
        table = table.set_column(at, column, values) if at >= 0 else table.append_column(column, values)
    write_table(root, name, table)


def with_first(k):
    """The texts that count, by their key 0; None: too many lack it."""
    whole, every = np.unique(k["example"][k["position"] == 0]), np.unique(k["example"])
    return whole if len(whole) == len(every) or len(whole) >= max(3, len(every) / 2) else None


def nearest(q, k, scale):
    """Of what a row of weights() has, the part of the last key before the query."""
    a, _ = weights(q, k, scale)
    seen = q["example"][:, None] == k["example"]
    rows = [i for i in range(len(q["x"])) if with_first(k) is None or q["example"][i] in with_first(k)]
    taken = 0
    for i, row in zip([i for i in rows if sees(q, k, i)], a):
        before = np.flatnonzero(seen[i] & (k["position"] < q["position"][i]))
        taken += row[before[np.argmax(k["position"][before])]] if len(before) else 0
    return taken / a.sum()


def sees(q, k, i):
    distance = q["position"][i] - k["position"]
    seen = (k["example"] == q["example"][i]) & (distance >= 0) & (k["position"] >= (with_first(k) is None))
    return (seen & (distance < (q["window"] or np.inf))).any()


def weights(q, k, scale):
    """[queries of texts that count][keys] of attention, 0 where a key is not seen, and the same of what is beyond key 0 shared evenly."""
    scores = scale * q["x"].astype(float) @ k["x"].astype(float).T
    distance = q["position"][:, None] - k["position"]
    seen = (q["example"][:, None] == k["example"]) & (distance >= 0)
    if q["window"]:
        seen &= distance < q["window"]
    whole = with_first(k)
    if whole is None:
        seen &= k["position"] > 0
    counts = seen.any(1) & (True if whole is None else np.isin(q["example"], whole))
    a = np.where(seen, np.exp(scores - scores.max()), 0)[counts]
    a /= a.sum(1, keepdims=True)
    later = seen[counts] & (k["position"] > 0)
    a = np.where(later, a, 0)
    return a, a.sum(1, keepdims=True) * later / np.maximum(later.sum(1, keepdims=True), 1)


def attended(q, k, scale, level=None):
    """{token: (share, lift, keys, texts, lo, hi, queries, nearest)}, of the largest shares first."""
    a, even = weights(q, k, scale)
    texts, near = with_first(k), nearest(q, k, scale)
    texts = np.unique(k["example"]) if texts is None else texts
    rows, found = {}, np.unique(k["token"][k["token"] >= 0])
    groups = np.unique(k["example"])
    by_group = np.array([a[:, k["example"] == g].sum() for g in groups])
    for t in found:
        own = k["token"] == t
        later = own & (k["position"] > 0)
        share = a[:, own].sum() / a.sum()
        without = [(a[:, own & (k["example"] != g)].sum()) / (a.sum() - total) for g, total in zip(groups, by_group) if total > 0]
        total = by_group[by_group > 0]
        n = len(total)
        weight = total.sum() ** 2 / (total ** 2).sum()
        error = np.sqrt((n - 1) / n * ((without - np.mean(without)) ** 2).sum())
        reach = error * scipy.stats.t.ppf((1 + (level or 95) / 100) / 2, (n if n - weight < 0.5 else weight) - 1)
        if share > 0:
            rows[NAMES[t]] = (share, share / (even[:, own].sum() / a.sum()), (later & np.isin(k["example"], texts)).sum(), len(texts),
                              max(share - reach, 0), min(share + reach, 1), len(a), near)
    return dict(sorted(rows.items(), key=lambda row: (-row[1][0], row[0].encode()))[:TOP])


def far(k):
    """{token: (distance, position, example)}, of its farthest key."""
    x = k["x"].astype(float)
    d = np.linalg.norm(x - x.mean(0), axis=1)
    d /= np.sqrt((d ** 2).mean())
    best = {}
    for row in np.lexsort((k["position"], k["example"], -d)):
        if k["token"][row] >= 0:
            best.setdefault(NAMES[k["token"][row]], (d[row], k["position"][row], k["example"][row]))
    return dict(list(best.items())[:TOP])


def shown(text):
    return text.encode()[:256].decode()


CASES = {
    "sampled": {},
    "a window": {"window": 9},
    "some first keys": {"first": {0, 2, 3, 5, 6, 8}},
    "few first keys": {"first": {0, 2, 5}},
    "no first key": {"first": set()},
    "nulls": {"nulls": True},
    "whole texts": {"keep": 1.1},
}


@pytest.mark.cases(7)
@pytest.mark.parametrize("case", CASES)
def test_lists(qkscope, tmp_path, case):
    """Both lists of both query heads of a key head, with intervals, for any number of threads."""
    q, k = [make_side(s, **CASES[case]) for s in (1, 2)], make_side(3, **CASES[case])
    for head, side in enumerate(q):
        write_side(tmp_path / "c", head_name(0, head, "q"), side)
    write_side(tmp_path / "c", head_name(0, 0, "k"), k)
    for threads in (1, 3):
        qkscope("analyze", tmp_path / "c", "-o", tmp_path / f"r{threads}", "--threads", threads, "--ci", 90, "--attention-scale", 0.4,
                "--q-per-kv-group", 2, expect=0)
    assert read_bytes(tmp_path / "r1", "tokens.csv") == read_bytes(tmp_path / "r3", "tokens.csv")
    rows = read_csv(tmp_path / "r1" / "tokens.csv")
    for head, side in enumerate(q):
        own = [r for r in rows if r["q_head"] == head]
        for name, wanted in ("attended", attended(side, k, 0.4, 90)), ("far", far(k)):
            found = [r for r in own if r["list"] == name]
            assert [r["rank"] for r in found] == list(range(1, len(wanted) + 1))
            assert [r["token"] for r in found] == [shown(t) for t in wanted]
            for r, w in zip(found, wanted.values()):
                columns = ["share", "lift", "keys", "texts", "share_lo", "share_hi", "queries", "nearest"] if name == "attended" else ["distance", "position", "example"]
                assert [r[c] for c in columns] == pytest.approx(w, rel=1e-9, abs=1e-12), (head, name, r)
                assert all(r[c] is None for c in ("distance", "position", "example") if name == "attended")
                assert r["first_key"] == ("" if name == "far" else "unknown" if with_first(k) is None else "known")
                assert all(r[c] is None for c in ("share", "lift", "share_lo", "share_hi", "queries", "nearest") if name == "far")
                assert name == "attended" or r["texts"] == len(np.unique(k["example"]))


@pytest.mark.test_all
def test_some_of_many_queries(qkscope, tmp_path):
    """A sample of the queries says nearly the same as all of them."""
    q, k = (make_side(s, texts=20, most=260, keep=1.1) for s in (4, 5))
    k["x"] += np.where(k["token"] < 3, 1.5, 0)[:, None].astype(np.float32)
    q["x"] += np.float32(1.5)
    for kind, side in ("q", q), ("k", k):
        write_side(tmp_path / "c", head_name(0, 0, kind), side)
    qkscope("plasticity", tmp_path / "c", "-o", tmp_path / "r", expect=0)
    found = {r["token"]: r["share"] for r in read_csv(tmp_path / "r" / "tokens.csv") if r["list"] == "attended"}
    wanted = attended(q, k, 1 / np.sqrt(D))
    assert set(list(wanted)[:3]) == set(list(found)[:3])
    for token in list(wanted)[:3]:
        assert found[token] == pytest.approx(wanted[token][0], rel=0.1) and found[token] != wanted[token][0]


def test_a_head_that_looks_close_by(qkscope, tmp_path):
    """Where the keys that it looks at were not captured the nearest others stand for them, and there is no list."""
    positions, texts = np.arange(80), 6
    angle = 0.035 * np.tile(positions, texts)
    side = {"x": 20 * np.stack([np.cos(angle), np.sin(angle)] + [0 * angle] * (D - 2), 1).astype(np.float32), "position": np.tile(positions, texts),
            "example": np.repeat(np.arange(texts), 80), "token": np.tile(positions, texts) * 7 % 5, "window": 0}
    some = np.random.default_rng(3).random(len(angle)) < 0.2
    for name, kept in ("some", some), ("all", some | True):
        k = {n: v if n == "window" else v[kept] for n, v in side.items()}
        for kind, of in ("q", side), ("k", k):
            write_side(tmp_path / name, head_name(0, 0, kind), of)
        qkscope("plasticity", tmp_path / name, "-o", tmp_path / f"r {name}", expect=0)
        rows = [r for r in read_csv(tmp_path / f"r {name}" / "tokens.csv") if r["list"] != "far"]
        assert [r["nearest"] for r in rows] == pytest.approx([nearest(side, k, 1 / np.sqrt(D))] * len(rows), rel=1e-9)
        assert [r["list"] for r in rows] == (["near"] if name == "some" else ["attended"] * 5)
    assert rows[0]["first_key"] == "known" and rows[0]["queries"] == 480


def test_without_strings(qkscope, tmp_path):
    """No column, no table, and all other tables are the same bytes. Before RoPE nothing is predicted."""
    q, k = make_side(6), make_side(7)
    for folder, strings in ("with", True), ("without", False):
        for kind, side in ("q", q), ("k", k):
            write_side(tmp_path / folder, head_name(0, 0, kind), side, strings)
        qkscope("analyze", tmp_path / folder, "-o", tmp_path / f"r {folder}", expect=0)
    names = {p.name for p in (tmp_path / "r with").iterdir()}
    assert names - {p.name for p in (tmp_path / "r without").iterdir()} == {"tokens.csv"}
    tables = [n for n in names if n.endswith(".csv") and n != "tokens.csv"]
    assert read_bytes(tmp_path / "r with", *tables) == read_bytes(tmp_path / "r without", *tables)
    qkscope("pca", tmp_path / "with", "-o", tmp_path / "r with", expect=0)
    assert (tmp_path / "r with" / "tokens.csv").exists()
    (tmp_path / "with" / "capture.json").write_text(json.dumps({"format": "qkscope-capture", "version": 1, "stage": "pre-rope"}))
    qkscope("plasticity", tmp_path / "with", "-o", tmp_path / "pre", expect=0)
    assert {r["list"] for r in read_csv(tmp_path / "pre" / "tokens.csv")} == {"far"}
