# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals by doing what the definition says: leave out the rows of one group of
texts, analyse the rest from the beginning, and look at how far the numbers moved."""
import math
import sys
from pathlib import Path

import numpy as np
import scipy.stats

for room in ("pca", "rotation", "plasticity"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / room))

from pca_oracle import Combined, Rows
from plasticity_oracle import Plasticity
from rotation_oracle import exact_drift

GROUPS = 32
DEPENDS = {"r_q": {"q"}, "r_q_a": {"q"}, "r_k": {"k"}, "r_k_a": {"k"}, "alpha_k": {"k"}}
CORRELATIONS = {"r_q", "r_k", "r_q_a", "r_k_a"}


# ---- groups of texts -------------------------------------------------------------------------

def kept_bits(ids, limit):
    """The most bits in which no more than `limit` of the ids differ; None: they need no cut."""
    ids = {int(i) % 2 ** 64 for i in ids}
    return next(b for b in range(64, -1, -1) if len({i % 2 ** b for i in ids}) <= limit)


def groups_of(q, k, limit=GROUPS):
    """Group numbers of the rows of queries and of keys, and how many groups there are: texts
    whose ids agree in their last bits are one, with as many bits as leave `limit`."""
    sides = [np.unique(side["example_id"]) for side in (q, k)]
    bits = kept_bits(np.concatenate(sides), limit)

    def cut(ids):
        return np.array([int(i) % 2 ** 64 % 2 ** bits for i in ids], dtype=np.uint64)
    labels = np.unique(cut(np.concatenate(sides)))
    return (*(np.searchsorted(labels, cut(side["example_id"])) for side in (q, k)), len(labels))


def without(columns, groups, left_out):
    return {name: values[groups != left_out] for name, values in columns.items()}


def replicates(q, k, numbers):
    """numbers(q, k) of all rows but those of each group in turn, as dicts, and which of the two
    kinds have rows of that group."""
    group_q, group_k, count = groups_of(q, k)
    if count < 2:
        return []
    return [(numbers(without(q, group_q, g), without(k, group_k, g)),
             {kind for kind, group in (("q", group_q), ("k", group_k)) if (group == g).any()})
            for g in range(count)]


def interval(name, value, values, level):
    """(low, high) of a number from its replicates; None where there is none."""
    if value is None or len(values) < 2 or any(v is None for v in values):
        return None, None
    correlation = name in CORRELATIONS
    values = np.array(values, float)
    if correlation:
        value, values = math.atanh(value), np.arctanh(values)
    g = len(values)
    se = math.sqrt((g - 1) / g * float(((values - values.mean()) ** 2).sum()))
    reach = scipy.stats.t.ppf((1 + level / 100) / 2, g - 1) * se
    ends = value - reach, value + reach
    if correlation:
        return math.tanh(ends[0]), math.tanh(ends[1])
    if name == "ap_overall":
        return max(ends[0], 0.0), min(ends[1], 1.0)
    return ends


def intervals(q, k, numbers, value_of, names, level, refit=True):
    """{name_lo, name_hi} of all names. With axes that stay some numbers are of one kind alone:
    then only the groups that have rows of it repeat them."""
    runs = replicates(q, k, numbers)
    result = {}
    for name in names:
        kinds = set("qk") if refit else DEPENDS.get(name, set("qk"))
        low, high = interval(name, value_of[name],
                             [run[name] for run, there in runs if there & kinds], level)
        result[name + "_lo"], result[name + "_hi"] = low, high
    return result


# ---- the three analyses ----------------------------------------------------------------------

def along(axis, q, k):
    """r, slope and mean of the projections on a given axis."""
    sides = [Rows(side["vector"], side["position"]).along(axis) for side in (q, k)]
    (mu_q, _, _, r_q), (_, alpha_k, _, r_k) = sides
    bias = None if alpha_k is None else mu_q * alpha_k
    return {"r_q": r_q, "r_k": r_k, "r_q_a": r_q, "r_k_a": r_k, "alpha_k": alpha_k,
            "bias_strength": bias}


def turned(axis, reference):
    return axis if axis @ reference >= 0 else -axis


def first_axis(q, k):
    return Combined(q["vector"], q["position"], k["vector"], k["position"], 1).axes[0]


def drift_axis(q, k):
    c = exact_drift(*(np.concatenate([q[name], k[name]]) for name in ("vector", "position")))
    return c / np.linalg.norm(c)


def linear(q, k, names, find_axis, level, refit):
    """Intervals of numbers along an axis that is kept or, with refit, found again each time."""
    axis = find_axis(q, k)

    def numbers(some_q, some_k):
        own = axis
        if refit:
            own = turned(find_axis(some_q, some_k), axis)
        return along(own, some_q, some_k)
    return intervals(q, k, numbers, along(axis, q, k), names, level, refit)


def pca(q, k, level=95, refit=False):
    return linear(q, k, ("r_q", "r_k"), first_axis, level, refit)


def rotation(q, k, level=95, refit=False):
    names = ("r_q_a", "r_k_a", "alpha_k", "bias_strength")
    return linear(q, k, names, drift_axis, level, refit)


def plasticity(q, k, level=95, refit=False, variance="diag"):
    whole = Plasticity(q, k, variance, tables=False)
    h = None if refit else whole.model.h

    def numbers(some_q, some_k):
        return Plasticity(some_q, some_k, variance, h=h, tables=False).metrics
    return intervals(q, k, numbers, whole.metrics, ("ap_overall", "ap_drop"), level)
