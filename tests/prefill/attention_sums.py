# SPDX-License-Identifier: Apache-2.0
"""What include/qkscope/attention.h defines, in float64 from queries and keys: row by row, with all weights at once."""
import numpy as np

BINS, SINK_KEYS, FAR_POSITION, OFFSETS = 22, 4, 8, 16
NAMES = ("rows sink first self previous no_key entropy squares visible top_sink tokens duplicate_rows duplicate "
         "duplicate_uniform induction_rows induction induction_uniform far_rows far far_visible far_entropy "
         "far_distance far_keys").split()
AT = {name: i for i, name in enumerate(NAMES)}
FAR_BINS = len(NAMES)
LAST_BINS = FAR_BINS + BINS
TOP_OFFSETS = LAST_BINS + BINS
TOP_BINS = TOP_OFFSETS + OFFSETS
SUMS = TOP_BINS + BINS - 5


def distance_bin(distance):
    return min(int(distance).bit_length(), BINS - 1)


def entropy(weights):
    weights = weights[weights > 0]
    return -(weights * np.log(weights)).sum()


def row_sums(weights, keys, i, tokens):
    """Of row i, whose weights are those of `keys`, all that it sees."""
    sums, distance = np.zeros(SUMS), i - keys

    def add(name, value):
        sums[AT[name]] += value

    for name, value in dict(rows=1, sink=weights[keys == 0].sum(), first=weights[keys < SINK_KEYS].sum(),
                            self=weights[distance == 0].sum(), previous=weights[distance == 1].sum(),
                            entropy=entropy(weights), squares=(weights ** 2).sum(), visible=np.log(len(keys)),
                            tokens=1).items():
        add(name, value)
    far = distance[weights.argmax()]
    if far == i and i > 0:
        add("top_sink", 1)
    else:
        sums[TOP_OFFSETS + far if far < OFFSETS else TOP_BINS + distance_bin(far) - 5] += 1
    for name, copies in (("duplicate", (tokens[keys] == tokens[i]) & (keys < i)),
                         ("induction", (tokens[keys - 1] == tokens[i]) & (keys >= 1))):
        add(name + "_rows", copies.any())
        add(name, weights[copies].sum())
        add(name + "_uniform", copies.mean())
    if i >= FAR_POSITION:
        beyond = keys >= SINK_KEYS
        a, d = weights[beyond], distance[beyond]
        w, bins = a.sum(), np.array([distance_bin(x) for x in d])
        add("far_rows", 1)
        if w > 0:
            add("far", w)
            add("far_visible", w * np.log(len(a)))
            add("far_entropy", w * entropy(a / w))
            add("far_distance", (a * d).sum())
            add("far_keys", sum(a[bins == b].sum() * np.log((bins == b).sum()) for b in set(bins)))
            np.add.at(sums, FAR_BINS + bins, a)
            sums[LAST_BINS + bins.max()] += w
    return sums


def attention_sums(q, k, scale, tokens, window=0):
    """[heads][buckets][SUMS] of queries [tokens][heads][d], each with its key head."""
    n, heads = q.shape[:2]
    result = np.zeros((heads, distance_bin(n - 1) + 1, SUMS))
    for head in range(heads):
        scores = q[:, head].astype(float) @ k[:, head].astype(float).T * scale
        for i in range(n):
            keys = np.arange(max(0, i - window + 1) if window else 0, i + 1)
            weights = np.exp(scores[i, keys] - scores[i, keys].max())
            result[head, distance_bin(i)] += row_sums(weights / weights.sum(), keys, i, tokens)
    return result
