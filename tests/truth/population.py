# SPDX-License-Identifier: Apache-2.0
"""What infinitely many rows of a synthetic head would show, from its truth.json alone. Captures
must be made with --truth-matrices and without turning planes: every kind then has mean m, drift
alpha (t - t0) a and content covariance basis^T diag(lambda) basis, positions uniform."""
import json
from pathlib import Path

import numpy as np
from scipy.stats import norm


class Kind:
    def __init__(self, head, var_t):
        self.mean = np.array(head["mean"])
        self.slope = head["alpha"] * np.array(head["a"])
        basis = np.array(head["basis"])
        self.content = basis.T @ np.diag(head["eigenvalues"]) @ basis
        self.var_t = var_t

    def covariance(self):
        return self.content + self.var_t * np.outer(self.slope, self.slope)

    def r(self, axis):
        drift = axis @ self.slope
        return drift * np.sqrt(self.var_t / (axis @ self.covariance() @ axis))


class Population:
    """A query head and its key head."""

    def __init__(self, folder, layer=0, q_head=0, k_head=0):
        truth = json.loads((Path(folder) / "truth.json").read_text())
        heads = {head["name"]: head for head in truth["heads"]}
        self.settings = truth["settings"]
        self.center, self.var_t = truth["position_center"], truth["position_variance"]
        self.q = Kind(heads[f"l{layer:02d}h{q_head:02d}q"], self.var_t)
        self.k = Kind(heads[f"l{layer:02d}h{k_head:02d}k"], self.var_t)

    def drift_axis(self):
        """Both kinds have as many rows, at positions of one distribution."""
        c = self.q.slope + self.k.slope
        return c / np.linalg.norm(c)

    def pooled(self):
        gap = self.q.mean - self.k.mean
        within = (self.q.covariance() + self.k.covariance()) / 2
        across = self.q.slope + self.k.slope
        return within + np.outer(gap, gap) / 4, across

    def first_component(self):
        return np.linalg.eigh(self.pooled()[0])[1][:, -1]

    def plasticity(self, examples, rng):
        """AP_j for every query bucket j > 0, one key in every bucket of every example."""
        buckets, width = self.settings["buckets"], self.settings["bucket_width"]
        first = self.settings["position_offset"]
        beta = self.q.slope
        h = np.eye(len(beta))
        if np.linalg.norm(beta) > 0:
            v = beta / np.linalg.norm(beta) - h[0]
            h = h - 2 * np.outer(v, v) / (v @ v)
        sd = np.sqrt(np.diag(h @ self.q.content @ h))
        position = first + width * np.arange(buckets) + rng.integers(0, width,
                                                                    (examples, buckets))
        root = np.linalg.cholesky(self.k.content)
        keys = (rng.standard_normal((examples, buckets, len(beta))) @ root.T + self.k.mean
                + (position - self.center)[..., None] * self.k.slope)
        one, two = np.triu_indices(buckets, 1)
        delta = keys[:, one] - keys[:, two]
        spread = np.linalg.norm((delta @ h) * sd, axis=-1)
        level, drift = delta @ self.q.mean / spread, delta @ beta / spread
        profile = np.full(buckets, np.nan)
        for j in range(2, buckets):
            tau = first + width * j + (width - 1) / 2
            seen = two < j
            z = level[:, seen] + drift[:, seen] * (tau - self.center)
            profile[j] = (4 * norm.sf(np.abs(z)) * norm.cdf(np.abs(z))).mean()
        return profile

    def fifths(self, profile):
        """Means over queries of each fifth of the context, queries spread evenly."""
        buckets, width = self.settings["buckets"], self.settings["bucket_width"]
        t = np.arange(buckets * width)
        fifth, ap = 5 * t // (buckets * width), profile[t // width]
        return np.array([np.nanmean(ap[fifth == i]) for i in range(5)])
