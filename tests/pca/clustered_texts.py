# SPDX-License-Identifier: Apache-2.0
"""Heads whose true category is known, seen through few texts that differ among themselves.

In each of D directions a vector is a line over position, the same in all texts, and what a text adds: a slope
and an offset of its own, and noise that is like its neighbours' (autocorrelation 0.9). So covariances of
infinitely many texts are known, and with them PC0, r_q, r_k and the category. docs/how-sure.md"""
import numpy as np

D, TOKENS = 6, 128
CATEGORIES = ["position-dominated", "Q-positional", "K-positional", "content-focused", "mixed"]
AT = (np.arange(TOKENS) - (TOKENS - 1) / 2) / np.sqrt((TOKENS ** 2 - 1) / 12)  # positions, standardized


def classify(r_q, r_k, low=0.3, high=0.7):
    q, k = abs(r_q), abs(r_k)
    if q > high and k > high:
        return 0
    if q > high and k < low:
        return 1
    if q < low and k > high:
        return 2
    return 3 if q < low and k < low else 4


def near_thresholds(rng):
    """r_q and r_k of PC0 near 0.3 or 0.7; the other directions are far smaller."""
    def near():
        return np.tanh(np.arctanh(rng.choice([0.3, 0.7])) + 0.15 * rng.normal())
    r = rng.uniform(-0.5, 0.5, (2, D))
    r[0, 0], r[1, 0] = near(), near() * rng.choice([-1, 1])
    return r, np.array([3, 2, 1.5, 1, 0.8, 0.5])


def equal_eigenvalues(rng):
    """Any r; PC1 has 0.85 to 1 of the variance of PC0, and nothing turns the two apart."""
    r = rng.uniform(-0.3, 0.3, (2, D))
    while True:
        r[0, :2], r[1, 0] = rng.uniform(-0.95, 0.95, 2), rng.uniform(0.05, 0.95) * rng.choice([-1, 1])
        r[1, 1] = -r[0, 0] * r[0, 1] / r[1, 0]
        if abs(r[1, 1]) < 0.95:
            return r, np.array([3, 3 * np.sqrt(rng.uniform(0.85, 1)), 1.2, 0.8, 0.6, 0.4])


KINDS = {"near thresholds": near_thresholds, "near-equal eigenvalues": equal_eigenvalues}


def true_correlations(r, scale):
    """Of PC0, of queries and of keys."""
    covariances = []
    for kind in r:
        covariance = np.outer(kind * scale, kind * scale)
        np.fill_diagonal(covariance, scale ** 2)
        covariances.append(covariance)
    axis = np.linalg.eigh(sum(covariances))[1][:, -1]
    return [(axis @ (kind * scale)) / np.sqrt(axis @ c @ axis) for kind, c in zip(r, covariances)]


def true_category(r, scale):
    return classify(*true_correlations(r, scale))


def rows(rng, r, scale, texts, of_slopes):
    """Vectors [texts * TOKENS][D] of one kind."""
    rest = 1 - r ** 2
    noise = rng.standard_normal((texts, TOKENS, D))
    for i in range(1, TOKENS):
        noise[:, i] = 0.9 * noise[:, i - 1] + np.sqrt(1 - 0.81) * noise[:, i]
    slopes, offsets = (rng.standard_normal((texts, 1, D)) for _ in range(2))
    at = AT[None, :, None]
    x = r * at + np.sqrt(rest * of_slopes) * slopes * at + np.sqrt(0.15 * rest) * offsets + \
        np.sqrt(rest * (0.85 - of_slopes)) * noise
    return (x * scale).reshape(-1, D)


def heads(rng, kind, count, texts):
    """Yields (true category, queries, keys) of `count` heads."""
    for _ in range(count):
        r, scale = KINDS[kind](rng)
        of_slopes = rng.uniform(0.02, 0.15)
        yield (true_category(r, scale), *(rows(rng, one, scale, texts, of_slopes) for one in r))


def columns(x, texts):
    return {"vector": x.astype(np.float32), "position": np.tile(np.arange(TOKENS), texts),
            "example_id": np.repeat(np.arange(texts), TOKENS)}


def judge(table, truth, bins=((0.5, 0.8), (0.8, 0.95), (0.95, 1.0001))):
    """For each bin of probabilities: heads, mean probability, share of heads whose category is the true one."""
    said = np.array([row["category_probability"] for row in table], float)
    right = np.array([row["category"] == CATEGORIES[is_] for row, is_ in zip(table, truth)])
    for low, high in bins:
        inside = (said >= low) & (said < high)
        yield inside.sum(), said[inside].mean(), right[inside].mean()
