# SPDX-License-Identifier: Apache-2.0
"""The tests behind the findings against SciPy, and their correction."""
import math

import numpy as np
import pytest

from findings_dump import run_dump
from layers_oracle import layers_expected

stats = pytest.importorskip("scipy.stats")


def ask(*lines):
    """p and side of each line: a name and numbers."""
    text = "".join(" ".join([name, *map(repr, map(float, numbers))]) + "\n" for name, *numbers in lines)
    return [tuple(map(float, line.split())) for line in run_dump("--tests", text=text)]


def samples(seed, count=60):
    rng = np.random.default_rng(seed)
    for i in range(count):
        size = int(rng.integers(3, 40)) if i % 5 else int(rng.integers(300, 3000))
        yield rng, rng.normal(rng.normal() / 2, math.exp(rng.normal()), size)


def agree(found, expected, side):
    assert found[0] == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert found[1] == side


def test_means():
    values = [v for _, v in samples(1)]
    for v, found in zip(values, ask(*[("mean", 0.1, *v) for v in values])):
        expected = stats.ttest_1samp(v, 0.1)
        agree(found, expected.pvalue, np.sign(expected.statistic))


def test_tiny_p_values():
    """Far beyond what 1 - p could tell."""
    v = 5 + 0.1 * np.random.default_rng(2).normal(size=150)
    [(p, side)] = ask(("mean", 0, *v))
    assert p < 1e-200 and side == 1
    assert p == pytest.approx(stats.ttest_1samp(v, 0).pvalue, rel=1e-9)


def test_values_without_spread_are_counted():
    found = ask(("mean", 0.5, *[0.7] * 8), ("mean", 0.7, *[0.7] * 8), ("mean", 0, 1, 2),
                ("mean", 0, 1, "nan", 2, 4))
    assert found[0] == (pytest.approx(2 ** -7), 1) and found[1] == (1, 0) and math.isnan(found[2][0])
    assert found[3][0] == pytest.approx(stats.ttest_1samp([1, 2, 4], 0).pvalue)


def test_signs():
    cases = []
    for rng, v in samples(3):
        cases.append(np.where(rng.random(v.size) < 0.1, 0.25, v))
    for v, found in zip(cases, ask(*[("signs", 0.25, *v) for v in cases])):
        above, below = int((v > 0.25).sum()), int((v < 0.25).sum())
        agree(found, stats.binomtest(above, above + below).pvalue if above + below else 1, np.sign(above - below))


def test_correlations():
    cases = [(rng.uniform(-1, 1) ** 3, v.size) for rng, v in samples(4)]
    for (r, n), found in zip(cases, ask(*[("correlation", r, n) for r, n in cases])):
        expected = 2 * stats.beta(n / 2 - 1, n / 2 - 1, loc=-1, scale=2).sf(abs(r))  # as pearsonr has it
        agree(found, expected, np.sign(r))
    r, n = 0.6, 11.3  # as many pairs as tell that much
    [found] = ask(("correlation", r, n))
    agree(found, 2 * stats.t(n - 2).sf(r * math.sqrt((n - 2) / (1 - r * r))), 1)
    assert ask(("correlation", 1, 5), ("correlation", -1, 5)) == [(0, 1), (0, -1)]
    assert math.isnan(ask(("correlation", 0.5, 2))[0][0])


def test_correction():
    rng = np.random.default_rng(9)
    for count in (1, 2, 7, 40):
        p = rng.random(count) ** 3
        p[count // 2:] = np.round(p[count // 2:], 1)
        [line] = run_dump("--tests", text="correct " + " ".join(map(repr, map(float, p))) + "\n")
        found = np.array(line.split(), float)
        np.testing.assert_allclose(found, stats.false_discovery_control(p), rtol=1e-12)


@pytest.mark.parametrize("slope", [0, 1])
def test_layers(slope):
    """A layer is missing, layers have one to four groups; means also of two models."""
    rng = np.random.default_rng(10)
    cases = []
    for case in (0, 5):
        groups = [(s, i) for s in range(1 if slope else 1 + case % 2) for i in range(9) if i != 4
                  for _ in range(rng.integers(1, 5))]
        series, layer = np.array(groups).T
        shared = np.cumsum(rng.normal(size=20)) * 0.3 * (case % 3)
        cases.append((series, layer, layer / 8, rng.normal(1, 1, series.size) + shared[layer] + 0.5 * series))
    lines = [("layers", slope, 0.2, *np.stack(case, 1).ravel()) for case in cases]
    for case, found in zip(cases, ask(*lines)):
        expected, side = layers_expected(slope, 0.2, *case)
        assert found == (pytest.approx(expected, rel=1e-6), side)
