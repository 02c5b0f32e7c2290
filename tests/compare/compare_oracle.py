# SPDX-License-Identifier: Apache-2.0
"""The interval of a difference by Zou and Donner, and its inversion, done again by SciPy."""
import math
import sys
from pathlib import Path

import numpy as np
import scipy.optimize
import scipy.stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "intervals"))

from intervals_oracle import CORRELATIONS


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
