# SPDX-License-Identifier: Apache-2.0
"""Heads of which everything is known: a kind of vectors has a mean, a drift with position, and content around both, and
positions are uniform. So is what infinitely many rows of them would show."""
import numpy as np
from conftest import head_name, write_rows
from scipy.special import ndtr

BUCKETS, WIDTH = 16, 128
TOKENS = BUCKETS * WIDTH
CENTER, VAR_T = (TOKENS - 1) / 2, (TOKENS ** 2 - 1) / 12


def unit(rng, dim):
    u = rng.standard_normal(dim)
    return u / np.linalg.norm(u)


class Kind:
    def __init__(self, mean, slope, content):
        self.mean, self.slope, self.content = mean, slope, content

    def covariance(self):
        return self.content + VAR_T * np.outer(self.slope, self.slope)

    def r(self, axis):
        return axis @ self.slope * np.sqrt(VAR_T / (axis @ self.covariance() @ axis))

    def at(self, rng, position):
        noise = rng.standard_normal((*position.shape, len(self.mean))) @ np.linalg.cholesky(self.content).T
        return self.mean + (position - CENTER)[..., None] * self.slope + noise

    def rows(self, rng, texts):
        """One row in every bucket of every text."""
        position = (WIDTH * np.arange(BUCKETS) + rng.integers(0, WIDTH, (texts, BUCKETS))).ravel()
        return {"vector": self.at(rng, position).astype(np.float32), "position": position,
                "bucket": position // WIDTH, "example_id": np.arange(len(position)) // BUCKETS}


def drawn(rng, dim, r_q, r_k, separation):
    """Both kinds drift along one axis, with these correlations; means anywhere, so far from 0."""
    a, kinds = unit(rng, dim), []
    for r in (r_q, r_k):
        basis = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        content = basis.T @ np.diag(1 / np.arange(1, dim + 1)) @ basis
        slope = r / np.sqrt(1 - r * r) * np.sqrt(a @ content @ a / VAR_T)
        kinds.append(Kind(separation * unit(rng, dim), slope * a, content))
    return Population(*kinds)


def write_heads(folder, rng, populations, texts):
    for head, population in enumerate(populations):
        write_rows(folder, head_name(0, head, "q"), population.q.rows(rng, texts))
        write_rows(folder, head_name(0, head, "k"), population.k.rows(rng, texts))
    return folder


class Population:
    """A query head and its key head."""

    def __init__(self, q, k):
        self.q, self.k = q, k

    def drift_axis(self):
        """Both kinds have as many rows, at positions of one distribution."""
        c = self.q.slope + self.k.slope
        return c / np.linalg.norm(c)

    def first_component(self):
        gap = self.q.mean - self.k.mean
        pooled = (self.q.covariance() + self.k.covariance()) / 2 + np.outer(gap, gap) / 4
        return np.linalg.eigh(pooled)[1][:, -1]

    def plasticity(self, texts, rng):
        """AP_j for every query bucket j > 0, one key in every bucket of every text."""
        beta, h = self.q.slope, np.eye(len(self.q.slope))
        if np.linalg.norm(beta) > 0:
            v = beta / np.linalg.norm(beta) - h[0]
            h = h - 2 * np.outer(v, v) / (v @ v)
        sd = np.sqrt(np.diag(h @ self.q.content @ h))
        keys = self.k.at(rng, WIDTH * np.arange(BUCKETS) + rng.integers(0, WIDTH, (texts, BUCKETS)))
        one, two = np.triu_indices(BUCKETS, 1)
        delta = keys[:, one] - keys[:, two]
        spread = np.linalg.norm((delta @ h) * sd, axis=-1)
        level, drift = delta @ self.q.mean / spread, delta @ beta / spread
        profile = np.full(BUCKETS, np.nan)
        for j in range(2, BUCKETS):
            tau, seen = WIDTH * j + (WIDTH - 1) / 2, two < j
            p = ndtr(level[:, seen] + drift[:, seen] * (tau - CENTER))
            profile[j] = (4 * p * (1 - p)).mean()
        return profile

    @staticmethod
    def fifths(profile):
        """Means over queries of each fifth of the context, queries spread evenly."""
        t = np.arange(TOKENS)
        fifth, ap = 5 * t // TOKENS, profile[t // WIDTH]
        return np.array([np.nanmean(ap[fifth == i]) for i in range(5)])
