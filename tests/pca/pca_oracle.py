# SPDX-License-Identifier: Apache-2.0
"""The combined and single-kind analysis in NumPy, from the definitions alone, to compare with.
Axes come from a singular value decomposition of the centred rows, not from their covariance:
small eigenvalues keep their digits, and nothing is shared with the program but the formulas."""
import math

import mpmath
import numpy as np
import scipy.linalg

mpmath.mp.dps = 40

LOW, HIGH = 0.3, 0.7


def p_value(r, n):
    """Two-sided p of Pearson's r over n rows: I_{1-r^2}((n-2)/2, 1/2), in 40 digits."""
    if n < 3:
        return mpmath.mpf(1)
    r, a = mpmath.mpf(float(r)), mpmath.mpf(int(n) - 2) / 2
    x = (1 - r) * (1 + r)
    if x <= 0:
        return mpmath.mpf(0)
    if r == 0:
        return mpmath.mpf(1)
    # I_x(a, 1/2) = x^a (1-x)^(1/2) / (a B(a, 1/2)) * 2F1(a + 1/2, 1; a + 1; x). The series goes
    # like x^k, so near x = 1 the complement is summed, in as many digits as p has zeros.
    half = mpmath.mpf(1) / 2
    zeros = float(-a * mpmath.log10(x))
    if zeros > 400:
        return mpmath.mpf(0)
    with mpmath.workdps(40 + int(zeros if x > 0.9 else 0)):
        front = mpmath.exp(a * mpmath.log(x)) * mpmath.sqrt(1 - x) / mpmath.beta(a, half)
        if x <= 0.9:
            return front / a * mpmath.hyp2f1(a + half, 1, a + 1, x)
        return 1 - 2 * front * mpmath.hyp2f1(a + half, 1, 3 * half, 1 - x)


def center(x):
    mean = x.mean(axis=0, dtype=np.longdouble)
    centered = (x - mean).astype(np.float64)
    return mean.astype(np.float64), centered


class Rows:
    """Moments of one kind: mean, centred rows, drift c = Cov(x, t) and variance of t."""

    def __init__(self, x, t):
        self.n, self.dim = x.shape
        self.mean, self.x = center(x)
        mean_t = t.astype(np.longdouble).mean()
        self.mean_t = float(mean_t)
        self.t = (t - mean_t).astype(np.float64)
        self.var_t = float(self.t @ self.t) / (self.n - 1)
        self.c = self.x.T @ self.t / (self.n - 1)
        self.trace = float((self.x ** 2).sum()) / (self.n - 1)

    def along(self, v):
        """mean, slope, sd and r of the uncentred projection on v."""
        projection = self.x @ v
        variance = float(projection @ projection) / (self.n - 1)
        # A centred column is not exactly 0 where the true variance is: rounding of the
        # mean and of v leave this much.
        noise = (4 * np.finfo(float).eps * (np.abs(self.x).max(axis=0) @ np.abs(v))) ** 2
        cov = float(v @ self.c)
        r = 0.0
        if variance > noise and self.var_t > 0:
            r = max(-1.0, min(1.0, cov / math.sqrt(variance * self.var_t)))
        slope = cov / self.var_t if self.var_t > 0 else None
        return float(v @ self.mean), slope, math.sqrt(variance), r


def axes_of(pooled, components):
    """Eigenvalues of the covariance (all of them) and the first axes, as rows."""
    n, dim = pooled.shape
    if n > 4 * dim:
        pooled = scipy.linalg.qr(pooled, mode="r", check_finite=False)[0][:dim]
    _, s, vt = scipy.linalg.svd(pooled, full_matrices=False, lapack_driver="gesdd")
    values = np.zeros(dim)
    values[:len(s)] = s ** 2 / (n - 1)
    return values, vt[:min(components, dim, n - 1)]


def category(r_q, r_k, low=LOW, high=HIGH):
    r_k = abs(r_k)
    if r_q > high and r_k > high:
        return "position-dominated"
    if r_q > high and r_k < low:
        return "Q-positional"
    if r_q < low and r_k > high:
        return "K-positional"
    if r_q < low and r_k < low:
        return "content-focused"
    return "mixed"


def lda_margins(q, k, v):
    """Signed distance of every row to the line in (PC0, PC1): > 0 where it is on its own
    side. Pooled within-class covariance, equal priors; a direction with less than 1e-12 of the
    other's within-class variance carries no weight."""
    a, b = q @ v.T, k @ v.T
    ma, mb = a.mean(axis=0), b.mean(axis=0)
    within = ((a - ma).T @ (a - ma) + (b - mb).T @ (b - mb)) / (len(a) + len(b) - 2)
    w = np.linalg.pinv(within, rcond=1e-12, hermitian=True) @ (ma - mb)
    middle = (ma + mb) / 2
    scale = math.sqrt(w @ within @ w)
    return np.concatenate([(a - middle) @ w, -(b - middle) @ w]) / scale


class Combined:
    """qk.csv and heads.csv of one query head with its key head."""

    def __init__(self, xq, tq, xk, tk, components=10, lda=False):
        q, k = self.q, self.k = Rows(xq, tq), Rows(xk, tk)
        self.mean, pooled = center(np.concatenate([xq, xk]))
        self.n, self.dim = pooled.shape
        self.values, self.axes = axes_of(pooled, components)
        total = self.total = self.values.sum()
        self.rows = []
        for i, v in enumerate(self.axes):
            mu_q, alpha, sd_q, r_q = q.along(v)
            mu_k, beta, sd_k, r_k = k.along(v)
            self.rows.append({"explained_variance": self.values[i] / total, "r_q": r_q,
                              "r_k": r_k, "mu_q": mu_q, "mu_k": mu_k, "alpha": alpha,
                              "beta": beta, "sd_q": sd_q, "sd_k": sd_k})
            if self.wants_flip(i):
                self.flip(i)
        self.fill_head(xq, tq, xk, tk, lda)

    def wants_flip(self, i):
        r_q, r_k = self.rows[i]["r_q"], self.rows[i]["r_k"]
        if abs(r_q) >= 0.05:
            return r_q < 0
        if r_k != 0:
            return r_k < 0
        if r_q != 0:
            return r_q < 0
        v = self.axes[i]
        return v[np.abs(v).argmax()] < 0

    def flip(self, i):
        self.axes[i] *= -1
        for name in ("r_q", "r_k", "mu_q", "mu_k", "alpha", "beta"):
            if self.rows[i][name] is not None:
                self.rows[i][name] *= -1

    def fill_head(self, xq, tq, xk, tk, lda):
        q, k, first = self.q, self.k, self.rows[0]
        ev = [row["explained_variance"] for row in self.rows]
        parts = [e * row["r_q"] ** 2 for e, row in zip(ev, self.rows)]
        pos_var_q = math.fsum(parts)
        within = np.concatenate([q.x, k.x])
        t = np.concatenate([tq, tk]).astype(np.longdouble)
        t = (t - t.mean()).astype(np.float64)
        drift, var_t = within.T @ t, t @ t
        spread = first["sd_q"] ** 2 + first["sd_k"] ** 2
        distance = first["mu_q"] - first["mu_k"]
        beta, alpha = first["beta"], first["alpha"]
        # The share of a drift is undefined where there is no variance or no spread of t.
        self.head = {
            "category": category(first["r_q"], first["r_k"]),
            "ev0": ev[0],
            "pos_var_q": pos_var_q,
            "pos_var_k": math.fsum(e * row["r_k"] ** 2 for e, row in zip(ev, self.rows)),
            "pos_var_q_pc0_share": parts[0] / pos_var_q if pos_var_q > 0 else None,
            "lin_var_q": share(q.c, q.var_t, q.trace),
            "lin_var_k": share(k.c, k.var_t, k.trace),
            "positional_overhead": share(drift, var_t, (within ** 2).sum()),
            "separation": abs(distance),
            "fisher": distance ** 2 / spread if spread > 0 else None,
            "mu_q_beta": None if beta is None else first["mu_q"] * beta,
            "alpha_beta": None if beta is None or alpha is None else alpha * beta,
            "n_q": q.n, "n_k": k.n, "d": q.dim, "key_share": key_share(xq, k),
        }
        self.held = held(q, k)
        if lda:
            self.margins = lda_margins(xq, xk, self.axes[:2])

    def groups(self, gap=1e-5):
        """Runs of components whose eigenvalues lie within `gap` of the largest one of their
        neighbours: their axes are theirs only together. Also whether all of a run's
        components were fitted, and all lie above rounding."""
        v, fitted, runs = self.values, len(self.axes), []
        start = 0
        for i in range(1, len(v) + 1):
            if i < len(v) and v[i - 1] - v[i] <= gap * v[0]:
                continue
            if start < fitted:
                runs.append((range(start, min(i, fitted)), i <= fitted))
            start = i
        return runs


def key_share(xq, k):
    """From scores of the rows: the variance over keys of the mean of all queries' scores, over the mean of theirs."""
    together, alone = 0.0, k.x @ xq.mean(axis=0)
    for some in np.array_split(xq, max(1, len(xq) * k.n // 10 ** 7)):
        together += float(((k.x @ some.T) ** 2).sum())
    return float(alone @ alone) / (together / len(xq)) if together > 0 else None


def held(q, k):
    """Shares of the variance of what query and key decide together, of 1, 2, ... components; None: too few rows."""
    if min(q.n, k.n) < 2 * q.dim:
        return None
    (_, s_q, v_q), (_, s_k, v_k) = (scipy.linalg.svd(scipy.linalg.qr(side.x, mode="r")[0][:side.dim]) for side in (q, k))
    squares = scipy.linalg.svdvals(s_q[:, None] * (v_q @ v_k.T) * s_k) ** 2
    return np.cumsum(squares) / squares.sum() if squares.sum() > 0 else None


def share(c, var_t, trace):
    return float(c @ c) / (var_t * trace) if var_t > 0 and trace > 0 else None
