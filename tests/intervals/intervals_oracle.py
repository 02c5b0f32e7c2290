# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals by doing what the definition says: leave out the rows of one group of texts, analyse
the rest from the beginning, and look at how far the numbers moved, or at the group along the axes of the rest."""
import math
import sys
from pathlib import Path

import numpy as np
import scipy.stats

for room in ("pca", "rotation", "plasticity"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / room))

from pca_oracle import Combined, Rows, key_share as share_of_key
from plasticity_oracle import Plasticity
from rotation_oracle import exact_drift

GROUPS = 32
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


def effective(position, group):
    """(as many groups of equal weight know as much, groups), by their shares of the spread of positions."""
    far = (np.asarray(position, float) - np.mean(position)) ** 2
    share = np.bincount(group, far)
    count, share = (share > 0).sum(), share / max(share.sum(), 1e-300)
    found = 1 / max((share ** 2).sum(), 1e-300)
    return (count if found > count - 0.5 else found), count


def degrees_of(q, k):
    """Of freedom, of the kind that has fewer; 0: too few of the groups carry the weight."""
    both = []
    for side, group in zip((q, k), groups_of(q, k)):
        found, count = effective(side["position"], group)
        both.append(found - 1 if found >= (count if count < 8 else (count + 16) / 3) else 0)
    return min(both)


def interval(name, value, values, level, degrees):
    """(low, high) of a number from its replicates; None where there is none."""
    if value is None or len(values) < 2 or degrees < 1 or any(v is None for v in values):
        return None, None
    correlation = name in CORRELATIONS
    values = np.array(values, float)
    if correlation:
        value, values = math.atanh(value), np.arctanh(values)
    g = len(values)
    se = math.sqrt((g - 1) / g * float(((values - values.mean()) ** 2).sum()))
    reach = scipy.stats.t.ppf((1 + level / 100) / 2, degrees) * se
    ends = value - reach, value + reach
    if correlation:
        return math.tanh(ends[0]), math.tanh(ends[1])
    if name in ("ap_overall", "key_share"):
        return max(ends[0], 0.0), min(ends[1], 1.0)
    return ends


def intervals(q, k, numbers, value_of, names, level):
    """{name_lo, name_hi} of all names, by the plain jackknife."""
    runs = replicates(q, k, numbers)
    result = {}
    for name in names:
        low, high = interval(name, value_of[name], [run[name] for run, _ in runs], level,
                             degrees_of(q, k))
        result[name + "_lo"], result[name + "_hi"] = low, high
    return result


# ---- along fitted axes -----------------------------------------------------------------------

def line(columns, chosen, axis):
    """n, means of t and x, and sums of squares about them, of the chosen rows along an axis."""
    if not chosen.any():
        return (0,) * 6
    x = np.asarray(columns["vector"], float)[chosen] @ axis
    t = np.asarray(columns["position"], float)[chosen]
    u, y = t - t.mean(), x - x.mean()
    return len(x), t.mean(), x.mean(), u @ u, u @ y, y @ y


def joined(lines):
    """The same of all together."""
    n, t, x, tt, xt, xx = np.array([one for one in lines if one[0]], float).T
    u, y = t - n @ t / n.sum(), x - n @ x / n.sum()
    return n.sum(), n @ t / n.sum(), n @ x / n.sum(), (tt + n * u * u).sum(), \
        (xt + n * u * y).sum(), (xx + n * y * y).sum()


def numbers_of(lines_q, lines_k, total):
    (n_q, _, mu_q, tt_q, xt_q, xx_q), (n_k, _, mu_k, tt_k, xt_k, xx_k) = joined(lines_q), joined(lines_k)
    with np.errstate(all="ignore"):
        r_q, r_k = xt_q / np.sqrt(tt_q * xx_q), xt_k / np.sqrt(tt_k * xx_k)
        return {"r_q": r_q, "r_k": r_k, "r_q_a": r_q, "r_k_a": r_k, "alpha_q": xt_q / tt_q,
                "alpha_k": xt_k / tt_k, "bias_strength": mu_q * xt_k / tt_k,
                "separation_strength": (xx_q / n_q + xx_k / n_k + (mu_q - mu_k) ** 2) / total}


def pair_distance(q, k, chosen_q, chosen_k):
    """Mean squared distance of a query from a key."""
    x, y = (np.asarray(side["vector"], float)[chosen] for side, chosen in ((q, chosen_q), (k, chosen_k)))
    return x.var(0).sum() + y.var(0).sum() + ((x.mean(0) - y.mean(0)) ** 2).sum()


def crossed(q, k, names, find_axis, level, nested=None, runs=None):
    """{name_cv, name_lo, name_hi}: each group of texts along the axis that the others have, on the side of
    that of all rows; how far that moves, by a jackknife of the number along the axis that the same rows have.
    runs: a list that takes the repetitions of both kinds.
    nested: finds an axis that is fitted to position, so that jackknife finds half of what groups share, and one of
    the number that is told, with groups left out of all axes, too, finds it twice (docs/how-sure.md)."""
    group_q, group_k, count = groups_of(q, k)
    empty = {f"{name}_{end}": None for name in names for end in ("cv", "lo", "hi")}
    whole = find_axis(q, k)
    if count < 2 or whole is None:
        return empty

    def rest(*out):
        return [{name: values[~np.isin(group, out)] for name, values in side.items()}
                for side, group in ((q, group_q), (k, group_k))]
    axes = []
    for g in range(count):
        some_q, some_k = rest(g)
        axis = find_axis(some_q, some_k) if len(some_q["position"]) and len(some_k["position"]) else None
        if axis is None:
            return empty
        axes.append(turned(axis, whole))

    def lines(out, axis_of=None):
        found = []
        for side, group in ((q, group_q), (k, group_k)):
            found.append([])
            for g in range(count):
                if g == out:
                    continue
                seen = line(side, group == g, axes[g])
                if axis_of is not None and seen[0]:
                    moved = line(side, group == g, axis_of[g])
                    seen = (*seen[:2], moved[2], seen[3], moved[4], seen[5])
                found[-1].append(seen)
        return found

    def total(out):
        return pair_distance(q, k, group_q != out, group_k != out)
    value = numbers_of(*lines(None), total(-1))
    plain = [numbers_of(*([line(side, group != j, axes[j])] for side, group in ((q, group_q), (k, group_k))),
                        total(j)) for j in range(count)]
    refitted = [numbers_of(*lines(j, [None if g == j else turned(nested(*rest(g, j)), whole)
                                      for g in range(count)]), 1)
                for j in range(count)] if nested and count > 2 else None
    if runs is not None:
        runs += [plain, refitted]
    result = {}
    for name in names:
        def spread(some):
            z = [run[name] for run in some]
            z = np.arctanh(z) if name in CORRELATIONS else np.array(z)
            return (count - 1) / count * ((z - z.mean()) ** 2).sum()
        with np.errstate(all="ignore"):
            variance = spread(plain)
            if nested:
                variance = (2 * variance + spread(refitted)) / 3 if refitted else math.nan
            center = np.arctanh(value[name]) if name in CORRELATIONS else value[name]
            degrees = degrees_of(q, k)
            quantile = scipy.stats.t.ppf((1 + level / 100) / 2, degrees) if degrees >= 1 else math.nan
            reach = quantile * math.sqrt(variance)
            ends = [center - reach, center + reach]
            ends = np.tanh(ends) if name in CORRELATIONS else ends
        there = np.isfinite(center) and math.isfinite(reach)
        result[f"{name}_cv"] = value[name] if np.isfinite(value[name]) else None
        result[f"{name}_lo"], result[f"{name}_hi"] = ends if there else (None, None)
    return result


# ---- the three analyses ----------------------------------------------------------------------

def along(axis, q, k):
    """r, slope and mean of the projections on a given axis."""
    sides = [Rows(side["vector"], side["position"]).along(axis) for side in (q, k)]
    (mu_q, alpha_q, _, r_q), (_, alpha_k, _, r_k) = sides
    bias = None if alpha_k is None else mu_q * alpha_k
    return {"r_q": r_q, "r_k": r_k, "r_q_a": r_q, "r_k_a": r_k, "alpha_q": alpha_q, "alpha_k": alpha_k,
            "bias_strength": bias}


def turned(axis, reference):
    return axis if axis @ reference >= 0 else -axis


def first_axis(q, k):
    return Combined(q["vector"], q["position"], k["vector"], k["position"], 1).axes[0]


def drift_axis(q, k):
    c = exact_drift(*(np.concatenate([q[name], k[name]]) for name in ("vector", "position")))
    length = np.linalg.norm(c)
    return c / length if length > 0 else None


def plain_drift(q, k):
    """The same in floating point, for the many axes of repetitions within repetitions."""
    x, t = (np.concatenate([np.asarray(side[name], float) for side in (q, k)]) for name in ("vector", "position"))
    c = (t - t.mean()) @ (x - x.mean(0))
    return c / np.linalg.norm(c)


def pairs_axis(q, k):
    """b: the largest eigenvector of the second moments of q - k over all pairs, off a."""
    a = drift_axis(q, k)
    x, y = (np.asarray(side["vector"], float) for side in (q, k))
    if a is None or len(a) < 2:
        return None
    gap = x.mean(0) - y.mean(0)
    off = np.eye(len(a)) - np.outer(a, a)
    pairs = np.cov(x.T, bias=True) + np.cov(y.T, bias=True) + np.outer(gap, gap)
    b = np.linalg.eigh(off @ pairs @ off)[1][:, -1]
    return b - a * (a @ b)


def pca(q, k, level=95):
    return crossed(q, k, ("r_q", "r_k"), first_axis, level)


def rotation(q, k, level=95):
    names = ("r_q_a", "r_k_a", "alpha_q", "alpha_k", "bias_strength")
    along_a = crossed(q, k, names, drift_axis, level, nested=plain_drift)
    context = float(max(q["position"].max(), k["position"].max())) + 1
    bias = {end: along_a["bias_strength_" + end] for end in ("cv", "lo", "hi")}
    return (along_a | {"bias_over_context_" + end: None if x is None else x * context for end, x in bias.items()}
            | crossed(q, k, ("separation_strength",), pairs_axis, level))


def key_share(q, k, level=95):
    def numbers(some_q, some_k):
        return {"key_share": share_of_key(np.asarray(some_q["vector"], float), Rows(some_k["vector"], some_k["position"]))}
    return intervals(q, k, numbers, numbers(q, k), ("key_share",), level)


def plasticity(q, k, level=95):
    whole = Plasticity(q, k, tables=False)

    def numbers(some_q, some_k):
        return Plasticity(some_q, some_k, tables=False).metrics
    return intervals(q, k, numbers, whole.metrics, ("ap_overall", "ap_drop"), level)
