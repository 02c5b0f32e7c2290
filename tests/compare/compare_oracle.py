# SPDX-License-Identifier: Apache-2.0
"""The interval of a difference by Zou and Donner, and its inversion, done again by SciPy; and that of the same texts, by repetitions
of both from their rows."""
import math
import sys
from pathlib import Path

import numpy as np
import scipy.optimize
import scipy.stats

sys.path += [str(Path(__file__).resolve().parents[1] / room) for room in ("intervals", "report")]

import intervals_oracle
from intervals_oracle import CORRELATIONS
from layers_oracle import layers_expected

ON_A = ("r_q_a", "r_k_a", "alpha_q", "alpha_k", "bias_strength")


def independent(name, a, b, ends_a, ends_b, groups, level=0.95):
    """(difference, low, high, p) of different texts, from the intervals of each, by the definition: p is 1 less the level at which the
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


def repeated(q, k):
    """{name: (cross-fitted number, repetitions, nested repetitions or None)} of one head."""
    found = {}
    for names, axis, nested in ((("r_q", "r_k"), intervals_oracle.first_axis, None), (ON_A, intervals_oracle.drift_axis, intervals_oracle.plain_drift),
                                (("separation_strength",), intervals_oracle.pairs_axis, None)):
        runs = []
        values = intervals_oracle.crossed(q, k, names, axis, 95, nested=nested, runs=runs)
        for name in names:
            found[name] = (values[f"{name}_cv"], *([run[name] for run in some] if some else None for some in runs))
    context = float(max(q["position"].max(), k["position"].max())) + 1
    found["bias_over_context"] = tuple(np.array(x) * context for x in found["bias_strength"])
    return found


def paired(a, b, degrees, level=0.95):
    """(difference, low, high, p) of the same texts: the jackknife of the differences."""
    def variance(in_a, in_b):
        d = np.array(in_b, float) - np.array(in_a, float)
        return (len(d) - 1) / len(d) * float(((d - d.mean()) ** 2).sum())
    whole, se = b[0] - a[0], variance(a[1], b[1])
    se = math.sqrt(se if a[2] is None else (2 * se + variance(a[2], b[2])) / 3)
    t = scipy.stats.t(degrees)
    reach = t.ppf((1 + level) / 2) * se
    return whole, whole - reach, whole + reach, 2 * t.sf(abs(whole) / se)


def limits(ends):
    """Where the interval of a difference of correlations ends at most, from the ends of a's and b's."""
    a_lo, a_hi, b_lo, b_hi = ends
    return min(0, b_lo - a_hi), max(0, b_hi - a_lo)


def mean_over_layers(layer, means):
    """(p, low, high, whether the layers' interval is the wider one) of a mean of key heads."""
    plain = scipy.stats.ttest_1samp(means, 0)

    def of_layers(against):
        return layers_expected(False, against, np.zeros(len(layer), int), layer, None, means)
    p, side = of_layers(0)
    p = max(p, plain.pvalue) if side == np.sign(means.mean()) else 1
    middle, far = means.mean(), 100 * np.ptp(means)
    careful = [scipy.optimize.brentq(lambda x: of_layers(x)[0] - 0.05, *ends, xtol=1e-10) for ends in ((middle - far, middle), (middle, middle + far))]
    ends = list(plain.confidence_interval(0.95))
    layers = np.ptp(careful) > np.ptp(ends)
    return (p, *(careful if layers else ends), layers)
