# SPDX-License-Identifier: Apache-2.0
"""Numbers of a head from its attention rows, written from docs/behaviour.md#attention."""
import numpy as np
from attention_rows import SHIFT, attention, bin_of, entropy, far_keys, joined, sums_of_text
from scipy.optimize import minimize

SHARES = ["sink_mass", "self_mass", "previous_mass", "no_key_mass", "near_mass", "far_mass", "duplicate_mass",
          "duplicate_uniform", "induction_mass", "induction_uniform"]
NUMBERS = [*SHARES, "information", "mean_distance", "far_information", "window_99", "distance_share", "duplicate_excess",
           "induction_excess", "logit_max_mean"]


class Text:
    """One text: its rows, and its tokens."""

    def __init__(self, rng, n, tokens=True, window=0, kind="any"):
        q, k = rng.normal(size=(2, n, 8)).astype(np.float32)
        self.window = window
        self.tokens = rng.integers(0, 12, n) if tokens else None
        self.a = attention(q, k, 0.8, window)
        if kind == "previous":
            self.a = np.where(np.eye(n, k=-1) > 0, 0.8, 0) + 0.2 * self.a
            self.a[0] = 0
            self.a[0, 0] = 1
        if kind == "sink":
            self.a = 0.3 * self.a
            self.a[:, 0] += 0.6
        if kind == "uniform":
            self.a = attention(0 * q, k, 1)

    @property
    def sums(self):
        return joined(sums_of_text(self.a, self.tokens, self.window))


def mean(values):
    return np.mean(values) if len(values) else np.nan


def first_of(b):
    """The keys of a row before those of bin b."""
    return 2 ** (b - 1) if b else 0


def spread(b, most):
    """The numbers of keys of rows whose farthest key is in bin b, as the definition spreads them."""
    return np.arange(first_of(b) + 1, min(2 * first_of(b) or 1, most) + 1, dtype=float)


class Lengths:
    """The rows with each last bin, `last` of them, as the definition spreads them: numbers of keys, how many rows, keys of bins."""

    def __init__(self, last, most):
        numbers = [spread(b, most) for b in np.flatnonzero(last)]
        self.numbers = np.concatenate(numbers)
        self.rows = np.concatenate([np.full(len(n), last[b] / len(n)) for n, b in zip(numbers, np.flatnonzero(last), strict=True)])
        self.keys = np.array([np.clip(self.numbers - first_of(c), 0, first_of(c) or 1) for c in range(22)])

    def logarithm(self, v):
        """The sum of ln(Z(n) / n), and its derivatives by ln v."""
        z = v @ self.keys
        return (self.rows * np.log(z / self.numbers)).sum(), self.keys @ (self.rows / z) * v


def fit(mass, last, most):
    """The weights of the largest likelihood, by a search in their logarithms."""
    used, lengths = mass > 0, Lengths(last, most)

    def loss(logs):
        v = np.zeros(22)
        v[used] = np.exp(logs)
        value, slope = lengths.logarithm(v)
        return (value - mass[used] @ logs) / mass.sum(), (slope - mass)[used] / mass.sum()

    v = np.zeros(22)
    v[used] = np.exp(minimize(loss, np.zeros(used.sum()), jac=True, method="BFGS", options={"gtol": 1e-9}).x)
    return v


def far_rows(texts):
    """Rows from 8 on, keys from 4 on: number of the text, weight, scaled attention, bins of distances."""
    for g, text in enumerate(texts):
        for i in range(8, len(text.a)):
            keys = far_keys(i, text.window)
            far = text.a[i, keys]
            if far.sum() > 0:
                yield g, far.sum(), far / far.sum(), np.array([bin_of(i - j) for j in keys])


def distance_share(texts, most=10**6):
    """What the profile over distance of the other texts says of a text. most: keys that a row sees."""
    rows = list(far_rows(texts))
    if not rows:
        return np.nan, np.nan, np.nan
    total = sum(w for _, w, _, _ in rows)
    u = sum(w * np.log(len(m)) for _, w, m, _ in rows) / total
    h = sum(w * entropy(m) for _, w, m, _ in rows) / total
    distance = sum((text.a[i, far_keys(i, text.window)] * (i - far_keys(i, text.window))).sum()
                   for text in texts for i in range(8, len(text.a))) / total
    if len(texts) < 2:
        return np.nan, u - h, distance
    mass, last = np.zeros((2, len(texts), 22))
    for g, w, m, bins in rows:
        np.add.at(mass[g], bins, w * m)
        last[g, bins.max()] += w
    cross = u * total
    for g in np.flatnonzero(mass.sum(1)):
        v = fit(mass.sum(0) - mass[g], last.sum(0) - last[g], most)
        for b in np.flatnonzero(mass[g]):
            v[b] = v[b - 1] if v[b] == 0 and b > 0 else v[b]
        used = mass[g] > 0
        cross -= (mass[g][used] * np.log(v[used])).sum()
        cross += Lengths(last[g], most).logarithm(v)[0]
    return (u - cross / total) / (u - h) if u != h else np.nan, u - h, distance


def distance_share_of_rows(texts):
    """The same with the number of keys of each row as it is."""
    rows = list(far_rows(texts))
    text, w = np.array([g for g, *_ in rows]), np.array([w for _, w, *_ in rows])
    m = np.array([np.bincount(bins, m, 22) for *_, m, bins in rows])
    n = np.array([np.bincount(bins, minlength=22) for *_, bins in rows], float)
    h = (w * [entropy(m) for _, _, m, _ in rows]).sum()
    u = (w * np.log(n.sum(1))).sum()
    cross = 0
    for g in np.unique(text):
        v, rest = np.ones(22), text != g
        for _ in range(300):
            weights = (w[rest] / (n[rest] @ v)) @ n[rest]
            v = np.divide(w[rest] @ m[rest], weights, out=np.zeros(22), where=weights > 0)
        used = w[~rest] @ m[~rest] > 0
        cross += (w[~rest] * np.log(n[~rest] @ v)).sum() - ((w[~rest] @ m[~rest])[used] * np.log(v[used])).sum()
    return (u - cross) / (u - h)


WINDOWS = 2.0 ** np.arange(21)


def window_shares(texts):
    """What each window holds of the attention to keys from 4 on, of rows from 8 on."""
    inside = np.zeros(len(WINDOWS))
    for text in texts:
        for i in range(8, len(text.a)):
            keys = far_keys(i, text.window)
            inside += [text.a[i, keys[i - keys < w]].sum() for w in WINDOWS]
    return inside / inside[-1] if inside[-1] > 0 else np.full(len(WINDOWS), np.nan)


def window_of(shares):
    """The smallest that is enough."""
    enough = WINDOWS[shares >= 0.99]
    return enough[0] if len(enough) else np.nan


def expected(texts, most=10**6):
    """The numbers of texts from their rows. most: keys from 4 on that a row sees."""
    rows = [(text, i, text.a[i]) for text in texts for i in range(len(text.a))]
    low = [max(0, i - text.window + 1) if text.window else 0 for text, i, _ in rows]
    e = {"sink_mass": mean([a[0] for _, _, a in rows]),
         "self_mass": mean([a[i] for _, i, a in rows]),
         "previous_mass": mean([a[i - 1] if i else 0 for _, i, a in rows]),
         "no_key_mass": mean([1 - a.sum() for _, _, a in rows]),
         "logit_max_mean": mean([np.log(a.max()) + SHIFT for _, _, a in rows]),
         "information": mean([np.log(i + 1 - f) - entropy(a) for (_, i, a), f in zip(rows, low, strict=True)])}
    for name, first, last in (("near", 0, 7), ("far", 64, 10**9)):
        e[name + "_mass"] = mean([sum(a[j] for j in range(4, i + 1) if first <= i - j <= last)
                                  for text, i, a in rows if i >= 8 and len(far_keys(i, text.window))])
    for name, shift in (("duplicate", 0), ("induction", 1)):
        known = [(text, i, a, f) for (text, i, a), f in zip(rows, low, strict=True) if text.tokens is not None]
        mass, uniform = [], []
        for text, i, a, f in known:
            keys = [j for j in range(max(f, shift), i + shift)
                    if text.tokens[j - shift] == text.tokens[i]]
            keys = [j for j in keys if j <= i]
            if keys:
                mass.append(a[keys].sum())
                uniform.append(len(keys) / (i + 1 - f))
        e[name + "_mass"], e[name + "_uniform"] = mean(mass), mean(uniform)
        e[name + "_excess"] = e[name + "_mass"] - e[name + "_uniform"]
    e["window_99"] = window_of(window_shares(texts))
    e["distance_share"], e["far_information"], e["mean_distance"] = distance_share(texts, most)
    return e
