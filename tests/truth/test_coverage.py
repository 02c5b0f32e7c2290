# SPDX-License-Identifier: Apache-2.0
"""Of 200 synthetic captures, each with a truth of its own, the 95 % intervals hold it in 90 to
98 %: with fitted axes that of the population's axes, with fixed ones that along the axis found."""
import concurrent.futures
import os

import numpy as np
import pytest

from conftest import read_csv, read_head
from population import Population

CAPTURES = 200


def axes_found(capture):
    """PC0 and a of the rows at hand."""
    (q, t_q), (k, t_k) = read_head(capture, "l00h00q"), read_head(capture, "l00h00k")
    x, t = np.concatenate([q, k]), np.concatenate([t_q, t_k]).astype(float)
    x = x - x.mean(axis=0)
    c = x.T @ (t - t.mean())
    return np.linalg.svd(x, full_matrices=False)[2][0], c / np.linalg.norm(c)


def numbers(true, pc0, a, profile):
    """Of the population, along the axes given; r_q >= 0 settles the sign of PC0."""
    r_q, r_k = true.q.r(pc0), true.k.r(pc0)
    sign = -1 if r_q < 0 else 1
    mu, alpha_k = a @ true.q.mean, a @ true.k.slope
    fifths = true.fifths(profile)
    return {"r_q": sign * r_q, "r_k": sign * r_k, "r_q_a": true.q.r(a), "r_k_a": true.k.r(a),
            "alpha_k": alpha_k, "bias_strength": mu * alpha_k,
            "ap_overall": np.nanmean(profile), "ap_drop": fifths[0] - fifths[4]}


def intervals(out):
    pc0 = next(row for row in read_csv(out / "qk.csv") if row["pc"] == 0)
    found = {**pc0, **read_csv(out / "rotated.csv")[0], **read_csv(out / "head_metrics.csv")[0]}
    return {name[:-3]: (found[name], found[name[:-3] + "_hi"])
            for name in found if name.endswith("_lo")}


def one_capture(qkscope, folder, seed):
    """{(mode, number): truth within its interval?}"""
    capture = folder / f"c{seed}"
    qkscope("synth", "-o", capture, "--quiet", "--layers", 1, "--query-heads", 1,
            "--q-per-kv-group", 1, "--dim", 8, "--examples", 60, "--rows", 16, "--rope-planes", 0,
            "--r-q", 0.7, "--r-k", 0.5, "--separation", 2, "--float32", "--truth-matrices",
            "--seed", 1000 + seed, expect=0)
    true = Population(capture)
    profile = true.plasticity(1500, np.random.default_rng(seed))
    own = numbers(true, true.first_component(), true.drift_axis(), profile)
    along = numbers(true, *axes_found(capture), profile)
    held = {}
    for mode, options, truth in (("refit", ["--ci-refit"], own), ("fixed", [], along)):
        out = folder / f"o{seed}-{mode}"
        qkscope("analyze", capture, "-o", out, "--quiet", "--ci", 95, "--threads", 1, *options,
                expect=0)
        for name, (low, high) in intervals(out).items():
            held[mode, name] = low <= truth[name] <= high
    return held


def test_intervals_hold_the_truth(qkscope, sanitized, tmp_path):
    if sanitized:
        pytest.skip("says nothing about memory, takes its time")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda seed: one_capture(qkscope, tmp_path, seed),
                                range(CAPTURES)))
    coverage = {key: sum(held[key] for held in results) / CAPTURES for key in results[0]}
    for (mode, name), share in sorted(coverage.items()):
        print(f"{mode} {name:15} {share:.1%}")
    assert len(coverage) == 16
    assert all(0.90 <= share <= 0.98 for share in coverage.values()), coverage
