# SPDX-License-Identifier: Apache-2.0
"""Findings of measured attention, against NumPy and SciPy: differences of kinds within layers, slopes, and that there
are none without attention.csv."""
import math
import re

import numpy as np
import pandas as pd
import pytest
from findings_dump import findings_in
from scipy import stats

FINDINGS = {"attention-by-kind", "overhead-distance", "drift-slope"}
KINDS = ["position-dominated", "content-focused", "mixed"]


def make_study(folder, seed, models=1, effect=0.0, coupled=0.0):
    """Heads that share no keys. effect: of position-dominated heads; coupled: r of the two slopes."""
    rng = np.random.default_rng(seed)
    layers, heads = 8, 6
    n = models * layers * heads
    made = pd.DataFrame({"model": np.repeat([f"m-{i}" for i in range(models)], layers * heads),
                         "layer": np.tile(np.repeat(np.arange(layers), heads), models),
                         "q_head": np.tile(np.arange(heads), models * layers)})
    made["k_head"] = made.q_head
    made["category"] = rng.choice(KINDS, n)
    made["positional_overhead"] = rng.uniform(0, 1, n)
    made["distance_share"] = (0.3 + 0.1 * rng.normal(size=n) + 0.02 * made.layer
                              + effect * (made.category == "position-dominated"))
    made["rotation_slope"] = -1e-3 * rng.lognormal(0, 0.5, n)
    noise = 1e-3 * rng.normal(size=n)
    made["distance_slope"] = coupled * made.rotation_slope + math.sqrt(1 - coupled ** 2) * noise - 1e-3
    keys = ["model", "layer", "q_head", "k_head"]
    folder.mkdir(exist_ok=True)
    made[[*keys, "category", "positional_overhead"]].assign(n_q=1000, n_k=1000).to_csv(folder / "heads.csv", index=False)
    made[[*keys, "distance_share", "rotation_slope", "distance_slope"]].to_csv(folder / "attention.csv", index=False)
    return made


def numbers_after(line, words):
    text = line.split(words)[1].replace("−", "-")
    return [float(word) for word in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)]


def within_layers(made):
    """Difference of means within layers, weighted by how well each is known, with its t interval and p."""
    a, b = (made[made.category == kind] for kind in KINDS[:2])
    squares = degrees = total = known = 0
    for one in (a, b):
        for _, own in one.groupby("layer"):
            squares += ((own.distance_share - own.distance_share.mean()) ** 2).sum()
            degrees += len(own) - 1
    for layer in set(a.layer) & set(b.layer):
        x, y = (one[one.layer == layer].distance_share for one in (a, b))
        weight = 1 / (1 / len(x) + 1 / len(y))
        total += weight * (x.mean() - y.mean())
        known += weight
    mean, error = total / known, math.sqrt(squares / degrees / known)
    half = stats.t.ppf(0.975, degrees) * error
    return mean, mean - half, mean + half, 2 * stats.t.sf(abs(mean / error), degrees)


@pytest.mark.parametrize("seed, effect, verdict", [(1, 0.15, "supported"), (2, 0, "unsupported"), (3, -0.15, "opposite")])
def test_kinds_of_one_model(tmp_path, seed, effect, verdict):
    made = make_study(tmp_path, seed, effect=effect)
    found = findings_in(tmp_path)[0]["attention-by-kind"]
    mean, low, high, p = within_layers(made)
    assert found.verdict == verdict and found.p == pytest.approx(p, rel=1e-6)
    line = next(line for line in found.evidence if line.startswith("Difference within layers"))
    value, level, *interval = numbers_after(line, "content-focused: ")
    assert level == 95 and value == pytest.approx(mean, abs=6e-4, rel=6e-3)
    assert interval == pytest.approx([low, high], abs=6e-4, rel=6e-3)
    assert f"position-dominated {made[made.category == KINDS[0]].distance_share.mean():.3f} (" in found.evidence[0]


def test_kinds_of_several_models(tmp_path):
    made = make_study(tmp_path, 4, models=5, effect=0.15)
    found = findings_in(tmp_path)[0]["attention-by-kind"]
    means = made.groupby(["model", "category"]).distance_share.mean().unstack()
    differences = means[KINDS[0]] - means[KINDS[1]]
    assert found.p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, rel=1e-6)
    line = next(line for line in found.evidence if line.startswith("Difference within models"))
    assert numbers_after(line, "content-focused: ")[0] == pytest.approx(differences.mean(), rel=6e-3)


@pytest.mark.parametrize("coupled, verdict", [(0.95, "supported"), (0, "unsupported")])
def test_slopes(tmp_path, coupled, verdict):
    made = make_study(tmp_path, 5, coupled=coupled)
    found = findings_in(tmp_path)[0]
    assert found["drift-slope"].verdict == verdict
    x, y = (made[name] - made.groupby("layer")[name].transform("mean") for name in ("rotation_slope", "distance_slope"))
    pairs = len(made) - 8 + 1
    r = stats.pearsonr(x, y)[0]
    t = r * math.sqrt((pairs - 2) / (1 - r * r))
    assert found["drift-slope"].p == pytest.approx(2 * stats.t.sf(abs(t), pairs - 2), rel=1e-6)
    same = (made.rotation_slope * made.distance_slope > 0).mean()
    assert numbers_after(found["drift-slope"].evidence[-1], "same sign in ")[0] == pytest.approx(100 * same, rel=6e-3)
    assert found["overhead-distance"].verdict == "unsupported"


def test_none_without_the_table(tmp_path):
    make_study(tmp_path, 6)
    assert set(findings_in(tmp_path)[0]) >= FINDINGS
    (tmp_path / "attention.csv").unlink()
    assert not set(findings_in(tmp_path)[0]) & FINDINGS


# ---- long contexts -------------------------------------------------------------------------------

def make_checkpoints(folder, seed, coupled):
    """Before and after training on long contexts: how much the keys of a head part from position, and how much
    farther it attends."""
    rng = np.random.default_rng(seed)
    first = make_study(folder, seed)
    both = pd.concat([first.assign(model="m-0"), first.assign(model="m-1")], ignore_index=True)
    n = len(first)
    fall = rng.uniform(0, 0.5, n)
    farther = 2 * fall * coupled + 0.2 * rng.normal(size=n)
    before = rng.uniform(0.6, 0.9, n) * rng.choice([-1, 1], n)
    both["r_k"] = np.concatenate([before, -np.sign(before) * (np.abs(before) - fall)])  # PC0 may turn
    both["mean_distance"] = np.concatenate([100 * np.ones(n), 100 * np.exp(farther)])
    keys = ["model", "layer", "q_head", "k_head"]
    both[[*keys, "category"]].assign(n_q=1000, n_k=1000).to_csv(folder / "heads.csv", index=False)
    both[[*keys, "r_k"]].assign(pc=0, explained_variance=0.5, r_q=0.5).to_csv(folder / "qk.csv", index=False)
    both[[*keys, "mean_distance"]].to_csv(folder / "attention.csv", index=False)
    (folder / "models.csv").write_text("model,label,family,phase,source\nm-0,first,f,Stage 1,\nm-1,last,f,LC 32K,\n")
    return first.layer, fall, farther


@pytest.mark.parametrize("coupled, verdict", [(1, "supported"), (0, "unsupported"), (-1, "opposite")])
def test_keys_that_part_and_reach(tmp_path, coupled, verdict):
    layer, fall, farther = make_checkpoints(tmp_path, 7, coupled)
    found = findings_in(tmp_path)[0]["training-farther"]
    assert found.verdict == verdict
    x, y = (pd.Series(v) - pd.Series(v).groupby(layer).transform("mean") for v in (fall, farther))
    pairs = len(x) - 8 + 1
    r = stats.pearsonr(x, y)[0]
    t = r * math.sqrt((pairs - 2) / (1 - r * r))
    assert found.p == pytest.approx(2 * stats.t.sf(abs(t), pairs - 2), rel=1e-6)
    assert numbers_after(found.evidence[-1], "sink (")[0] == pytest.approx(farther.mean(), rel=6e-3, abs=1e-4)


def test_no_reach_without_the_table(tmp_path):
    make_checkpoints(tmp_path, 7, 1)
    (tmp_path / "attention.csv").unlink()
    assert "training-farther" not in findings_in(tmp_path)[0]
