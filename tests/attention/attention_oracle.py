# SPDX-License-Identifier: Apache-2.0
"""Numbers of a head from its attention rows, written from docs/behaviour.md#attention."""
import numpy as np
from attention_rows import SHIFT, attention, bin_of, entropy, far_keys, joined, sums_of_text

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


def distance_share(texts):
    """Decision 4: rows from 8 on, keys from 4 on, renormalised, weighted by what lies there."""
    rows = []
    for g, text in enumerate(texts):
        for i in range(8, len(text.a)):
            keys = far_keys(i, text.window)
            far = text.a[i, keys]
            w = far.sum()
            bins = np.array([bin_of(i - j) for j in keys])
            rows.append((g, w, far / w, bins))
    if not rows:
        return np.nan, np.nan, np.nan
    total = sum(w for _, w, _, _ in rows)
    u = sum(w * np.log(len(m)) for _, w, m, _ in rows) / total
    h = sum(w * entropy(m) for _, w, m, _ in rows) / total
    distance = sum((text.a[i, far_keys(i, text.window)] * (i - far_keys(i, text.window))).sum()
                   for text in texts for i in range(8, len(text.a))) / total
    if len(texts) < 2:
        return np.nan, u - h, distance
    cross = 0
    for g in range(len(texts)):
        p = np.zeros(22)
        for other, w, m, bins in rows:
            if other != g:
                np.add.at(p, bins, w * m)
        own = [row for row in rows if row[0] == g]
        reached = {b for _, _, _, bins in own for b in bins}
        for b in sorted(reached):
            if p[b] == 0 and b > 0:
                p[b] = p[b - 1]
        for _, w, m, bins in own:
            seen = np.unique(bins)
            whole = p[seen].sum()
            for b in seen:
                cross -= w * m[bins == b].sum() * np.log(p[b] / whole / (bins == b).sum())
    return (u - cross / total) / (u - h) if u != h else np.nan, u - h, distance


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


def expected(texts):
    """The numbers of texts from their rows."""
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
    e["distance_share"], e["far_information"], e["mean_distance"] = distance_share(texts)
    return e
