# SPDX-License-Identifier: Apache-2.0
"""Of heads of which everything is known (population.py), the rotation model and plasticity find what was put in."""
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from conftest import read_csv
from population import TOKENS, VAR_T, Kind, Population, drawn, unit, write_heads


def run(qkscope, command, folder, rng, heads, texts, table):
    qkscope(command, write_heads(folder / "c", rng, heads, texts), "-o", folder / "out", "--quiet",
            "--q-per-kv-group", 1, expect=0)
    return read_csv(folder / "out" / table)


def test_drift_slopes_and_bias(qkscope, tmp_path):
    """alpha_q, alpha_k and bias_strength within 6 standard errors."""
    rng = np.random.default_rng(3)
    heads = [drawn(rng, 24, 0.8, 0.6, 4) for _ in range(8)]
    worst = {"alpha_q": 0.0, "alpha_k": 0.0, "bias_strength": 0.0}
    for true, row in zip(heads, run(qkscope, "rotate", tmp_path, rng, heads, 300, "rotated.csv"), strict=True):
        a, n, error = true.drift_axis(), row["n_k"], {}
        for side, slope in ((true.q, "alpha_q"), (true.k, "alpha_k")):
            error[slope] = np.sqrt(a @ side.content @ a / (n * VAR_T))
        expected = {"alpha_q": a @ true.q.slope, "alpha_k": a @ true.k.slope}
        mu = a @ true.q.mean
        expected["bias_strength"] = mu * expected["alpha_k"]
        # mu_q_a turns with the estimated axis, whose entries are as uncertain as slopes are.
        turn = np.sqrt(np.trace(true.q.content + true.k.content) / (n * VAR_T))
        turn /= np.linalg.norm(true.q.slope + true.k.slope)
        error["bias_strength"] = np.hypot(abs(mu) * error["alpha_k"], abs(expected["alpha_k"])
                                          * np.linalg.norm(true.q.mean) * turn)
        for name in worst:
            worst[name] = max(worst[name], abs(row[name] - expected[name]) / error[name])
    print(worst)
    assert max(worst.values()) < 6


def on_sphere(separation, dim):
    """E PP(z) for z = separation * u, u an entry of a random unit vector in dim dimensions:
    content alone, equal in all directions, decides which of two keys wins."""
    def density(u):
        return (1 - u * u) ** ((dim - 3) / 2)

    def weighted(u):
        return 4 * norm.sf(separation * u) * norm.cdf(separation * u) * density(u)
    return quad(weighted, 0, 1, limit=200)[0] / quad(density, 0, 1, limit=200)[0]


@pytest.mark.parametrize("separation", [0, 1, 8])
def test_content_only_head_is_as_plastic_as_algebra_says(qkscope, tmp_path, separation):
    rng, dim, still = np.random.default_rng(4), 16, np.zeros(16)
    heads = [Population(Kind(separation * unit(rng, dim), still, np.eye(dim)), Kind(still, still, np.eye(dim)))
             for _ in range(2)]
    expected = on_sphere(separation, dim)
    for row in run(qkscope, "plasticity", tmp_path, rng, heads, 300, "head_metrics.csv"):
        assert row["ap_overall"] == pytest.approx(expected, abs=0.02)
        assert abs(row["ap_drop"]) < 0.03


def test_drop_grows_with_the_drift_of_the_queries(qkscope, tmp_path):
    """Keys differ by position alone. Queries that look along it, far from indifferent, are rigid; the more they begin
    indifferent to it and drift away from that, the more plasticity is lost from the first fifth to the last."""
    rng, dim, mu = np.random.default_rng(5), 8, 6
    a = unit(rng, dim)
    keys = Kind(np.zeros(dim), a / 100, 1e-6 * np.eye(dim))
    heads = [Population(Kind(mu * a, step / 4 * 2 * mu / TOKENS * a, np.eye(dim)), keys) for step in range(5)]
    rows = run(qkscope, "plasticity", tmp_path, rng, heads, 100, "head_metrics.csv")
    assert rows[0]["ap_overall"] < 0.01
    drops = [row["ap_drop"] for row in rows]
    assert drops == sorted(drops) and drops[-1] > drops[0] + 0.1, drops


def test_plasticity_is_that_of_the_model_behind_the_rows(qkscope, tmp_path):
    rng = np.random.default_rng(6)
    true = drawn(rng, 12, 0.7, 0.5, 2)
    row, = run(qkscope, "plasticity", tmp_path, rng, [true], 1000, "head_metrics.csv")
    profile = true.plasticity(2000, np.random.default_rng(1))
    fifths = true.fifths(profile)
    assert row["ap_overall"] == pytest.approx(np.nanmean(profile), abs=0.015)
    assert row["ap_first_20pct"] == pytest.approx(fifths[0], abs=0.02)
    assert row["ap_last_20pct"] == pytest.approx(fifths[4], abs=0.02)
