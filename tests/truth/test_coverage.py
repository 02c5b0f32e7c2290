# SPDX-License-Identifier: Apache-2.0
"""Of 200 heads, each with a truth of its own, the 95 % intervals hold it in 90 to 99 %."""
import numpy as np
import pytest

from conftest import read_csv
from population import drawn, write_heads

pytestmark = pytest.mark.test_all
HEADS = 200


def numbers(true, profile):
    """Of the population; r_q >= 0 settles the sign of PC0."""
    pc0, a = true.first_component(), true.drift_axis()
    r_q, r_k = true.q.r(pc0), true.k.r(pc0)
    sign = -1 if r_q < 0 else 1
    alpha_k, fifths = a @ true.k.slope, true.fifths(profile)
    return {"r_q": sign * r_q, "r_k": sign * r_k, "r_q_a": true.q.r(a), "r_k_a": true.k.r(a),
            "alpha_q": a @ true.q.slope, "alpha_k": alpha_k, "bias_strength": a @ true.q.mean * alpha_k,
            "ap_overall": np.nanmean(profile), "ap_drop": fifths[0] - fifths[4]}


def test_intervals_hold_the_truth(qkscope, tmp_path):
    rng = np.random.default_rng(1)
    heads = [drawn(rng, 8, 0.7, 0.5, 2) for _ in range(HEADS)]
    out = tmp_path / "out"
    qkscope("analyze", write_heads(tmp_path / "c", rng, heads, 60), "-o", out, "--quiet", "--ci", 95,
            "--q-per-kv-group", 1, expect=0, timeout=1800)
    pc0 = [row for row in read_csv(out / "qk.csv") if row["pc"] == 0]
    held = []
    for true, *rows in zip(heads, pc0, read_csv(out / "rotated.csv"), read_csv(out / "head_metrics.csv"), strict=True):
        found = {name: value for row in rows for name, value in row.items()}
        truth = numbers(true, true.plasticity(1500, rng))
        held.append({name: found[f"{name}_lo"] <= value <= found[f"{name}_hi"] for name, value in truth.items()})
    coverage = {name: np.mean([head[name] for head in held]) for name in held[0]}
    print("\n", {name: f"{share:.1%}" for name, share in coverage.items()})
    assert all(0.90 <= share <= 0.99 for share in coverage.values()), coverage
