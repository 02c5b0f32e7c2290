# SPDX-License-Identifier: Apache-2.0
"""Findings of measured attention, against NumPy and SciPy: differences of kinds within layers, slopes, and that there
are none without attention.csv."""
import math
import re

import numpy as np
import pytest
from findings_dump import findings_in
from scipy import stats

FINDINGS = {"attention-by-kind", "overhead-distance", "drift-slope"}
KINDS = ["position-dominated", "content-focused", "mixed"]
KEYS = ["model", "layer", "q_head", "k_head"]
LAYERS, HEADS = 8, 6

pytestmark = pytest.mark.cases(3)


def write(folder, name, made, columns, **same):
    rows = zip(*(made[column].tolist() for column in columns))
    (folder / name).write_text("".join(",".join(map(str, row)) + "\n" for row in [
        [*columns, *same], *([*row, *same.values()] for row in rows)]))


def make_study(folder, seed, models=1, effect=0.0, coupled=0.0):
    """Columns of heads that share no keys. effect: of position-dominated heads; coupled: r of the slope and the drift that predicts it."""
    rng = np.random.default_rng(seed)
    n = models * LAYERS * HEADS
    made = {"model": np.repeat([f"m-{i}" for i in range(models)], LAYERS * HEADS),
            "layer": np.tile(np.repeat(np.arange(LAYERS), HEADS), models), "q_head": np.tile(np.arange(HEADS), models * LAYERS)}
    made["k_head"] = made["q_head"]
    made["category"] = rng.choice(KINDS, n)
    made["positional_overhead"] = rng.uniform(0, 1, n)
    made["distance_share"] = (0.3 + 0.1 * rng.normal(size=n) + 0.02 * made["layer"]
                              + effect * (made["category"] == "position-dominated"))
    made["bias_strength"] = 1e-3 * rng.lognormal(0, 0.5, n)
    noise = 1e-3 * rng.normal(size=n)
    made["distance_slope"] = -coupled * made["bias_strength"] + math.sqrt(1 - coupled ** 2) * noise - 1e-3
    folder.mkdir(exist_ok=True)
    write(folder, "heads.csv", made, [*KEYS, "category", "positional_overhead"], n_q=1000, n_k=1000)
    write(folder, "rotated.csv", made, [*KEYS, "bias_strength"])
    write(folder, "attention.csv", made, [*KEYS, "distance_share", "distance_slope"])
    return made


def off_layers(values, layer):
    """Differences from the means of their layers."""
    return values - np.array([values[layer == one].mean() for one in layer])


def numbers_after(line, words):
    text = line.split(words)[1].replace("−", "-")
    return [float(word) for word in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)]


def within_layers(made):
    """Difference of means within layers, weighted by how well each is known, with its t interval and p."""
    squares = degrees = total = known = 0
    for layer in range(LAYERS):
        x, y = (made["distance_share"][(made["layer"] == layer) & (made["category"] == kind)] for kind in KINDS[:2])
        for own in (x, y):
            squares += ((own - own.mean()) ** 2).sum() if len(own) else 0
            degrees += max(len(own) - 1, 0)
        if len(x) and len(y):
            weight = 1 / (1 / len(x) + 1 / len(y))
            total += weight * (x.mean() - y.mean())
            known += weight
    mean, error = total / known, math.sqrt(squares / degrees / known)
    half = stats.t.ppf(0.975, degrees) * error
    return mean, mean - half, mean + half, 2 * stats.t.sf(abs(mean / error), degrees)


def p_of_r(x, y, pairs):
    r = stats.pearsonr(x, y)[0]
    return 2 * stats.t.sf(abs(r * math.sqrt((pairs - 2) / (1 - r * r))), pairs - 2)


@pytest.mark.parametrize("seed, effect, verdict", [(1, 0.15, "supported"), (2, 0, "unsupported"), (3, -0.15, "opposite")])
def test_kinds_of_one_model(tmp_path, seed, effect, verdict):
    made = make_study(tmp_path, seed, effect=effect)
    found = findings_in(tmp_path)[0]["attention-by-kind"]
    mean, low, high, p = within_layers(made)
    assert found.verdict == verdict and found.p == pytest.approx(p, rel=1e-6)
    line = next(line for line in found.evidence if line.startswith("Difference within layers"))
    value, level, low_shown, high_shown = numbers_after(line, "content-focused: ")[:4]
    assert level == 95 and value == pytest.approx(mean, abs=6e-4, rel=6e-3)
    assert [low_shown, high_shown] == pytest.approx([low, high], abs=6e-4, rel=6e-3)
    of_kind = made["distance_share"][made["category"] == KINDS[0]]
    assert f"position-dominated {of_kind.mean():.3f} (" in found.evidence[0]


def test_kinds_of_several_models(tmp_path):
    made = make_study(tmp_path, 4, models=5, effect=0.15)
    found = findings_in(tmp_path)[0]["attention-by-kind"]
    differences = np.array([np.subtract(*(made["distance_share"][(made["model"] == f"m-{i}") & (made["category"] == kind)].mean()
                                          for kind in KINDS[:2])) for i in range(5)])
    assert found.p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, rel=1e-6)
    line = next(line for line in found.evidence if line.startswith("Difference within models"))
    assert numbers_after(line, "content-focused: ")[0] == pytest.approx(differences.mean(), rel=6e-3)


@pytest.mark.parametrize("coupled, verdict", [(0.95, "supported"), (0, "unsupported")])
def test_slopes(tmp_path, coupled, verdict):
    made = make_study(tmp_path, 5, coupled=coupled)
    found = findings_in(tmp_path)[0]
    assert found["drift-slope"].verdict == verdict
    x, y = (off_layers(made[name], made["layer"]) for name in ("bias_strength", "distance_slope"))
    assert found["drift-slope"].p == pytest.approx(p_of_r(-x, y, len(x) - LAYERS + 1), rel=1e-6)
    assert found["overhead-distance"].verdict == "unsupported"


def test_none_without_the_table(tmp_path):
    make_study(tmp_path, 6)
    assert set(findings_in(tmp_path)[0]) >= FINDINGS
    (tmp_path / "attention.csv").unlink()
    assert not set(findings_in(tmp_path)[0]) & FINDINGS
