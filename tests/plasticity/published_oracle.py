# SPDX-License-Identifier: Apache-2.0
"""Attention plasticity by the definitions of the original tool, in NumPy and SciPy, to compare
with: vectors turned by the signs of the mean keys, a reflection of those, windows in buckets,
the plain mean over pairs of buckets. Every pair of keys counts, where that tool draws 256."""
import itertools

import numpy as np
import scipy.stats


def orientation(keys):
    """A sign for each dimension: that of the mean over buckets of the mean keys."""
    means = [keys["vector"][keys["bucket"] == b].mean(axis=0) for b in np.unique(keys["bucket"])]
    return np.where(np.mean(means, axis=0) < 0, -1.0, 1.0)


def reflection(u):
    e1 = np.eye(len(u))[0]
    if np.linalg.norm(u - e1) < 1e-12:
        return np.eye(len(u))
    v = (u - e1) / np.linalg.norm(u - e1)
    return np.eye(len(u)) - 2 * np.outer(v, v)


def shape(values):
    z = (values - values.mean()) / values.std(ddof=1)
    return (scipy.stats.skew(z, bias=False), scipy.stats.kurtosis(z, bias=False),
            scipy.stats.kstest(z, "norm", method="asymp").pvalue)


class Head:
    """metrics, buckets {(q_bucket, k_bucket): plasticity or None}, r2 and weights of a head."""

    def __init__(self, q, k, alpha=0.01):
        signs = orientation(k)
        t, x, keys = q["position"].astype(float), q["vector"] * signs, k["vector"] * signs
        n, d = x.shape
        about = t - t.mean()
        beta = about @ x / (about @ about)
        residual = x - x.mean(axis=0) - np.outer(about, beta)
        self.r2 = 1 - (residual ** 2).sum(axis=0) / ((x - x.mean(axis=0)) ** 2).sum(axis=0)
        positive = np.maximum(self.r2, 0)
        self.weights = positive / positive.sum()
        norm = np.linalg.norm(beta)
        h = reflection(beta / norm)
        turned, self.keys, self.k = x @ h, keys @ h, k
        turned_beta = beta @ h
        left = residual @ h
        self.variances = left.var(axis=0, ddof=1)
        self.mean, self.beta, self.mean_t = turned.mean(axis=0), turned_beta, t.mean()
        self.metrics = {"n_q_tokens": n, "n_k_tokens": len(keys), "d_model": d,
                        "q_R2_pos": self.r2.mean(), "q_beta_norm": norm}
        self.describe_position(t, x @ (beta / norm))
        self.describe_shapes(turned, left, alpha)
        self.find_buckets(q)

    def describe_position(self, t, along):
        m, y = self.metrics, np.log2(t + 1)
        fit = np.polynomial.polynomial.Polynomial.fit(along, y, 1)
        error = y - fit(along)
        m["q_R2_scalar"] = 1 - (error ** 2).sum() / ((y - y.mean()) ** 2).sum()
        m["q_mae_baseline"] = np.abs(y - y.mean()).mean()
        m["q_mae_proj"] = np.abs(error).mean()
        m["q_mae_ratio"] = m["q_mae_proj"] / m["q_mae_baseline"]

    def describe_shapes(self, turned, left, alpha):
        m, d = self.metrics, turned.shape[1]
        m["q_resid0_skew"], m["q_resid0_kurt"], m["q_resid0_ks_p"] = shape(left[:, 0])
        skews, kurts, ps = np.array([shape(turned[:, i]) for i in range(1, d)]).T
        m["q_noise_med_abs_skew"] = np.median(np.abs(skews))
        m["q_noise_med_abs_kurt"] = np.median(np.abs(kurts))
        m["q_noise_med_ks_p"], m["q_noise_frac_ks_p_lt_alpha"] = np.median(ps), (ps < alpha).mean()

    def find_buckets(self, q):
        windows = np.unique(q["sliding_window"])
        assert len(windows) == 1
        window = max(1, int(windows[0])) if windows[0] > 0 else None
        self.buckets = {}
        for j in np.unique(q["bucket"]):
            tau = q["position"][q["bucket"] == j].mean()
            for c in np.unique(self.k["bucket"]):
                if j > 0 and c < j and (window is None or c >= j - window):
                    self.buckets[int(j), int(c)] = self.cell(tau, self.k["bucket"] == c)
        values = [v for v in self.buckets.values() if v is not None]
        self.metrics["ap_overall"] = np.mean(values) if values else None

    def cell(self, tau, inside):
        """Mean of 4 p (1 - p) over pairs of keys of one bucket and one text."""
        first, second = [], []
        for e in np.unique(self.k["example_id"][inside]):
            rows = np.flatnonzero(inside & (self.k["example_id"] == e))
            for i, j in itertools.combinations(rows.tolist(), 2):
                first.append(i)
                second.append(j)
        if not first:
            return None
        delta = self.keys[first] - self.keys[second]
        mu = self.mean + self.beta * (tau - self.mean_t)
        p = scipy.stats.norm.cdf(delta @ mu / np.sqrt(delta ** 2 @ self.variances))
        return (4 * p * (1 - p)).mean()
