# SPDX-License-Identifier: Apache-2.0
"""What changed between two heads, done again by NumPy and SciPy: replicates of both without each group of texts in
turn, the jackknife of their differences, the interval of Zou and Donner and its inversion, principal angles."""
import math
import sys
from pathlib import Path

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "intervals"))

from intervals_oracle import CORRELATIONS, along, drift_axis, first_axis, groups_of, pair_distance, pairs_axis, replicates, turned

TURNING = ("r_q", "r_k")


def signed_axis(q, k):
    """PC0 as the PCA has it: r_q >= 0, or r_k >= 0 where r_q is small."""
    axis = first_axis(q, k)
    on = along(axis, q, k)
    away = on["r_q"] < 0 and abs(on["r_q"]) >= 0.05 or abs(on["r_q"]) < 0.05 and on["r_k"] < 0
    return -axis if away else axis


ON_DRIFT = ("r_q_a", "r_k_a", "alpha_q", "alpha_k", "bias_strength")


def separation(q, k):
    """Share of the mean squared distance of queries from keys that lies along b."""
    b = pairs_axis(q, k)
    x, y = (np.asarray(side["vector"], float) for side in (q, k))
    along_b = (x @ b).var() + (y @ b).var() + (b @ (x.mean(0) - y.mean(0))) ** 2
    return along_b / pair_distance(q, k, ..., ...)


def numbers_of(q, k):
    """Those with intervals that need no plasticity, along axes that are fitted."""
    on_first, on_drift = along(signed_axis(q, k), q, k), along(drift_axis(q, k), q, k)
    return {"r_q": on_first["r_q"], "r_k": on_first["r_k"],
            **{name: on_drift[name] for name in ON_DRIFT}, "separation_strength": separation(q, k)}


def runs_of(q, k):
    """[numbers without group g], signed as the axes of all rows."""
    first, drift = signed_axis(q, k), drift_axis(q, k)

    def repeated(some_q, some_k):
        on_first = along(turned(first_axis(some_q, some_k), first), some_q, some_k)
        on_drift = along(turned(drift_axis(some_q, some_k), drift), some_q, some_k)
        return {**{name: on_first[name] for name in TURNING},
                **{name: on_drift[name] for name in ON_DRIFT},
                "separation_strength": separation(some_q, some_k)}
    return [run for run, _ in replicates(q, k, repeated)]


def turn_of(a, b):
    """-1 where PC0 of b = (q, k) points away from that of a; None where it lies 45 degrees off or more."""
    cosine = float(signed_axis(*a) @ signed_axis(*b))
    return None if abs(cosine) < math.sqrt(0.5) else -1 if cosine < 0 else 1


def paired(a, b, runs_a, runs_b, level=0.95):
    """(difference, low, high, p) of numbers of the same texts."""
    d = np.array(runs_b, float) - np.array(runs_a, float)
    g = len(d)
    se = math.sqrt((g - 1) / g * float(((d - d.mean()) ** 2).sum()))
    t = scipy.stats.t(g - 1)
    return b - a, b - a - t.ppf((1 + level) / 2) * se, b - a + t.ppf((1 + level) / 2) * se, 2 * t.sf(abs(b - a) / se)


def independent(name, a, b, ends_a, ends_b, groups, level=0.95):
    """The same of different texts, from the intervals of each, by the definition: p is 1 less the level at which the
    interval just holds 0."""
    move, back = (np.arctanh, np.tanh) if name in CORRELATIONS else (float, float)
    t = scipy.stats.t(groups - 1)
    whole = t.ppf((1 + level) / 2)

    def interval(quantile):
        def scaled(value, end):
            return back(move(value) + (move(end) - move(value)) * quantile / whole)
        (la, ua), (lb, ub) = ([scaled(v, end) for end in ends] for v, ends in ((a, ends_a), (b, ends_b)))
        return b - a - math.hypot(b - lb, ua - a), b - a + math.hypot(ub - b, a - la)

    near = 0 if b > a else 1
    quantile = scipy.optimize.brentq(lambda c: interval(c)[near], 1e-9, 1e4, xtol=1e-12)
    return (b - a, *interval(whole), 2 * t.sf(quantile))


def leading(rows, count):
    """Rows: orthonormal leading eigenvectors of the covariance."""
    values, vectors = np.linalg.eigh(np.cov(rows, rowvar=False))
    return vectors[:, ::-1][:, :count].T


def spaces_of(q, k, count):
    q, k = q["vector"], k["vector"]
    return {"qk": leading(np.concatenate([q, k]), count), "q": leading(q, count), "k": leading(k, count)}


def angles(a, b):
    """In degrees, ascending."""
    return np.degrees(scipy.linalg.subspace_angles(a.T, b.T))[::-1]


def overlap(a, b):
    return float(np.mean(np.linalg.svd(a @ b.T, compute_uv=False) ** 2))


def halves(q, k, count):
    """The overlap of the spaces that each half of the texts gives, by space."""
    group_q, group_k, number = groups_of(q, k, 2)
    if number != 2:
        return dict.fromkeys(("qk", "q", "k"))
    parts = [spaces_of(*({"vector": side["vector"][group == g]} for side, group in ((q, group_q), (k, group_k))), count)
             for g in (0, 1)]
    return {name: overlap(parts[0][name], parts[1][name]) for name in parts[0]}
