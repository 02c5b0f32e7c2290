# SPDX-License-Identifier: Apache-2.0
"""The planar rotation model in NumPy and SciPy, from the definitions alone, to compare with.
Projections are of the rows themselves, planes come from explicitly formed matrices, and the
frequency along a is the best of all maxima of a fine grid, refined to a root of the derivative."""
import math
import sys
from pathlib import Path

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.optimize

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pca"))

from pca_oracle import Rows

EPS = np.finfo(float).eps
B_COLUMNS = ("mu_q_b", "mu_k_b", "separation_strength", "var_frac_b", "plane_var_fraction",
             "content_var_b")
COLUMNS = ("position_r", "r_q_a", "r_k_a", "alpha_q", "alpha_k", "mu_q_a", "mu_k_a", "mu_q_b",
           "mu_k_b", "bias_strength", "separation_strength", "var_frac_a", "var_frac_b",
           "plane_var_fraction", "content_var_b", "residual_pos_r", "omega", "omega_r_squared",
           "bias_over_context")


def exact_drift(x, t):
    """Cov(x, t) with 1/(n-1), summed in extended precision."""
    t = (t - t.min()).astype(np.longdouble)
    mean = x.mean(axis=0, dtype=np.longdouble)
    return (((t - t.mean()) @ (x - mean)) / (len(t) - 1)).astype(np.float64)


def shaken(matrix, amount, rng):
    """The matrix with symmetric noise of `amount` times its size."""
    if amount == 0:
        return matrix
    noise = rng.standard_normal(matrix.shape)
    noise += noise.T
    return matrix + amount * np.linalg.norm(matrix) / np.linalg.norm(noise) * noise


class Rotation:
    """rotated.csv and complement.csv of one query head with its key head: `numbers`, a dict of
    columns with None for the undefined, and `pairs`, a list of such dicts.

    With `shake` the matrices whose eigenvectors are taken, and the drift, are disturbed by that
    share of their size: how far the numbers move tells what rounding may do to them."""

    def __init__(self, xq, tq, xk, tk, b_axis="pairs", pairs=0, shake=0.0, known=()):
        self.rng, self.shake = np.random.default_rng(1), shake
        self.n_q, self.n_k, self.dim = len(xq), len(xk), xq.shape[1]
        self.numbers = dict.fromkeys(COLUMNS)
        self.pairs, self.a, self.b, self.known = [], None, None, known
        if self.n_q < 3 or self.n_k < 3:
            return
        self.q, self.k = Rows(xq, tq), Rows(xk, tk)
        x, t = np.concatenate([xq, xk]), np.concatenate([tq, tk])
        self.pooled, self.raw_t = Rows(x, t), (tq, tk)
        self.find_a(x, t)
        if self.a is None:
            return
        self.cov = shaken(self.pooled.x.T @ self.pooled.x / (self.pooled.n - 1), shake, self.rng)
        self.find_b(b_axis)
        self.fill_a()
        if self.b is not None:
            self.fill_b()
        self.fill_omega()
        if pairs > 0:
            self.fill_complement(pairs)

    # ---- axes --------------------------------------------------------------------------------

    def find_a(self, x, t):
        c, reach = exact_drift(x, t), math.sqrt(self.pooled.trace * self.pooled.var_t)
        if np.linalg.norm(c) > self.dim * EPS * reach:
            c = c + self.shake * reach * self.rng.standard_normal(self.dim) / math.sqrt(self.dim)
            self.a = c / np.linalg.norm(c)

    def between(self):
        """C_delta, the mean of (q - k)(q - k)ᵀ over all pairs."""
        s_q = self.q.x.T @ self.q.x / self.n_q
        s_k = self.k.x.T @ self.k.x / self.n_k
        gap = self.q.mean - self.k.mean
        return s_q + s_k + np.outer(gap, gap)

    def find_b(self, b_axis):
        self.delta = shaken(self.between(), self.shake, self.rng)
        gap = self.q.mean - self.k.mean
        off = np.eye(self.dim) - np.outer(self.a, self.a)
        if self.dim == 1:
            return
        if b_axis == "centroid":
            b, size = off @ gap, np.linalg.norm(gap)
            # What is left of a difference of means that lies along a is rounding.
            if np.linalg.norm(b) <= self.dim * EPS * size:
                return
        else:
            values, vectors = scipy.linalg.eigh(off @ self.delta @ off)
            b = vectors[:, -1]
            if values[-1] <= self.dim * EPS * np.trace(self.delta):
                return
        b = off @ b
        b /= np.linalg.norm(b)
        self.b_side = b @ gap
        if self.b_side < 0 or (self.b_side == 0 and b[np.abs(b).argmax()] < 0):
            b = -b
        self.b = b

    # ---- columns -----------------------------------------------------------------------------

    def fill_a(self):
        n, total = self.numbers, np.trace(self.cov)
        n["position_r"] = abs(self.pooled.along(self.a)[3])
        n["mu_q_a"], n["alpha_q"], _, n["r_q_a"] = self.q.along(self.a)
        n["mu_k_a"], n["alpha_k"], _, n["r_k_a"] = self.k.along(self.a)
        if n["alpha_k"] is not None:
            n["bias_strength"] = n["mu_q_a"] * n["alpha_k"]
            n["bias_over_context"] = n["bias_strength"] * float(max(map(max, self.raw_t)) + 1)
        n["var_frac_a"] = float(self.a @ self.cov @ self.a) / total
        n["residual_pos_r"] = 0.0

    def fill_b(self):
        n, b, total = self.numbers, self.b, np.trace(self.cov)
        n["mu_q_b"], n["mu_k_b"] = float(b @ self.q.mean), float(b @ self.k.mean)
        n["separation_strength"] = float(b @ self.delta @ b) / np.trace(self.delta)
        n["var_frac_b"] = float(b @ self.cov @ b) / total
        n["plane_var_fraction"] = n["var_frac_a"] + n["var_frac_b"]
        n["content_var_b"] = (np.mean((self.q.x @ b) ** 2) + np.mean((self.k.x @ b) ** 2)) / 2

    # ---- the sinusoid along a ----------------------------------------------------------------

    def fill_omega(self):
        t = np.concatenate(self.raw_t)
        if len(np.unique(t)) < 4:
            return
        self.wave = Sinusoid(self.pooled.x @ self.a, t)
        self.numbers["omega"] = self.wave.omega
        self.numbers["omega_r_squared"] = self.wave.r_squared

    # ---- the complement ----------------------------------------------------------------------

    def has_turns(self):
        """Enough positions, and not too far apart."""
        t = np.concatenate(self.raw_t)
        return len(np.unique(t)) >= 4 and t.max() - t.min() <= 2 ** 20 * stride_of(t)

    def fill_complement(self, limit):
        removed = np.stack([self.a] if self.b is None else [self.a, self.b], axis=1)
        rest = scipy.linalg.qr(removed)[0][:, removed.shape[1]:]
        values, vectors = scipy.linalg.eigh(rest.T @ self.cov @ rest)
        values, vectors = values[::-1], (rest @ vectors)[:, ::-1]
        self.values = values
        total = np.trace(self.cov)
        for p in range(min(limit, len(values) // 2)):
            pair = values[2 * p:2 * p + 2]
            row = dict.fromkeys(("variance_share", "angle_r", "omega", "resultant"))
            if pair[1] > self.dim * EPS * total:
                row["variance_share"] = pair.sum() / total
            if pair[1] > self.dim * EPS * total and self.has_turns():
                plane = vectors[:, 2 * p:2 * p + 2]
                row["turn"] = Turn(self.q.x @ plane, self.raw_t[0], self.k.x @ plane,
                                   self.raw_t[1], self.known)
                row.update(omega=row["turn"].omega, resultant=row["turn"].resultant,
                           angle_r=row["turn"].angle_r())
            self.pairs.append(row)


def stride_of(t):
    return int(np.gcd.reduce(t - t[0]))


def climb(derivative, low, at, high):
    """The maximum that the grid point `at` belongs to: a root of the derivative between its
    neighbours, or the end of the interval towards which the function rises."""
    if low == at and derivative(at) <= 0:
        return at
    if high == at and derivative(at) >= 0:
        return at
    if derivative(low) <= 0:  # two maxima between neighbours of the grid: take the nearer half
        low = at if derivative(at) > 0 else low
    if derivative(high) >= 0:
        high = at if derivative(at) < 0 else high
    if not (derivative(low) > 0 > derivative(high)):
        return at
    return scipy.optimize.brentq(derivative, low, high, xtol=1e-300, rtol=4 * EPS, maxiter=500)


class Sinusoid:
    """The best y = A cos wt + B sin wt + D of the documented interval of w."""

    def __init__(self, y, t):
        # In units of the stride; only A and B depend on where t starts.
        stride = stride_of(t)
        self.t = ((t - t.min()) // stride).astype(np.float64)
        self.signs = 1 - 2 * (self.t % 2)
        span = self.t.max()
        self.t -= span / 2
        self.y = (y - y.mean(dtype=np.longdouble)).astype(np.float64)
        self.total = float(self.y @ self.y)
        turn = 2 * math.pi / span
        self.low, self.high = turn / 8, min(16 * turn, math.pi)
        self.stride = stride
        self.points = self.grid(turn / 32)
        self.heights = self.r2_of_grid()
        self.omega, self.r_squared = max(self.all_maxima(), key=lambda m: m[1])
        self.coarse = self.best_of_coarse_grid()
        self.omega, self.coarse = self.omega / stride, self.coarse / stride

    def fit(self, omega):
        c, s = np.cos(omega * self.t), np.sin(omega * self.t)
        if omega == math.pi:  # one of both is 0 everywhere; the limit of what both span
            c, s = self.signs, self.signs * self.t / np.abs(self.t).max()
        design = np.stack([c, s, np.ones_like(c)], axis=1)
        coefficients = np.linalg.lstsq(design, self.y, rcond=None)[0]
        return coefficients, c, s, self.y - design @ coefficients

    def r_squared_at(self, omega):
        return self.r2(min(omega * self.stride, self.high))

    def r2(self, omega):
        residual = self.fit(omega)[3]
        return 1 - float(residual @ residual) / self.total

    def r2_of_grid(self):
        """r2 of all points, many at once; one by one only where a fit is open."""
        heights, at_once = np.empty(len(self.points)), max(1, 400_000 // len(self.t))
        for first in range(0, len(self.points), at_once):
            angles = self.points[first:first + at_once, None] * self.t
            q, r = np.linalg.qr(np.stack([np.cos(angles), np.sin(angles), np.ones_like(angles)], axis=2))
            residual = self.y - np.einsum("wnc,wc->wn", q, np.einsum("wnc,n->wc", q, self.y))
            heights[first:first + at_once] = 1 - (residual ** 2).sum(axis=1) / self.total
            sizes = np.abs(np.diagonal(r, axis1=1, axis2=2))
            for i in np.flatnonzero(sizes.min(axis=1) < 1e-6 * sizes.max(axis=1)):
                heights[first + i] = self.r2(self.points[first + i])
        return heights

    def derivative(self, omega):
        """d R² / dw: the fit is optimal in A, B, D, so only w itself counts. R² is symmetric
        about pi: whether it rises or falls there is seen a little before."""
        if omega == math.pi:
            omega -= 1e-3 / np.abs(self.t).max()
        (a, b, _), c, s, residual = self.fit(omega)
        return 2 * float(residual @ (self.t * (b * c - a * s))) / self.total

    def grid(self, step):
        count = int((self.high - self.low) / step * (1 + 1e-12)) + 1
        points = self.low + step * np.arange(count)
        return np.append(points[points < self.high * (1 - 1e-12)], self.high)

    def peak(self, i):
        """The maximum near a point of the grid."""
        last = len(self.points) - 1
        w = climb(self.derivative, *self.points[[max(i - 1, 0), i, min(i + 1, last)]])
        return w, self.r2(w)

    def all_maxima(self):
        """(w, R²) of every high maximum."""
        h = self.heights
        edge = np.concatenate([[-math.inf], h, [-math.inf]])
        tops = (h >= edge[:-2]) & (h >= edge[2:]) & (h >= 0.5 * h.max())
        return [self.peak(i) for i in np.flatnonzero(tops)]

    def best_of_coarse_grid(self):
        """What refining the best of every sixteenth of a turn leads to."""
        coarse = np.append(np.arange(0, len(self.points) - 1, 2), len(self.points) - 1)
        i = coarse[np.argmax(self.heights[coarse])]
        around = [i + step for step in (-1, 0, 1) if 0 <= i + step < len(self.points)]
        return self.peak(max(around, key=lambda n: self.heights[n]))[0]


class Turn:
    """The frequency at which a plane turns: the largest R(w) of the known ones within the documented interval, or of the
    documented grid."""

    def __init__(self, yq, tq, yk, tk, known=()):
        together = np.concatenate([tq, tk])
        first, self.stride = together.min(), stride_of(together)
        self.span = int(together.max() - first) // self.stride
        self.kinds = [(np.arctan2(y[:, 1], y[:, 0]),
                       ((t - first) // self.stride).astype(np.float64))
                      for y, t in ((yq, tq), (yk, tk))]
        self.n = len(yq) + len(yk)
        known = [w * self.stride for w in known if 2 * math.pi / (8 * self.span) <= w * self.stride <= math.pi]
        self.is_known = len(known) > 0
        # The orientation of the plane is free: turned such that the frequency is positive.
        self.maxima = sorted(((w, self.r(w)) for w in self.signed(known) or self.high_of_grid()), key=lambda m: -m[1])
        signed, self.resultant = self.maxima[0]
        self.turn, self.omega = abs(signed), abs(signed) / self.stride
        if signed < 0:
            self.kinds = [(-angle, t) for angle, t in self.kinds]

    @staticmethod
    def signed(frequencies):
        return [w for f in frequencies for w in ((f, -f) if f < math.pi else (f,))]

    def r(self, omega):
        return sum(abs(np.exp(1j * (angle - omega * t)).sum())
                   for angle, t in self.kinds) / self.n

    def high_of_grid(self):
        """Those of the grid that are nearly as high as the highest."""
        size = 16
        while size < 4 * (self.span + 1):
            size *= 2
        heights = np.zeros(size)
        for angle, t in self.kinds:
            sums = np.zeros(size, complex)
            np.add.at(sums, t.astype(np.int64), np.exp(1j * angle))
            heights += np.abs(scipy.fft.fft(sums))
        omega = 2 * math.pi * scipy.fft.fftfreq(size)
        omega[size // 2] = math.pi
        keep = np.abs(omega) >= 2 * math.pi / (8 * self.span)
        omega, heights = omega[keep], heights[keep]
        return omega[heights > 0.99 * heights.max()].tolist()

    def unwrapped(self):
        """(positions, unwrapped angles, how near a step comes to half a turn)."""
        angles, times, order = [], [], []
        for kind, (angle, t) in enumerate(self.kinds):
            phase = np.angle(np.exp(1j * (angle - self.turn * t)).sum())
            angles.append(angle - phase)
            times.append(t)
            order.append(np.full(len(t), kind))
        angles, times, order = map(np.concatenate, (angles, times, order))
        at = np.lexsort((np.arange(len(times)), order, times))
        steps = np.diff(angles[at])
        half = np.abs(np.abs((steps + math.pi) % (2 * math.pi) - math.pi) - math.pi)
        return times[at], np.unwrap(angles[at]), half.min(initial=math.pi)

    def angle_r(self):
        t, angle, self.margin = self.unwrapped()
        t, angle = t - t.mean(), angle - angle.mean()
        size = math.sqrt(float(t @ t) * float(angle @ angle))
        return float(t @ angle) / size if size > 0 else 0.0
