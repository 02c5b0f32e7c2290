# SPDX-License-Identifier: Apache-2.0
"""Attention plasticity in NumPy and SciPy, from the definitions alone, to compare with: every
pair of keys is formed, for every query bucket anew, and its probability is SciPy's."""
import math
from fractions import Fraction

import numpy as np
import scipy.special
import scipy.stats

EPS = np.finfo(float).eps
METRICS = ("n_q", "n_k", "d", "sliding_window", "bucket_width", "q_R2_pos", "beta_norm",
           "q_R2_scalar", "q_mae_baseline", "q_mae_proj", "q_mae_ratio", "q_resid0_skew",
           "q_resid0_kurt", "q_resid0_ks_p", "q_noise_med_abs_skew", "q_noise_med_abs_kurt",
           "q_noise_med_ks_p", "q_noise_frac_ks_p_lt_alpha", "ap_overall", "ap_first_20pct",
           "ap_last_20pct", "ap_drop", "ap_mean")
BINS = 512


# ---- the query model -------------------------------------------------------------------------

def reflection(direction):
    """The Householder matrix that takes a unit vector to e1."""
    u = direction.astype(np.longdouble)
    # e1 - u has its own first entry from the others: near e1 a difference would lose digits.
    rest = float(u[1:] @ u[1:])
    first = -rest / (1 + u[0]) if u[0] > 0 else u[0] - 1
    u = np.concatenate([[first], u[1:]])
    size = u @ u
    if size == 0:
        return np.eye(len(u))
    return (np.eye(len(u)) - 2 * np.outer(u, u) / size).astype(np.float64)


class Queries:
    """Regression of queries on position, and the reflection."""

    def __init__(self, x, t):
        self.n, self.dim = x.shape
        self.mean = x.mean(axis=0, dtype=np.longdouble).astype(np.float64)
        self.x = (x - x.mean(axis=0, dtype=np.longdouble)).astype(np.float64)
        self.first_t = int(t.min())
        shifted = t - self.first_t
        self.mean_shifted = int(shifted.sum()) / self.n
        self.t = shifted - self.mean_shifted
        self.sum_tt = float(self.t @ self.t)
        self.total = float((self.x ** 2).sum())
        self.covariant = self.t @ self.x
        # What rounding leaves of no drift at all.
        size = np.linalg.norm(self.covariant)
        self.drifts = size > self.dim * EPS * math.sqrt(self.sum_tt * self.total)
        self.beta = self.covariant / self.sum_tt if self.drifts else np.zeros(self.dim)
        self.norm = float(np.linalg.norm(self.beta))
        self.h = reflection(self.beta / self.norm) if self.drifts else np.eye(self.dim)
        self.residuals = self.reflect(self.x - np.outer(self.t, self.beta))
        self.variances = self.spread(self.residuals)

    def reflect(self, x):
        return x @ self.h.T

    def spread(self, rows):
        """Variances of the columns; below dim roundings of the total one counts as zero."""
        if self.n < 2:
            return np.zeros(self.dim)
        variances = (rows ** 2).sum(axis=0) / (self.n - 1)
        total = self.total / (self.n - 1)
        return np.where(variances > self.dim * EPS * total, variances, 0.0)

    def at(self, shifted):
        """mu at a position counted from the first, in reflected coordinates."""
        return self.reflect(self.mean + self.beta * (shifted - self.mean_shifted))

    def r_squared(self):
        """Share of each dimension's variance that is linear in position."""
        sums = (self.x ** 2).sum(axis=0)
        real = sums > self.dim * EPS * self.total
        if not self.drifts:
            return np.zeros(self.dim)
        r2 = np.zeros(self.dim)
        r2[real] = self.covariant[real] ** 2 / (sums[real] * self.sum_tt)
        return r2


def shape_of(values, variance):
    """Bias-corrected skewness and excess kurtosis, KS p-value of the standardised values."""
    n = len(values)
    if n < 2 or variance <= 0:
        return None, None, None
    skew = scipy.stats.skew(values, bias=False) if n >= 3 else None
    kurt = scipy.stats.kurtosis(values, bias=False) if n >= 4 else None
    standard = (values - values.mean()) / values.std(ddof=1)
    return skew, kurt, scipy.stats.kstest(standard, scipy.stats.norm.cdf, method="asymp").pvalue


def median(values):
    values = [v for v in values if v is not None]
    return float(np.median(values)) if values else None


# ---- buckets ---------------------------------------------------------------------------------

def two_factors(w):
    return (w & -w).bit_length() - 1


def infer_width(bucket, position):
    """W of rows of both kinds; an integer wherever one fits."""
    low, high = 1, None
    fits = True
    for b, p in set(zip(bucket.tolist(), position.tolist())):
        # floor(p / w) = b  <=>  b w <= p < (b + 1) w
        if (b >= 0) != (p >= 0):
            fits = False
        elif b > 0:
            low, high = max(low, p // (b + 1) + 1), lower(high, p // b)
        elif b == 0:
            low = max(low, p + 1)
        else:
            low = max(low, -(p // -b))  # ceil(p / b)
            if b < -1:
                high = lower(high, (-p - 1) // (-b - 1))
    if fits and high is not None and low <= high:
        return min(range(low, high + 1), key=lambda w: (-two_factors(w), w)), True
    span = int(position.max()) - int(position.min()) + 1
    return Fraction(span, int(bucket.max()) - int(bucket.min()) + 1), False


def lower(high, value):
    return value if high is None else min(high, value)


# ---- pairs -----------------------------------------------------------------------------------

class Pairs:
    """Every pair of keys of the same example: indices of both, and their difference."""

    def __init__(self, x, example):
        first, second = [], []
        for e in np.unique(example):
            rows = np.flatnonzero(example == e)
            i, j = np.triu_indices(len(rows), 1)
            first.append(rows[i])
            second.append(rows[j])
        self.i, self.j = np.concatenate(first), np.concatenate(second)
        self.delta = x[self.i] - x[self.j]


def plasticity(mean, variance):
    """4 p (1 - p) of pairs, from the mean and variance of their score difference."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.abs(mean) / np.sqrt(variance)
    tail = scipy.special.ndtr(-z)
    pp = 4 * tail * (1 - tail)
    flat = variance <= 0
    pp[flat] = np.where(mean[flat] == 0, 1.0, 0.0)
    return pp


class Plasticity:
    """All tables of one query head with its key head. q and k are dicts of columns (vector,
    position, bucket, example_id); the queries have sliding_window, too."""

    def __init__(self, q, k, bucket_width=None, alpha=0.01, tables=True, near=None):
        """near: how far the keys of a pair may be apart, of the length of their text."""
        self.q, self.k = q, k
        self.model = Queries(q["vector"], q["position"])
        windows = np.unique(np.maximum(q["sliding_window"], 0))
        assert len(windows) == 1
        self.window = int(windows[0]) or None
        self.find_width(bucket_width)
        self.pairs = Pairs(k["vector"], k["example_id"])
        self.near = np.ones(len(self.pairs.i), bool)
        if near:
            s, text = np.asarray(k["position"], float), np.asarray(k["example_id"])
            most = np.array([near(s[text == t].max() + 1) for t in text[self.pairs.i]])
            self.near = np.abs(s[self.pairs.i] - s[self.pairs.j]) <= most
        self.reflected = self.model.reflect(self.pairs.delta)
        self.diagonal = (self.reflected ** 2) @ self.model.variances
        self.profile, self.buckets, self.distance, self.spread_pp = [], [], {}, {}
        for j in np.unique(q["bucket"]):
            if j > 0:
                self.one_bucket(int(j), tables)
        self.alpha = alpha
        self.fill_metrics(alpha if tables else None)

    def find_width(self, given):
        q, k = self.q, self.k
        self.width = Fraction(given) if given else infer_width(
            np.concatenate([q["bucket"], k["bucket"]]),
            np.concatenate([q["position"], k["position"]]))[0]
        tau = [q["position"][q["bucket"] == j].mean() for j in np.unique(q["bucket"]) if j > 0]
        if tau:
            least = (np.ptp(tau) + np.ptp(k["position"])) / (BINS - 2)
            self.width = max(self.width, Fraction(float(least)))

    # ---- one query bucket --------------------------------------------------------------------

    def one_bucket(self, j, tables):
        rows = np.flatnonzero(self.q["bucket"] == j)
        tau = Fraction(int(self.q["position"][rows].sum()), len(rows))
        eligible = self.k["bucket"] < j
        if self.window:
            near = np.array([tau - int(s) <= self.window for s in self.k["position"]], bool)
            eligible &= near | (self.k["bucket"] == j - 1)
        use = np.flatnonzero(eligible[self.pairs.i] & eligible[self.pairs.j] & self.near)
        pp = self.pair_plasticities(tau, use)
        ap = float(pp.mean()) if len(pp) else None
        self.profile.append({"q_bucket": j, "position": float(tau), "n_queries": len(rows),
                             "n_pairs": len(use), "ap": ap})
        self.spread_pp[j] = pp
        if tables:
            self.key_buckets(j, eligible, use, pp)
            self.distances(tau, use, pp)

    def pair_plasticities(self, tau, use):
        mu = self.model.at(float(tau - self.model.first_t))
        return plasticity((self.reflected @ mu)[use], self.diagonal[use])

    def key_buckets(self, j, eligible, use, pp):
        b = self.k["bucket"]
        both = b[self.pairs.i[use]] == b[self.pairs.j[use]]
        own = b[self.pairs.i[use]]
        for key_bucket in np.unique(b[eligible]):
            here = both & (own == key_bucket)
            values = pp[here]
            self.buckets.append({"q_bucket": j, "k_bucket": int(key_bucket),
                                 "n_pairs": len(values),
                                 "ap_bucket": float(values.mean()) if len(values) else None})
            self.spread_pp[j, int(key_bucket)] = values

    def distances(self, tau, use, pp):
        if pp is None or not len(pp):
            return
        s = self.k["position"]
        s1, s2 = s[self.pairs.i[use]], s[self.pairs.j[use]]
        w = Fraction(self.width)
        if w.denominator == 1:  # in integers, exact at the edges of the bins
            far = np.abs(s1 - s2) // int(w)
            lag = (2 * tau.numerator - tau.denominator * (s1 + s2)) // (
                2 * tau.denominator * int(w))
        else:
            far = np.floor(np.abs(s1 - s2) / float(w)).astype(int)
            lag = np.floor((float(tau) - (s1 + s2) / 2) / float(w)).astype(int)
        for cell, value in zip(zip(far.tolist(), lag.tolist()), pp):
            self.distance.setdefault(cell, []).append(value)

    # ---- head_metrics.csv --------------------------------------------------------------------

    def fill_metrics(self, alpha):
        m, self.metrics = self.model, dict.fromkeys(METRICS)
        self.metrics.update(n_q=m.n, n_k=len(self.k["position"]), d=m.dim,
                            sliding_window=self.window, bucket_width=float(self.width))
        if alpha is not None:
            self.fill_position()
            self.fill_normality(alpha)
        self.fill_ap()

    def fill_position(self):
        m, n = self.model, self.metrics
        r2 = m.r_squared()
        self.r2 = r2
        self.weights = r2 / r2.sum() if r2.sum() > 0 else None
        n["q_R2_pos"], n["beta_norm"] = float(r2.mean()), m.norm
        if (self.q["position"] < 0).any():
            return
        y = np.log2(self.q["position"] + 1.0)
        x = m.x @ (m.beta / (m.norm or 1.0))
        design = np.stack([x, np.ones_like(x)], axis=1)
        residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
        n["q_mae_baseline"] = float(np.abs(y - y.mean()).mean())
        n["q_mae_proj"] = float(np.abs(residual).mean())
        if np.ptp(y) > 0:
            total = float(((y - y.mean()) ** 2).sum())
            n["q_R2_scalar"] = 1 - float(residual @ residual) / total
            n["q_mae_ratio"] = n["q_mae_proj"] / n["q_mae_baseline"]

    def fill_normality(self, alpha):
        m, n = self.model, self.metrics
        first = shape_of(m.residuals[:, 0], m.variances[0])
        n["q_resid0_skew"], n["q_resid0_kurt"], n["q_resid0_ks_p"] = first
        noise = m.reflect(m.x)[:, 1:]
        shapes = [shape_of(noise[:, i], v) for i, v in enumerate(m.spread(m.reflect(m.x))[1:])]
        skews, kurts, self.ks = zip(*shapes) if shapes else ((), (), ())
        n["q_noise_med_abs_skew"] = median([None if v is None else abs(v) for v in skews])
        n["q_noise_med_abs_kurt"] = median([None if v is None else abs(v) for v in kurts])
        n["q_noise_med_ks_p"] = median(self.ks)
        below = [p < alpha for p in self.ks if p is not None]
        n["q_noise_frac_ks_p_lt_alpha"] = float(np.mean(below)) if below else None

    def fill_ap(self):
        """Every query brings the AP of its bucket; means over all, fifths and tenths."""
        n, t = self.metrics, self.q["position"]
        ap = {row["q_bucket"]: row["ap"] for row in self.profile}
        values = np.array([math.nan if ap.get(b) is None else ap[b]
                           for b in self.q["bucket"].tolist()])
        length = int(t.max()) + 1
        n["ap_overall"] = mean_of(values)
        cells = [cell["ap_bucket"] for cell in self.buckets]
        n["ap_mean"] = mean_of(np.array([math.nan if c is None else c for c in cells]))
        self.parts = {}
        for letter, count in (("q", 5), ("d", 10)):
            part = count * t // length if length > 0 else np.full(len(t), -1)
            for i in range(count):
                self.parts[f"{letter}{i + 1}"] = mean_of(values[part == i])
        first, last = self.parts["q1"], self.parts["q5"]
        n["ap_first_20pct"], n["ap_last_20pct"] = first, last
        n["ap_drop"] = None if first is None or last is None else first - last


def mean_of(values):
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else None


def model_report(heads):
    """The one row of model_report.csv, from all heads of a model."""
    row = {"heads": len(heads)}
    columns = [*heads[0].parts, "ap_overall", "ap_first_20pct", "ap_last_20pct", "ap_drop",
               "ap_mean"]
    for column in columns:
        values = [{**head.parts, **head.metrics}[column] for head in heads]
        values = [v for v in values if v is not None]
        row[column] = float(np.mean(values)) if values else None
    return row
