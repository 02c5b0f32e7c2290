# SPDX-License-Identifier: Apache-2.0
"""Numbers of a head from sums of its attention, against NumPy on the attention rows themselves."""
import os
import pathlib
import subprocess

import numpy as np
import pytest
from attention_oracle import NUMBERS, SHARES, Text, distance_share_of_rows, expected, window_of, window_shares
from attention_rows import AT, FAR_BINS, SUMS, bin_of, far_keys, joined, sums_of_text
from scipy import stats

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build"))
HEADS = ["sink", "previous-token", "local", "induction", "duplicate-token", "uniform"]
RULES = {"sink": ("sink_mass", 0.3, 1), "previous-token": ("previous_mass", 0.4, 1), "local": ("near_mass", 0.5, 1),
         "induction": ("induction_excess", 0.3, 1), "duplicate-token": ("duplicate_excess", 0.3, 1),
         "uniform": ("information", 0.1, -1)}


SPREAD = 2e-4  # of distance_share: three lengths of rows stand for all of them


def ask(groups, level=0.95, buckets=(), slope=0.0):
    """What the library says of sums by group: numbers, ends of intervals, probabilities, ..."""
    parts = [f"numbers {level} {slope} {len(groups)} {len(buckets)}", *(repr(float(x)) for g in groups for x in g),
             *(str(b) for b, _ in buckets), *(repr(float(x)) for _, s in buckets for x in s)]
    found = subprocess.run([BUILD / "tests" / "attention" / "attention_values"], input=" ".join(parts),
                           capture_output=True, text=True)
    if found.returncode:
        return found.stdout.strip()
    lines = found.stdout.split("\n")
    values = [[float(x) for x in line.split()] for line in lines[:len(NUMBERS)]]
    rest = lines[len(NUMBERS):]
    return {"value": {n: v[0] for n, v in zip(NUMBERS, values, strict=True)},
            "ends": {n: v[1:] for n, v in zip(NUMBERS, values, strict=True)},
            "probability": {n: float(v) for n, v in zip(HEADS, rest, strict=False)},
            "groups": int(rest[6]), "names": rest[7].split(),
            "fit": [float(x) for x in rest[8].split()],
            "cells": np.array([[float(x) for x in line.split()] for line in rest[9:-1]])}


def compare(found, want, tolerance=1e-9):
    for name in NUMBERS:
        least = max(tolerance, SPREAD) if name == "distance_share" else tolerance
        np.testing.assert_allclose(found[name], want[name], rtol=least, atol=least, err_msg=name)


@pytest.mark.parametrize("kind", ["any", "previous", "sink"])
@pytest.mark.parametrize("window", [0, 11])
def test_numbers(kind, window):
    rng = np.random.default_rng([len(kind), window])
    texts = [Text(rng, n, n != 60, window if kind == "any" else 0, kind) for n in (150, 41, 97, 60)]  # one alone reaches 128
    found = ask([text.sums for text in texts])
    compare(found["value"], expected(texts))
    assert found["groups"] == 4


@pytest.mark.parametrize("kind", ["any", "previous", "sink", "uniform"])
def test_intervals_and_names(kind):
    """A jackknife over groups; a name from 0.95 of the t distribution beyond its threshold on."""
    rng = np.random.default_rng([5, len(kind)])
    texts = [Text(rng, int(n), kind=kind) for n in rng.integers(20, 40, 9)]
    found = ask([text.sums for text in texts], 0.9)
    full = expected(texts)
    without = [expected(texts[:g] + texts[g + 1:]) for g in range(len(texts))]
    for name in NUMBERS:
        if name == "distance_share" and full["far_information"] < 0.05:
            assert np.isnan(found["value"][name])
            continue
        values = np.array([w[name] for w in without])
        error = np.sqrt(8 / 9 * ((values - values.mean()) ** 2).sum())
        if name == "window_99":
            values = np.array([window_shares(texts[:g] + texts[g + 1:]) for g in range(len(texts))])
            reach = stats.t.ppf(0.95, 8) * np.sqrt(8 / 9 * ((values - values.mean(0)) ** 2).sum(0))
            ends = [window_of(window_shares(texts) + side * reach) for side in (1, -1)]
            assert ends[0] <= full[name] <= ends[1]
            assert found["ends"][name] == ends
            continue
        ends = full[name] + np.array([-1, 1]) * error * stats.t.ppf(0.95, 8)
        if name in SHARES:
            ends = np.clip(ends, 0, 1)
        least = SPREAD if name == "distance_share" else 1e-9
        np.testing.assert_allclose(found["ends"][name], ends, rtol=1e-8, atol=least, err_msg=name)
    names = []
    for head, (name, threshold, side) in RULES.items():
        values = np.array([w[name] for w in without])
        error = np.sqrt(8 / 9 * ((values - values.mean()) ** 2).sum())
        over = side * (full[name] - threshold)
        p = stats.t.cdf(over / error, 8) if error > 1e-12 else float(over > 0)
        assert abs(found["probability"][head] - p) < 1e-7, head
        names += [head] if p >= 0.95 else []
    assert found["names"] == names
    assert {"previous": "previous-token", "any": None}.get(kind, kind) in [*names, None]


LONG = 200
BACK = np.arange(LONG)[:, None] - np.arange(LONG)[None]
SCORES = {"content": lambda rng: 0 * BACK + rng.normal(size=(1, LONG)),
          "diffuse content": lambda rng: 0.4 * rng.normal(size=(LONG, LONG)),
          "near": lambda rng: -0.5 * BACK,
          "slowly nearer": lambda rng: -0.02 * BACK,
          "slowly nearer, and a sink": lambda rng: -0.02 * BACK + np.where(np.arange(LONG) == 0, 4.0, 0),
          "far": lambda rng: 0.02 * BACK,
          "waves": lambda rng: 3 * np.cos(0.01 * BACK),
          "power": lambda rng: -1.5 * np.log1p(np.abs(BACK)),
          "both": lambda rng: -0.02 * BACK + rng.normal(size=(LONG, LONG))}
ANSWERS = {"content": (-0.01, 0.01), "diffuse content": (-0.01, 0.01), "near": (0.95, 1), "slowly nearer": (0.9, 1), "slowly nearer, and a sink": (0.85, 1), "far": (0.75, 1),
           "waves": (0.7, 1), "power": (0.95, 1), "both": (0.2, 0.5)}


@pytest.mark.cases(4)
@pytest.mark.parametrize("kind", SCORES)
def test_what_distance_share_answers(kind):
    """0 where scores do not depend on distance; near 1 where they depend on nothing else: keys of a bin have one weight,
    so slow changes over far bins cost a part. Beside it the number from each row's own count of keys,
    from which rows of one last bin differ most where the sink takes much."""
    rng = np.random.default_rng(7)
    texts = [Text(rng, LONG) for _ in range(4)]
    for text in texts:
        z = np.where(BACK >= 0, SCORES[kind](rng), -np.inf)
        text.a = np.exp(z - z.max(1, keepdims=True))
        text.a /= text.a.sum(1, keepdims=True)
    sums = np.array([sums_of_text(text.a, text.tokens) for text in texts])
    found = ask([joined(own) for own in sums], buckets=list(enumerate(sums.sum(0))))["value"]["distance_share"]
    assert ANSWERS[kind][0] <= found <= ANSWERS[kind][1]
    assert abs(found - distance_share_of_rows(texts)) < (0.03 if "sink" in kind else 0.006)


@pytest.mark.parametrize("lengths", [(20, 24, 30, 36, 40, 46, 50, 56, 60, 64, 68, 72), (20, 22, 24, 26, 28, 30, 32, 34, 150)])
def test_texts_of_unequal_length(lengths):
    """As many degrees of freedom as texts that count; below eight of them no name."""
    rng = np.random.default_rng(6)
    texts = [Text(rng, n, kind="sink") for n in lengths]
    found = ask([text.sums for text in texts], 0.9)
    effective = sum(lengths) ** 2 / sum(n ** 2 for n in lengths)
    values = np.array([np.concatenate([t.a[:, 0] for t in texts[:g] + texts[g + 1:]]).mean() for g in range(len(texts))])
    error = np.sqrt((len(texts) - 1) / len(texts) * ((values - values.mean()) ** 2).sum())
    reach = error * stats.t.ppf(0.95, effective - 1)
    np.testing.assert_allclose(found["ends"]["sink_mass"], found["value"]["sink_mass"] + np.array([-reach, reach]), rtol=1e-8)
    assert (len(texts) == 12) == ("sink" in found["names"]) == (not np.isnan(found["probability"]["sink"])) == (effective >= 8)
    assert found["groups"] == len(texts)


def test_few_groups():
    """One group has numbers, no intervals; below eight no names; groups without rows do not count."""
    rng = np.random.default_rng(2)
    texts = [Text(rng, 40, kind="sink") for _ in range(7)]
    one = ask([texts[0].sums, np.zeros(SUMS)])
    compare(one["value"], expected(texts[:1]))
    assert one["groups"] == 1
    assert np.isnan(list(one["ends"].values())).all()
    seven = ask([text.sums for text in texts])
    assert seven["value"]["sink_mass"] > 0.5
    assert np.isfinite(seven["ends"]["sink_mass"]).all()
    assert seven["names"] == []
    assert np.isnan(list(seven["probability"].values())).all()
    assert np.isnan(ask([text.sums for text in texts], 0)["ends"]["sink_mass"]).all()


def test_nothing_to_say():
    """Texts of a few tokens have no far rows; heads that leave nothing off the sink no distances."""
    rng = np.random.default_rng(3)
    texts = [Text(rng, 8, tokens=False) for _ in range(3)]
    found = ask([text.sums for text in texts])["value"]
    compare(found, expected(texts))
    assert np.isnan([found[n] for n in ("near_mass", "mean_distance", "distance_share", "induction_mass")]).all()
    for text in texts:
        text.a = np.zeros((30, 30))
        text.a[:, 0] = 1
        text.tokens = np.arange(30)
    found = ask([text.sums for text in texts])["value"]
    assert found["sink_mass"] == 1
    assert found["near_mass"] == 0
    assert np.isnan([found[n] for n in ("mean_distance", "far_information", "distance_share",
                                        "duplicate_mass", "induction_excess")]).all()
    nothing = ask([np.zeros(SUMS)])
    assert np.isnan(list(nothing["value"].values())).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_refuses_what_is_no_number(value):
    groups = [np.ones(SUMS), np.ones(SUMS)]
    groups[1][FAR_BINS] = value
    assert ask(groups) == f"sums of attention: number {FAR_BINS} of row 1 is not finite"
    bucket = np.ones(SUMS)
    bucket[AT["rows"]] = value
    assert "is not finite" in ask([np.ones(SUMS)], buckets=[(3, bucket)])


def profile_of_rows(rows, slope, window):
    """Mean over rows of softmax(slope * distance) over the keys from 4 on, by bin of distance."""
    found = np.zeros((len(rows), 22))
    for r, i in enumerate(rows):
        distance = i - far_keys(i, window)
        a = np.exp(slope * distance)
        np.add.at(found[r], [bin_of(d) for d in distance], a / a.sum())
    return found.mean(0)


@pytest.mark.parametrize("window", [0, 20, 3])
def test_profile(window):
    """Each row counts by the attention that it leaves off the first keys."""
    rng = np.random.default_rng([9, window])
    texts = [Text(rng, 150, window=window) for _ in range(3)]
    sums = sum(sums_of_text(text.a, text.tokens, window) for text in texts)
    slope = -0.07
    found = ask([text.sums for text in texts], buckets=list(enumerate(sums)), slope=slope)
    want = []
    for bucket in range(4, 9):
        rows = range(1 << (bucket - 1), min(150, 1 << bucket))
        bins = np.zeros(22)
        for text in texts:
            for i in rows:
                keys = far_keys(i, window)
                np.add.at(bins, [bin_of(i - j) for j in keys], text.a[i, keys])
        # of rows that all see a whole window, the sums do not tell where they end
        last = 2 * rows[0] - 1 if window and window <= rows[0] else rows[-1]
        uniform = profile_of_rows(range(rows[0], last + 1), 0, window)
        told = profile_of_rows(range(rows[0], last + 1), slope, window)
        for b in range(22):
            if uniform[b] > 0:
                want.append([rows[0], last, 1 << (b - 1) if b else 0, (1 << b) - 1, bins[b] / bins.sum(),
                             uniform[b], told[b], bins.sum() / (3 * len(rows)), bins.sum()])
    want = np.array(want)
    np.testing.assert_allclose(found["cells"], want[:, :-1], rtol=1e-9, atol=1e-12)
    reach, seen, r2, fitted = found["fit"]
    assert reach == want[:, 1].max() - 3
    assert seen == window
    mass, uniform, told, w = want[:, 4], want[:, 5], want[:, 6], want[:, -1]
    design = np.column_stack([(want[:, 2] + np.minimum(want[:, 3], want[:, 1] - 4)) / 2,
                              *(want[:, 0] == first for first in np.unique(want[:, 0]))])
    root = np.sqrt(w * mass)[:, None]
    slopes = np.linalg.lstsq(root * design, root[:, 0] * np.log(mass / uniform), rcond=None)[0]
    assert abs(fitted - slopes[0]) < 1e-9
    assert abs(r2 - (1 - (w * (mass - told) ** 2).sum() / (w * (mass - uniform) ** 2).sum())) < 1e-9


def test_window():
    """The window that holds 99 % of what leaves keys 0 to 3; it is undecided where texts differ."""
    rng = np.random.default_rng(4)
    texts = [Text(rng, 200) for _ in range(9)]
    for number, text in enumerate(texts):
        text.a = np.zeros((200, 200))
        for i in range(200):  # nine in ten of the rest on the row itself, and a few on one key far from it
            text.a[i, 0] += 0.5
            text.a[i, i] += 0.45
            text.a[i, max(i - (40 if number % 2 else 33), 0)] += 0.05
    found = ask([text.sums for text in texts], 0.9)
    assert found["value"]["window_99"] == 64
    assert found["ends"]["window_99"] == [64, 64]
    for number, text in enumerate(texts):  # the far key has 1 % of the rest in the mean, and not in every text
        text.a *= 0
        for i in range(200):
            text.a[i, i] = 0.99 + (number - 4) / 1000
            text.a[i, max(i - 12, 0)] += 1 - text.a[i, i]
    found = ask([text.sums for text in texts], 0.9)
    assert found["ends"]["window_99"] == [1, 16]
    assert np.isnan(ask([texts[0].sums])["ends"]["window_99"]).all()


def test_profile_of_a_clock():
    """Attention by distance alone is predicted by its own scores, however large they are."""
    n, slope = 120, -6.5
    i, j = np.arange(n)[:, None], np.arange(n)[None]
    a = np.where((j <= i) & (j >= 4), np.exp(slope * (i - j).clip(0)), 0)
    a[:4] = np.eye(4, n)
    a /= a.sum(1, keepdims=True)
    buckets = list(enumerate(sums_of_text(a)))
    found = ask([sum(s for _, s in buckets)], buckets=buckets, slope=slope)
    assert found["fit"][2] > 1 - 1e-12
    assert np.allclose(found["cells"][:, 4], found["cells"][:, 6], atol=1e-12)
    assert ask([np.zeros(SUMS)])["cells"].size == 0
