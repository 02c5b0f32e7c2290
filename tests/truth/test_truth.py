# SPDX-License-Identifier: Apache-2.0
"""Synthetic captures: the rotation model and plasticity find what was put in."""
import json

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from conftest import read_csv
from population import Population


def make(qkscope, folder, **options):
    words = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [value])
    qkscope("synth", "-o", folder, "--quiet", *words, expect=0)
    return folder


def truth_of(folder):
    truth = json.loads((folder / "truth.json").read_text())
    return truth, {head["name"]: head for head in truth["heads"]}


def run(qkscope, command, capture, out, *options):
    qkscope(command, capture, "-o", out, "--quiet", *options, expect=0)
    return out


def test_drift_slopes_and_bias(qkscope, tmp_path):
    """alpha_q, alpha_k and bias_strength within 6 standard errors, of 32 heads."""
    capture = make(qkscope, tmp_path / "c", layers=4, query_heads=8, q_per_kv_group=2, dim=24,
                   examples=200, rows=100, rope_planes=0, r_q=0.8, r_k=0.6, float32=True,
                   truth_matrices=True, seed=3)
    out = run(qkscope, "rotate", capture, tmp_path / "out")
    worst = {"alpha_q": 0.0, "alpha_k": 0.0, "bias_strength": 0.0}
    rows = read_csv(out / "rotated.csv")
    assert len(rows) == 32
    for row in rows:
        true = Population(capture, row["layer"], row["q_head"], row["k_head"])
        a, n = true.drift_axis(), row["n_k"]
        error = {}
        for kind, slope in (("q", "alpha_q"), ("k", "alpha_k")):
            side = getattr(true, kind)
            error[slope] = np.sqrt(a @ side.content @ a / (n * true.var_t))
        expected = {"alpha_q": a @ true.q.slope, "alpha_k": a @ true.k.slope}
        mu = a @ true.q.mean
        expected["bias_strength"] = mu * expected["alpha_k"]
        # mu_q_a turns with the estimated axis, whose entries are as uncertain as slopes are.
        turn = np.sqrt(np.trace(true.q.content + true.k.content) / (n * true.var_t))
        turn /= np.linalg.norm(true.q.slope + true.k.slope)
        error["bias_strength"] = np.hypot(abs(mu) * error["alpha_k"], abs(expected["alpha_k"])
                                          * np.linalg.norm(true.q.mean) * turn)
        for name in worst:
            worst[name] = max(worst[name], abs(row[name] - expected[name]) / error[name])
    print(worst)
    assert max(worst.values()) < 6


@pytest.mark.parametrize("theta", [100, 10000])
def test_rope_frequencies_come_back(qkscope, tmp_path, theta):
    """Every plane that turns once or more shows in the complement, to 1 %."""
    planes, width = 4, 2048
    found = total = 0
    for seed in range(16):
        capture = make(qkscope, tmp_path / f"c{seed}", layers=1, query_heads=2, q_per_kv_group=1,
                       dim=16, examples=20, rows=400, buckets=16, bucket_width=width // 16,
                       rope_planes=planes, rope_theta=theta, exponent=0, scale=0.5,
                       r_q=0.5, r_k=0.5, seed=seed)
        out = run(qkscope, "rotate", capture, tmp_path / f"o{seed}", "--complement")
        heads = truth_of(capture)[1]
        table = read_csv(out / "complement.csv")
        for q_head in range(2):
            true = heads[f"l00h{q_head:02d}q"]["planes"]
            both = zip(true, heads[f"l00h{q_head:02d}k"]["planes"])
            rows = [row for row in table if row["q_head"] == q_head]
            # Planes of like radius mix: only those that stand out by a quarter can be told.
            power = [q["amplitude"] ** 2 + k["amplitude"] ** 2 for q, k in both]
            for plane, own in zip(true, power):
                others = [p for p in power if p != own]
                if (plane["omega"] * width < 2 * np.pi or own < 2 * 0.5 ** 2 or
                        min(abs(np.log(own / p)) for p in others) < 0.25):
                    continue
                total += 1
                best = min(rows, key=lambda row: abs(row["omega"] / plane["omega"] - 1))
                off = abs(best["omega"] / plane["omega"] - 1)
                assert off < 0.01, (seed, q_head, plane, best)
                assert best["resultant"] > 0.2
                # capture.json lists the frequencies, so the table names the one it is.
                assert best["rope_frequency"] == pytest.approx(plane["omega"], rel=1e-12)
                assert best["rope_relative_error"] == pytest.approx(off, abs=1e-12)
                found += 1
    assert found == total and total >= 10, (found, total)


def on_sphere(separation, dim):
    """E PP(z) for z = separation * u, u an entry of a random unit vector in dim dimensions:
    content alone, equal in all directions, decides which of two keys wins."""
    def density(u):
        return (1 - u * u) ** ((dim - 3) / 2)

    def weighted(u):
        return 4 * norm.sf(separation * u) * norm.cdf(separation * u) * density(u)
    return quad(weighted, 0, 1, limit=200)[0] / quad(density, 0, 1, limit=200)[0]


@pytest.mark.parametrize("separation", [0, 1, 3, 8])
@pytest.mark.parametrize("variance", ["diag", "full"])
def test_content_only_head_is_as_plastic_as_algebra_says(qkscope, tmp_path, separation, variance):
    dim = 16
    capture = make(qkscope, tmp_path / "c", layers=2, query_heads=4, q_per_kv_group=1, dim=dim,
                   examples=300, rows=32, rope_planes=0, slope_q=0, slope_k=0, exponent=0,
                   mean_offset=0, separation=separation, float32=True)
    out = run(qkscope, "plasticity", capture, tmp_path / "out", "--variance", variance)
    expected = on_sphere(separation, dim)
    for row in read_csv(out / "head_metrics.csv"):
        assert row["ap_overall"] == pytest.approx(expected, abs=0.02)
        assert abs(row["ap_drop"]) < 0.03


def test_position_locked_head_is_rigid(qkscope, tmp_path):
    """Keys differ by position alone, and the queries look along it, far from indifferent."""
    capture = make(qkscope, tmp_path / "c", layers=8, query_heads=4, q_per_kv_group=1, dim=8,
                   examples=100, rows=32, rope_planes=0, slope_q=0, r_k=0.99999, separation=16,
                   mean_offset=0, exponent=0, float32=True, seed=5)
    out = run(qkscope, "plasticity", capture, tmp_path / "out")
    heads = truth_of(capture)[1]
    locked = 0
    for row in read_csv(out / "head_metrics.csv"):
        head = heads[f"l{row['layer']:02d}h{row['q_head']:02d}q"]
        if abs(head["pair"]["mu_q_a"]) > 5 * head["scale"]:
            locked += 1
            assert row["ap_overall"] < 0.01
    assert locked >= 5


def test_drop_grows_with_the_drift_of_the_queries(qkscope, tmp_path):
    """Queries that begin indifferent to position and drift away from that: the steeper, the more
    plasticity is lost from the first fifth to the last."""
    options = dict(layers=1, query_heads=1, q_per_kv_group=1, dim=8, examples=200, rows=32,
                   rope_planes=0, r_k=0.98, separation=8, mean_offset=0, exponent=0,
                   float32=True, truth_matrices=True)
    tokens, checked = 16 * 128, 0
    for seed in range(12):
        capture = make(qkscope, tmp_path / f"s{seed}", slope_q=0, seed=seed, **options)
        true = Population(capture)
        mu = truth_of(capture)[1]["l00h00q"]["pair"]["mu_q_a"]
        if mu < 2 * np.sqrt(true.q.content[0, 0]):
            continue
        drops = []
        for step in range(5):
            folder = make(qkscope, tmp_path / f"c{seed}-{step}", seed=seed,
                          slope_q=step / 4 * 2 * mu / tokens, **options)
            out = run(qkscope, "plasticity", folder, tmp_path / f"o{seed}-{step}")
            drops.append(read_csv(out / "head_metrics.csv")[0]["ap_drop"])
        assert drops == sorted(drops) and drops[-1] > drops[0] + 0.1, (seed, drops)
        checked += 1
    assert checked >= 3


def test_plasticity_is_that_of_the_model_behind_the_rows(qkscope, tmp_path):
    capture = make(qkscope, tmp_path / "c", layers=2, query_heads=2, q_per_kv_group=1, dim=12,
                   examples=1000, rows=16, rope_planes=0, r_q=0.7, r_k=0.5, float32=True,
                   truth_matrices=True)
    out = run(qkscope, "plasticity", capture, tmp_path / "out")
    for row in read_csv(out / "head_metrics.csv"):
        true = Population(capture, row["layer"], row["q_head"], row["k_head"])
        profile = true.plasticity(4000, np.random.default_rng(1))
        assert row["ap_overall"] == pytest.approx(np.nanmean(profile), abs=0.015)
        fifths = true.fifths(profile)
        assert row["ap_first_20pct"] == pytest.approx(fifths[0], abs=0.02)
        assert row["ap_last_20pct"] == pytest.approx(fifths[4], abs=0.02)
