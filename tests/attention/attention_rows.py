# SPDX-License-Identifier: Apache-2.0
"""Attention rows in NumPy, and what is summed of them, written from docs/behaviour.md#attention."""
import numpy as np

BINS = 22
NAMES = ["rows", "sink", "first", "self", "previous", "no_key", "entropy", "visible",
         "duplicate_rows", "duplicate", "duplicate_uniform", "induction_rows", "induction", "induction_uniform",
         "far_rows", "far", "far_visible", "far_entropy", "far_distance"]
AT = {name: i for i, name in enumerate(NAMES)}
FAR_BINS = len(NAMES)
LAST_BINS = FAR_BINS + BINS
LOGIT = LAST_BINS + BINS
LOGIT_MAX = LOGIT + 1
SUMS = LOGIT_MAX + 1
SHIFT = 9  # of scores, which weights do not show: sums of scores are larger than counts of rows


def bin_of(distance):
    return min(int(distance).bit_length(), BINS - 1)


def entropy(a):
    a = a[a > 0]
    return float(-(a * np.log(a)).sum())


def scores_of(q, k, scale, window=0):
    """[n][n] in float64; -inf where a key is not seen."""
    i, j = np.arange(len(q))[:, None], np.arange(len(q))[None]
    seen = (j <= i) & ((j > i - window) if window else True)
    return np.where(seen, scale * (q.astype(np.float64) @ k.astype(np.float64).T), -np.inf)


def attention(q, k, scale, window=0):
    """[n][n] in float64; 0 where a key is not seen."""
    scores = scores_of(q, k, scale, window)
    a = np.exp(scores - scores.max(1, keepdims=True))
    return a / a.sum(1, keepdims=True)


def far_keys(i, window=0):
    """Keys 4 .. i that row i sees."""
    return np.arange(max(4, i - window + 1 if window else 0), i + 1)


def sums_of_row(a, i, tokens=None, window=0, scores=None):
    """The vector of sums of row i; a: [n] its weights, of scores, or of their own logarithms + SHIFT."""
    s = np.zeros(SUMS)
    low = max(0, i - window + 1) if window else 0
    seen = np.arange(low, i + 1)
    s[LOGIT:] = np.log(a[seen].max()) + SHIFT if scores is None else scores[seen].max()

    def put(name, value):
        s[AT[name]] = value

    put("rows", 1)
    put("sink", a[0])
    put("first", a[:4][:i + 1].sum())
    put("self", a[i])
    put("previous", a[i - 1] if i > 0 and i - 1 >= low else 0)
    put("no_key", 1 - a[seen].sum())
    put("entropy", entropy(a[seen]))
    put("visible", np.log(len(seen)))
    if tokens is not None:
        for name, keys in (("duplicate", [j for j in seen if j < i and tokens[j] == tokens[i]]),
                           ("induction", [j for j in seen if j >= 1 and tokens[j - 1] == tokens[i]])):
            put(name + "_rows", len(keys) > 0)
            put(name, a[keys].sum())
            put(name + "_uniform", len(keys) / len(seen))
    keys = far_keys(i, window)
    if i >= 8 and len(keys):
        far = a[keys]
        w = far.sum()
        put("far_rows", 1)
        if w > 0:
            put("far", w)
            put("far_visible", w * np.log(len(keys)))
            put("far_entropy", w * entropy(far / w))
            put("far_distance", (far * (i - keys)).sum())
            bins = np.array([bin_of(i - j) for j in keys])
            for b in np.unique(bins):
                s[FAR_BINS + b] = far[bins == b].sum()
            s[LAST_BINS + bins.max()] = w
    return s


def joined(sums):
    """One of several, the last of which is a maximum."""
    sums = np.asarray(sums)
    return np.append(sums[..., :-1].sum(0), sums[..., -1:].max(0), axis=-1)


def sums_of_text(a, tokens=None, window=0, scores=None):
    """[bucket][SUMS] by the bin of the row's position."""
    rows = [sums_of_row(a[i], i, tokens, window, None if scores is None else scores[i]) for i in range(len(a))]
    return np.array([joined(rows[2 ** b // 2:2 ** b]) for b in range(bin_of(len(a) - 1) + 1)])
