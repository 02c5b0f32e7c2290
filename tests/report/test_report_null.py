# SPDX-License-Identifier: Apache-2.0
"""What findings say of studies in which nothing goes on, and in which something does."""
import numpy as np
import pytest

from findings_dump import findings_in
from random_studies import write_study

scipy_stats = pytest.importorskip("scipy.stats")

PHASES = ("Stage 1", "Stage 1", "Stage 2", "Stage 2", "LC 32K", "LC 32K")
SAYS = {"supported", "opposite", "divided"}
KINDS = {  # seeds and studies: one model, one whose layers differ, models of two families, checkpoints
    "one": (range(50), {}),
    "layers": (range(500, 550), {"of_layers": 0.2}),
    "models": (range(1000, 1050), {"models": 6}),
    "training": (range(2000, 2050), {"models": 6, "phases": PHASES}),
}


def studies(folder, kind, seeds=None, **options):
    listed, shape = KINDS[kind]
    return findings_in(*[write_study(folder / f"{kind}-{seed}", seed, **shape, **options)
                         for seed in (seeds or listed)])


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A few of them."""
    folder = tmp_path_factory.mktemp("few")
    return studies(folder, "one", range(4)) + studies(folder, "training", range(2000, 2002))


@pytest.fixture(scope="module")
def nothing(tmp_path_factory):
    """200 studies without any effect."""
    folder = tmp_path_factory.mktemp("null")
    return {kind: studies(folder, kind) for kind in KINDS}


@pytest.mark.test_all
def test_of_nothing_nothing_is_said(nothing):
    """At most 5 % of the studies have any finding that claims something: not 5 % of the findings."""
    every = [study for kind in nothing.values() for study in kind]
    wrong = [{name for name, f in study.items() if f.verdict in SAYS} for study in every]
    assert len(every) == 200
    assert sum(map(bool, wrong)) <= 10, wrong


# Share of the variance between layers, and the correlation of neighbouring ones: the last is that of SmolLM2.
SETTINGS = [(0, 0), (0.4, 0.3), (0.6, 0.6), (0.5, 0.9), (0.66, 0.61)]


@pytest.mark.test_all
def test_layers_that_resemble_each_other(tmp_path):
    """A small version of bench/null_pages.py: at most 7 % of pages claim anything, whatever layers are like."""
    wrong = []
    for i, (share, neighbours) in enumerate(SETTINGS):
        folders = [write_study(tmp_path / f"{i}-{seed}", seed, of_layers=share, neighbours=neighbours)
                   for seed in range(6000 + 100 * i, 6030 + 100 * i)]
        claims = [{name for name, f in study.items() if f.verdict in SAYS} for study in findings_in(*folders)]
        wrong.append(sum(map(bool, claims)))
    assert max(wrong) <= 4 and sum(wrong) <= 10, wrong


@pytest.mark.test_all
def test_p_values_of_nothing(nothing):
    """They are as often small as they say, finding by finding, or less often: those that must be safe
    against the choice among components or pairs, and those of counts."""
    for kind, every in nothing.items():
        for name in set(every[0]) - {"bias-and-separation", "keys-drift-faster"}:  # the least of several
            p = np.array([study[name].p for study in every if study[name].p is not None])
            if p.size < 40:
                continue
            for level in (0.05, 0.2):
                few = scipy_stats.binom(p.size, level).ppf(1 - 1e-4)
                assert (p <= level).sum() <= few, (kind, name, level, (p <= level).mean())


def test_corrected_together(few):
    """With tests that count once each the corrected p-values are those of SciPy over the page."""
    for study in few[:4]:
        tested = [f for f in study.values() if f.p is not None]
        expected = scipy_stats.false_discovery_control([f.p for f in tested])
        np.testing.assert_allclose([f.adjusted for f in tested], expected, rtol=1e-12)
        assert len(tested) >= 16


def test_every_claim_follows_its_corrected_p(few):
    for study in few:
        for name, f in study.items():
            assert (f.p is None) == (f.verdict in ("too-few", "measured")), name
            assert (f.verdict in SAYS) == (f.p is not None and f.adjusted <= 0.05), name
            assert f.p is None or any("p = " in line and "corrected" in line for line in f.evidence), name


# ---- something goes on -------------------------------------------------------------------------

def shifted(column, by):
    def effect(v, i, study):
        v[column] = v[column] + by
    return effect


def coupled(column, to, share):
    """So that they correlate by `share` or so."""
    def effect(v, i, study):
        x, y = (v[name] - v[name].mean() for name in (to, column))
        v[column] = v[column].mean() + share * x * y.std() / x.std() + np.sqrt(1 - share ** 2) * y
    return effect


def by_kind(v, i, study):
    v["ap_overall"] = v["ap_overall"] + 0.2 * (v["category"] == "content-focused")


def over_depth(v, i, study):
    v["r_k0"] = v["r_k0"] + 0.3 * (study.layer / study.layer.max())


def bent(v, i, study):
    v["r_k0"] = v["r_k0"] + (0.1, 0.05, 0.0, 0.05, 0.1, 0.15)[i]


EFFECTS = {  # about one standard deviation of heads, r = 0.5, or three of what a step differs by
    "queries-over-keys": ("one", shifted("r_k0", -0.14), "supported"),
    "bias-recent": ("one", shifted("bias_strength", 1), "supported"),
    "plasticity-falls": ("one", shifted("ap_drop", -1), "opposite"),
    "plasticity-by-kind": ("one", by_kind, "supported"),
    "overhead-plasticity": ("one", coupled("ap_overall", "positional_overhead", -0.5), "supported"),
    "depth-r_k": ("one", over_depth, "supported"),
    "training-r_k": ("training", bent, "supported"),
    "rope-slow-score": ("models", shifted("slow_score_share", 0.3), "supported"),
}


@pytest.mark.test_all
@pytest.mark.parametrize("name", EFFECTS)
def test_moderate_effects_are_found(tmp_path, name):
    """In at least 80 % of studies, and never the other way round."""
    kind, effect, verdict = EFFECTS[name]
    size = {} if kind == "models" else {"layers": 32, "heads": 12}
    found = [study[name].verdict for study in studies(tmp_path, kind, range(3000, 3020), effect=effect, **size)]
    assert set(found) <= {verdict, "unsupported"}
    assert found.count(verdict) >= 16, found


@pytest.mark.test_all
def test_a_bend_is_told(tmp_path):
    """Down to the third of six checkpoints, and up again."""
    for study in studies(tmp_path, "training", range(3100, 3110), effect=bent, layers=24, heads=12):
        assert ", then it rises to" in study["training-r_k"].claim, study["training-r_k"].claim
        assert study["training-r_k"].claim.count("then") == 1
