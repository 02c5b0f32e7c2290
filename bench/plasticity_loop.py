# SPDX-License-Identifier: Apache-2.0
"""Attention plasticity of one head as researchers compute it today: NumPy and SciPy, 256 pairs
drawn in every cell of query bucket and key bucket, norm.cdf called on each. Prints JSON: seconds
spent in the loop over pairs (nothing else is counted) and how many pairs that were."""
import argparse
import json
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import norm


def load(path):
    table = pq.read_table(path)
    vectors = np.stack(table["vector"].to_numpy()).astype(np.float64)
    return (vectors, *(table[name].to_numpy() for name in ("position", "bucket", "example_id")))


def query_model(x, t):
    """Mean and slope in a basis whose first axis is the slope, and residual variances."""
    u = t - t.mean()
    beta = u @ x / (u @ u)
    first = beta / np.linalg.norm(beta)
    v = first - np.eye(len(beta))[0]
    v /= np.linalg.norm(v)
    h = np.eye(len(beta)) - 2 * np.outer(v, v)
    rotated = x @ h
    residual = rotated - rotated.mean(axis=0) - np.outer(u, beta @ h)
    return h, rotated.mean(axis=0), beta @ h, t.mean(), residual.var(axis=0, ddof=1)


def cells(q_bucket, k_bucket, example):
    """(query bucket, [rows of each example with two keys or more]) of every cell."""
    for j in np.unique(q_bucket[q_bucket > 0]):
        groups = {}
        for row in np.flatnonzero(k_bucket < j):
            groups.setdefault(example[row], []).append(row)
        yield j, [np.array(rows) for rows in groups.values() if len(rows) > 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--pairs", type=int, default=256)
    args = parser.parse_args()
    q, t, q_bucket, _ = load(args.capture / "l00h00q" / "data.parquet")
    k, _, k_bucket, example = load(args.capture / "l00h00k" / "data.parquet")
    h, mean, beta, middle, variance = query_model(q, t)
    k = k @ h
    rng = np.random.default_rng(0)
    seconds, pairs, values = 0.0, 0, []
    for j, groups in cells(q_bucket, k_bucket, example):
        if not groups:
            continue
        mu = mean + beta * (t[q_bucket == j].mean() - middle)
        counts = np.cumsum([len(g) * (len(g) - 1) // 2 for g in groups])
        start = time.perf_counter()
        total = 0.0
        for _ in range(args.pairs):
            rows = groups[int(np.searchsorted(counts, rng.integers(counts[-1]), side="right"))]
            one, two = rng.choice(rows, size=2, replace=False)
            delta = k[one] - k[two]
            p = norm.cdf(mu @ delta / np.sqrt((variance * delta ** 2).sum()))
            total += 4 * p * (1 - p)
        seconds += time.perf_counter() - start
        pairs += args.pairs
        values.append(total / args.pairs)
    print(json.dumps({"seconds": seconds, "pairs": pairs, "ap_mean": float(np.mean(values))}))


if __name__ == "__main__":
    main()
