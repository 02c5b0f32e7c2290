# SPDX-License-Identifier: Apache-2.0
"""Of 200 synthetic captures, each with a truth of its own, the 95 % intervals hold it in 90 to 99 %."""
import concurrent.futures
import os

import numpy as np
import pytest

from conftest import read_csv
from population import Population

CAPTURES = 200


def numbers(true, pc0, a, profile):
    """Of the population, along the axes given; r_q >= 0 settles the sign of PC0."""
    r_q, r_k = true.q.r(pc0), true.k.r(pc0)
    sign = -1 if r_q < 0 else 1
    mu, alpha_k = a @ true.q.mean, a @ true.k.slope
    fifths = true.fifths(profile)
    return {"r_q": sign * r_q, "r_k": sign * r_k, "r_q_a": true.q.r(a), "r_k_a": true.k.r(a),
            "alpha_q": a @ true.q.slope, "alpha_k": alpha_k, "bias_strength": mu * alpha_k,
            "ap_overall": np.nanmean(profile), "ap_drop": fifths[0] - fifths[4]}


def intervals(out):
    pc0 = next(row for row in read_csv(out / "qk.csv") if row["pc"] == 0)
    found = {**pc0, **read_csv(out / "rotated.csv")[0], **read_csv(out / "head_metrics.csv")[0]}
    return {name[:-3]: (found[name], found[name[:-3] + "_hi"])
            for name in found if name.endswith("_lo")}


def one_capture(qkscope, folder, seed):
    """{number: truth within its interval?}"""
    capture = folder / f"c{seed}"
    qkscope("synth", "-o", capture, "--quiet", "--layers", 1, "--query-heads", 1,
            "--q-per-kv-group", 1, "--dim", 8, "--examples", 60, "--rows", 16, "--rope-planes", 0,
            "--r-q", 0.7, "--r-k", 0.5, "--separation", 2, "--float32", "--truth-matrices",
            "--seed", 1000 + seed, expect=0)
    true = Population(capture)
    profile = true.plasticity(1500, np.random.default_rng(seed))
    truth = numbers(true, true.first_component(), true.drift_axis(), profile)
    out = folder / f"o{seed}"
    qkscope("analyze", capture, "-o", out, "--quiet", "--ci", 95, "--threads", 1, expect=0)
    return {name: low <= truth[name] <= high for name, (low, high) in intervals(out).items()
            if name in truth}


def test_intervals_hold_the_truth(qkscope, sanitized, tmp_path):
    if sanitized:
        pytest.skip("says nothing about memory, takes its time")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda seed: one_capture(qkscope, tmp_path, seed),
                                range(CAPTURES)))
    coverage = {key: sum(held[key] for held in results) / CAPTURES for key in results[0]}
    for name, share in sorted(coverage.items()):
        print(f"{name:15} {share:.1%}")
    assert len(coverage) == 9
    assert all(0.90 <= share <= 0.99 for share in coverage.values()), coverage
