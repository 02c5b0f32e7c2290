# SPDX-License-Identifier: Apache-2.0
"""How often 95 % intervals hold the truth where there is drift: heads whose covariances over infinitely many texts are
known, seen through few texts that differ among themselves. Prints the table of docs/dev/validation.md; `without`: the share of numbers that had no interval.
`python bench/intervals.py build/qkscope`, ten minutes on one processor."""
import argparse

import numpy as np
from calibration import analysed

D, TOKENS, AUTOCORRELATION = 16, 64, 0.9
OFFSETS, SLOPES = 0.15, 0.05  # what texts have of their own, as shares of the variance without drift
SCALE = np.concatenate([[2], np.linspace(1.3, 0.5, D - 1)])
AT = (np.arange(TOKENS) - (TOKENS - 1) / 2) / np.sqrt((TOKENS ** 2 - 1) / 12)  # positions, standardized
SD = np.sqrt((TOKENS ** 2 - 1) / 12)
NUMBERS = ("r_q", "r_k", "r_q_a", "r_k_a", "alpha_q", "alpha_k", "bias_strength", "separation_strength")


def unit(x):
    return x / np.linalg.norm(x)


def population(rng, r):
    """(drift, mean) of queries and of keys. Along the drift of a kind, its correlation with position is r; that of keys
    goes elsewhere in part, on either side. Means on PC0 are far from 0 and not far apart: its side is known by them."""
    first = np.eye(D)[0]
    to_q = unit(0.6 * first + 0.8 * unit(rng.standard_normal(D)))
    to_k = unit(rng.choice([-1, 1]) * to_q + 0.6 * unit(rng.standard_normal(D)))
    return [(r / np.sqrt(1 - r * r) * np.linalg.norm(SCALE * to) * to,
             SCALE * (at * first + 0.5 * rng.standard_normal(D))) for to, at in ((to_q, 3), (to_k, 2))]


def truth(kinds):
    """The numbers that infinitely many texts would give, and the mean query on PC0."""
    (drift_q, mean_q), (drift_k, mean_k) = kinds
    own = np.diag(SCALE ** 2)
    of_q, of_k = (own + np.outer(drift, drift) for drift in (drift_q, drift_k))
    gap = mean_q - mean_k
    first = np.linalg.eigh((of_q + of_k) / 2 + np.outer(gap, gap) / 4)[1][:, -1]
    first *= np.sign(first @ mean_q)
    a = unit(drift_q + drift_k)
    off = np.eye(D) - np.outer(a, a)
    pairs = of_q + of_k + np.outer(gap, gap)

    def r(axis, drift, covariance):
        return axis @ drift / np.sqrt(axis @ covariance @ axis)
    return {"r_q": r(first, drift_q, of_q), "r_k": r(first, drift_k, of_k),
            "r_q_a": r(a, drift_q, of_q), "r_k_a": r(a, drift_k, of_k),
            "alpha_q": a @ drift_q / SD, "alpha_k": a @ drift_k / SD,
            "bias_strength": (a @ mean_q) * (a @ drift_k) / SD,
            "separation_strength": np.linalg.eigvalsh(off @ pairs @ off)[-1] / np.trace(pairs)}


def columns(rng, kind, texts):
    drift, mean = kind
    noise = rng.standard_normal((texts, TOKENS, D))
    for i in range(1, TOKENS):
        noise[:, i] = AUTOCORRELATION * noise[:, i - 1] + np.sqrt(1 - AUTOCORRELATION ** 2) * noise[:, i]
    offsets, slopes = (rng.standard_normal((texts, 1, D)) for _ in range(2))
    at = AT[None, :, None]
    x = SCALE * (np.sqrt(OFFSETS) * offsets + np.sqrt(SLOPES) * slopes * at + np.sqrt(1 - OFFSETS - SLOPES) * noise)
    return {"vector": (x + mean + drift * at).reshape(-1, D).astype(np.float32),
            "position": np.tile(np.arange(TOKENS), texts), "example_id": np.repeat(np.arange(texts), TOKENS)}


def judge(program, r, heads, texts, seed):
    """[number][head]: whether the interval holds the truth, lies below it, lies above it; NaN: there is none."""
    rng, truths, made = np.random.default_rng(seed), [], []
    for _ in range(heads):
        kinds = population(rng, r)
        truths.append(truth(kinds))
        made.append([columns(rng, kind, texts) for kind in kinds])
    on_pcs, rotated = analysed(program, {"qk.csv": "pca", "rotated.csv": "rotate"}, made, "--ci", "95")
    found = {}
    for true, first, axes in zip(truths, (row for row in on_pcs if row["pc"] == "0"), rotated, strict=True):
        # On PC0 the program has r_q >= 0; the mean query says which side that is.
        side = np.sign(float(first["mu_q"]))
        for name in NUMBERS:
            row, value = (first, side * true[name]) if name in ("r_q", "r_k") else (axes, true[name])
            low, high = (float(row[f"{name}_{end}"] or "nan") for end in ("lo", "hi"))
            told = (low <= value <= high, high < value, low > value)
            found.setdefault(name, []).append(told if low == low else (np.nan,) * 3)
    return np.array([found[name] for name in NUMBERS], float)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--heads", type=int, default=1000)
    parser.add_argument("--texts", default="10,16,40")
    parser.add_argument("--drift", default="0.1,0.3,0.6,0.9")
    parser.add_argument("--sides", action="store_true", help="also how often intervals lie below and above the truth")
    args = parser.parse_args()
    print("| r | texts |", " | ".join(NUMBERS), "| without |\n|---|--:|" + "--:|" * (len(NUMBERS) + 1))
    for r in map(float, args.drift.split(",")):
        for texts in map(int, args.texts.split(",")):
            found = judge(args.program, r, args.heads, texts, 4)
            cells = [f"{100 * held:.1f} %" + (f" ({100 * below:.1f}, {100 * above:.1f})" if args.sides else "")
                     for held, below, above in np.nanmean(found, axis=1)]
            print(f"| {r:g} | {texts} |", " | ".join(cells), f"| {100 * np.isnan(found[:, :, 0]).mean():.1f} % |", flush=True)


if __name__ == "__main__":
    main()
