# SPDX-License-Identifier: Apache-2.0
"""The sentences of the report on tables where the truth is known, and that they say so where the data
do not tell; the summary's numbers against NumPy."""
import math
import random
import re

import numpy as np
import pytest

from conftest import ROOT
from findings_dump import findings_in
from made_tables import CATEGORIES, make_heads, write_results
from report_pages import drawn, findings, headlines, page_of


pytestmark = pytest.mark.cases(6)


@pytest.fixture
def report_of(qkscope, tmp_path):
    """report_of(rows, models=..., scores=..., tables=...) -> the page; what its scripts draw where it is to be seen."""
    def make(rows, *options, seen=False, **tables):
        folder = write_results(tmp_path / "results", rows, **SMALL | tables)
        page = page_of(qkscope, folder, *options)
        return re.sub(r"<script>.*?</script>", "", page, flags=re.S) + drawn(folder / "report.html") if seen else page
    return make


SMALL = {"buckets": 4, "bins": 2, "dim": 4, "pcs": 4}


@pytest.fixture
def findings_of(tmp_path):
    """Without a page, which takes longer."""
    return lambda rows, **tables: findings_in(write_results(tmp_path / "results", rows,
                                                            **SMALL | tables))[0]


def test_findings_name_figures(findings_of):
    """Of those that there are; the maps of heads are of any study."""
    sources = (ROOT / "src" / "figure" / "figures.def").read_text()
    made = trained([0.46, 0.08, 0.44, 0.64], ("A", "B", "LC", "LC"))
    for name, finding in findings_of(**made).items():
        if name not in ("separation-favours", "separation-amplifies"):
            assert finding.figures, name
        for figure in finding.figures:
            assert f'"{figure}"' in sources or re.fullmatch(r"map-0[1-6]-[a-z-]+", figure), figure


def test_the_page_has_all_findings(report_of, findings_of):
    made = trained([0.46, 0.08, 0.44, 0.64], "ABCC")
    text = report_of(**made)
    page, found = findings(text), findings_of(**made)
    assert "Benjamini and Hochberg" in text and "not corrected for" not in text
    assert list(page) == list(found)
    for name, finding in found.items():
        assert (page[name].verdict, page[name].claim) == (finding.verdict, finding.claim)
        assert page[name].evidence == finding.evidence


def several(count, change, layers=6, heads=4, family=lambda i: "F", phase=None):
    """Heads and models.csv of `count` models; change(row, rng, i)."""
    rows, models = [], []
    for i in range(count):
        rows += make_heads(f"m{i}", layers, heads, 2, seed=i,
                           change=lambda row, rng, i=i: change(row, rng, i))
        models.append({"model": f"m{i}", "label": f"Model {i}", "family": family(i),
                       "phase": phase(i) if phase else ""})
    return {"rows": rows, "models": models}


# ---- PCA ---------------------------------------------------------------------------------------

PC0 = {"supported": lambda rng: (0.8 + rng.gauss(0, 0.05), 0.1),
       "opposite": lambda rng: (0.1 + rng.gauss(0, 0.05), 0.7),
       "unsupported": lambda rng: (0.5, 0.5)}


@pytest.mark.parametrize("verdict", PC0)
@pytest.mark.parametrize("count", [1, 6])
def test_first_component(findings_of, verdict, count):
    balance = iter(range(10**6))

    def change(row, rng, i):
        row["r_q"], row["others"] = PC0[verdict](rng)
        if verdict == "unsupported":  # as often up as down, by group of heads or by model
            turn = next(balance) // 2 if count == 1 else i
            row["others"] = 0.5 + (0.2 if turn % 2 else -0.2)
    found = findings_of(**several(count, change))["pc0-positional"]
    assert found.verdict == verdict
    assert ("6 models" if count == 6 else "Model 0") in found.claim + found.evidence[0]


def test_effects_by_hand(findings_of):
    """Of each way to measure one: shares of heads, pairs of two kinds, r; and none where nothing holds."""
    def change(row, rng, i):
        row["bias_strength"] = 1e-3 if row["layer"] else -1e-3
        row["category"] = CATEGORIES[0] if row["q_head"] % 2 else CATEGORIES[3]
        row["ap_overall"] = rng.random() + (0 if row["q_head"] % 2 else 0.5)
        row["positional_overhead"] = row["ap_overall"] + rng.gauss(0, 0.3)
        row["r_q"] = row["r_k"] = 0.5
    made = several(8, change)
    found = findings_of(**made)
    models = [[row for row in made["rows"] if row["model"] == m["model"]] for m in made["models"]]
    assert found["bias-recent"].effect == pytest.approx(5 / 6 - 1 / 6)
    pairs = [(x["ap_overall"], y["ap_overall"]) for heads in models for x in heads for y in heads
             if x["category"] == CATEGORIES[3] and y["category"] == CATEGORIES[0]]
    cliff = sum((x > y) - (x < y) for x, y in pairs) / len(pairs)
    assert 0.3 < cliff < 0.95 and found["plasticity-by-kind"].effect == pytest.approx(cliff)
    z = [np.arctanh(np.corrcoef([h["positional_overhead"] for h in heads], [h["ap_overall"] for h in heads])[0, 1])
         for heads in models]
    assert found["overhead-plasticity"].effect == pytest.approx(np.tanh(np.mean(z)))
    assert found["queries-over-keys"].verdict == "unsupported" and found["queries-over-keys"].effect is None


def test_two_heads_are_too_few(findings_of):
    found = findings_of(**several(1, lambda *_: None, layers=1, heads=2))
    for name in ("pc0-positional", "queries-over-keys", "bias-recent", "plasticity-falls",
                 "keys-drift-faster", "depth-r_q"):
        assert found[name].verdict == "too-few", name
        assert "Too few" in found[name].claim


@pytest.mark.parametrize("shift, verdict", [(-0.2, "supported"), (0.2, "opposite"),
                                            (0, "unsupported")])
def test_queries_against_keys(findings_of, shift, verdict):
    def change(row, rng, i):
        row["r_q"] = 0.5
        row["r_k"] = 0.5 + shift + (0.1 if i % 2 else -0.1)
    found = findings_of(**several(6, change))["queries-over-keys"]
    assert found.verdict == verdict
    assert "n = 6 models (144 heads)" in found.evidence[0]


def test_a_negative_r_k_counts_by_its_size(findings_of):
    def change(row, rng, i):
        row["r_q"], row["r_k"] = 0.4, -0.8 + rng.gauss(0, 0.02)
    assert findings_of(**several(4, change))["queries-over-keys"].verdict == "opposite"


def test_uncertain_heads(report_of):
    """6 of 24 heads lie near a threshold, on the first screen, in the lead and the summary."""
    def change(row, rng, i):
        row["category"] = CATEGORIES[0]
        row["category_probability"] = 0.75 if row["layer"] == 2 else 0.875 if row["layer"] < 2 and \
            row["q_head"] == 0 else 0.96875
    page = report_of(**several(1, change), seen=True)
    assert "6 of 24 heads" in page
    assert headlines(page)[0]["uncertain"] == pytest.approx(0.25)
    assert re.search(r"the category of <strong>25.0(\s|&nbsp;)*%</strong> is uncertain", page)
    assert 'class="warning"' not in page


def test_too_few_rows_or_texts(report_of):
    def change(row, rng, i):
        row["texts"] = 7 if row["layer"] == 0 else 8
        row["r_q_width"] = 0.21 if row["layer"] > 3 else 0.2
        row["effective_texts"] = 4.5 if row["layer"] == 0 or row["q_head"] == 0 else 8
        row["category_probability"] = 0.9 if row["effective_texts"] == 8 else None
    page = report_of(**several(1, change), seen=True)
    assert re.findall(r'data-warning="([\w-]+)"', page) == ["texts", "long-texts", "rows", "uncertain"]
    assert "For 5 of 24 heads they decide what r is" in page
    assert "4 of 24 heads have fewer than 8 texts" in page
    assert re.search("For 8 of 24 heads the 95 % interval of .* is wider than 0.2", page)


def test_findings_need_rows(report_of):
    """Heads of fewer than 100 rows say nothing, and the page says so."""
    def change(row, rng, i):
        row["n_q"] = 99 if row["layer"] == 0 else 100
        row["n_k"] = 100
    page = report_of(**several(1, change), seen=True)
    assert "4 of 24 heads have fewer than 100 rows" in page
    assert "(20 heads)" in findings(page)["queries-over-keys"].evidence[0]
    def all_few(row, rng, i):
        row["n_q"] = row["n_k"] = 50
    page = report_of(**several(1, all_few))
    assert {finding.verdict for finding in findings(page).values()} <= {"too few to tell"}


def test_heads_whose_certainty_is_not_known(report_of):
    """They are counted beside the others, not left out."""
    def change(row, rng, i):
        row["category"] = CATEGORIES[0]
        row["category_probability"] = 0.96875 if row["layer"] else None
    page = report_of(**several(1, change), seen=True)
    assert "0 of 20 heads" in page and "certain: other texts may well give another. How sure the category of the other 4 is, their texts do not tell." in page


def test_tables_without_certainty(report_of):
    """As an older version wrote them."""
    def change(row, rng, i):
        row["category"] = CATEGORIES[0]
    page = report_of(**several(1, change), seen=True)
    assert 'class="warning"' not in page and "is uncertain" not in page


# ---- rotation ----------------------------------------------------------------------------------

@pytest.mark.parametrize("sign, verdict", [
    (lambda turn: 1, "supported"), (lambda turn: -1, "opposite"),
    (lambda turn: 1 if turn % 2 else -1, "unsupported")])
def test_bias(findings_of, sign, verdict):
    turns = iter(range(10**6))

    def change(row, rng, i):
        row["bias_strength"] = sign(next(turns) // 2) * abs(rng.gauss(1, 0.1))
    for count in (1, 8):
        found = findings_of(**several(count, change))["bias-recent"]
        assert found.verdict == verdict
        assert f"of {count * 24} heads" in found.evidence[0]


def test_the_same_weights_are_one_model(findings_of):
    """The second and third count no more than if they were not there."""
    made = several(3, lambda row, rng, i: None)
    alone = findings_of(**several(1, lambda row, rng, i: None))
    for m in made["models"]:
        m["same_as"] = "m0" * (m["model"] != "m0")
    assert findings_of(**made) == alone


def test_three_models_that_agree_are_not_proof(findings_of):
    """Three heads of a coin: 1 in 4 that all agree."""
    def change(row, rng, i):
        row["bias_strength"] = 1.0
    found = findings_of(**several(3, change))["bias-recent"]
    assert found.verdict == "unsupported"
    assert "100\u00a0% of heads, mean over models 100\u00a0%, 95 % interval 25.6\u00a0% to " \
           "100\u00a0%, n = 3 models (72 heads); p = 0.25, corrected" in found.evidence[0]


def test_slopes_by_family(findings_of):
    def change(row, rng, i):
        row["alpha_q"] = 1e-3
        row["alpha_k"] = (-3e-3 if i % 2 else 3e-4) * math.exp(rng.gauss(0, 0.05))
    found = findings_of(**several(4, change, family=lambda i: "fast" if i % 2 else "slow"))
    found = found["keys-drift-faster"]
    assert found.verdict == "divided"
    assert found.claim == ("Keys drift faster with position than queries in 1 of 2 families. "
                           "Queries drift faster with position than keys in 1 of 2 families.")
    means = {family: float(value.replace("−", "-")) for family, value in re.findall(
        r"\u2068(\w+)\u2069: .* mean over heads ([\d.−]+)", "\n".join(found.evidence))}
    assert means == {"slow": pytest.approx(math.log(0.3), rel=0.05), "fast": pytest.approx(math.log(3), rel=0.05)}


def test_a_head_without_slope_is_left_out(findings_of):
    def change(row, rng, i):
        row["alpha_q"], row["alpha_k"] = (0.0, 1e-3) if row["layer"] == 0 else (1e-3, 2e-3)
    found = findings_of(**several(1, change))["keys-drift-faster"]
    assert "mean over heads 0.693" in found.evidence[0] and "(20 heads)" in found.evidence[0]


def related(slope):
    """Bias that goes with separation; slope(i) of model i."""
    def change(row, rng, i):
        x = row["separation_strength"] = 0.1 + 0.8 * rng.random()
        row["bias_strength"] = slope(i) * (x - 0.5) + rng.gauss(0, 0.05)
    return change


def test_bias_and_separation(findings_of):
    families = {"family": lambda i: f"F{i // 2}"}
    same = findings_of(**several(4, related(lambda i: 1), **families))["bias-and-separation"]
    assert same.verdict == "supported" and same.claim == "Bias and separation go together in every family."
    none = findings_of(**several(4, related(lambda i: 0), **families))["bias-and-separation"]
    assert none.verdict == "unsupported" and "in any family" in none.claim
    one = findings_of(**several(3, related(lambda i: 1)))["bias-and-separation"]
    assert one.verdict == "supported" and "across 3 models" in one.claim


def test_families_that_disagree(findings_of):
    found = findings_of(**several(4, related(lambda i: 1 if i < 2 else -1),
                                  family=lambda i: f"F{i // 2}"))["bias-and-separation"]
    assert found.verdict == "divided"
    assert "together in 1 of 2 families." in found.claim and "against each other in 1 of 2" in found.claim


def test_simpsons_paradox(findings_of):
    """Falling within each family, rising over all."""
    def change(row, rng, i):
        x = rng.random()
        row["separation_strength"] = 0.1 + 0.2 * x + 0.25 * (i // 2)
        row["bias_strength"] = (i // 2) - 0.5 * x + rng.gauss(0, 0.02)
    found = findings_of(**several(6, change, family=lambda i: f"F{i // 2}"))["bias-and-separation"]
    assert found.verdict == "supported" and "against each other in every family" in found.claim
    assert found.evidence[-1].startswith("Simpson's paradox: over all heads together it goes the other way, r = 0.")


# ---- plasticity and scores ---------------------------------------------------------------------

@pytest.mark.parametrize("drop, verdict", [(0.1, "supported"), (-0.1, "opposite"),
                                           (0, "unsupported")])
def test_plasticity_over_the_context(findings_of, drop, verdict):
    def change(row, rng, i):
        row["ap_drop"] = drop + (0.02 if i % 2 else -0.02)
    assert findings_of(**several(4, change))["plasticity-falls"].verdict == verdict


def scored(values, drops):
    def change(row, rng, i):
        row["ap_drop"] = drops[i] + rng.gauss(0, 1e-4)
    made = several(len(values), change, layers=2, heads=2)
    return made | {"scores": [{"model": f"m{i}", "score": v} for i, v in enumerate(values)]}


def test_scores(findings_of):
    rng = random.Random(5)
    drops = [0.01 * i for i in range(9)]
    falling = findings_of(**scored([50 - 100 * d + rng.gauss(0, 1) for d in drops], drops))["scores"]
    assert falling.verdict == "supported" and "lower" in falling.claim
    chance = findings_of(**scored([3, 1, 4, 1, 5, 9, 2, 6, 5], drops[::2] + drops[1::2]))["scores"]
    assert chance.verdict == "unsupported" and "n = 9 models" in chance.evidence[0]
    few = findings_of(**scored([4, 3, 2, 1], drops[:4]))["scores"]
    assert few.verdict == "too-few" and "n = 4 models" in few.evidence[0]


def test_published_scores(qkscope, shared_data, tmp_path):
    """ap_drop against the benchmark, from the published table alone."""
    published = shared_data("published") / "scores.csv"
    (tmp_path / "scores.csv").write_bytes(published.read_bytes())
    found = findings(page_of(qkscope, tmp_path))["scores"]
    count = len(published.read_text().strip().splitlines()) - 1
    assert f"n = {count} models" in found.evidence[0]
    assert "r = −0.67" in found.evidence[0]
    assert found.verdict == ("unsupported" if count < 9 else "supported")
    assert list(findings(page_of(qkscope, tmp_path))) == ["scores"]


# ---- depth and training ------------------------------------------------------------------------

def deep(slope):
    def change(row, rng, i):
        noise = 0.02 * (-1) ** (row["layer"] // 2) + rng.gauss(0, 0.01)
        row["r_q"] = 0.5 + slope(i) * (row["layer"] / 9 - 0.5) + noise
    return change


def test_depth(findings_of):
    shape = {"layers": 10, "heads": 2}
    one = findings_of(**several(1, deep(lambda i: 0.5), **shape))["depth-r_q"]
    assert one.verdict == "supported" and "rises in" in one.claim and "10 layers" in one.evidence[0]
    flat = findings_of(**several(1, deep(lambda i: 0), **shape))["depth-r_q"]
    assert flat.verdict == "unsupported"
    many = findings_of(**several(5, deep(lambda i: -0.5), **shape))["depth-r_q"]
    assert many.verdict == "supported" and "falls across 5 models" in many.claim
    both = findings_of(**several(2, deep(lambda i: 0.5 - i), **shape))["depth-r_q"]
    assert both.verdict == "divided" and len(both.evidence) == 2
    mixed = findings_of(**several(6, deep(lambda i: 0.5 * (-1) ** i), **shape))["depth-r_q"]
    assert mixed.verdict == "unsupported" and "positive in 3 of them" in mixed.evidence[0]


def test_depth_needs_ten_layers(findings_of):
    nine = findings_of(**several(1, deep(lambda i: 0.5), layers=9, heads=2))["depth-r_q"]
    assert nine.verdict == "too-few" and "needs 10" in nine.claim and "no p-value" in nine.evidence[0]
    few = findings_of(**several(5, deep(lambda i: 0.5), layers=9, heads=2))["depth-r_q"]
    assert few.verdict == "too-few"


def test_layers_that_wander_are_no_trend(findings_of):
    """Neighbours resemble each other: 16 layers in four blocks tell less than 16 layers."""
    def change(row, rng, i):
        row["r_q"] = [0.3, 0.6, 0.4, 0.7][row["layer"] // 4] + rng.gauss(0, 0.01)
        row["r_k"] = 0.3 + 0.4 * row["layer"] / 15 + rng.gauss(0, 0.1)
    found = findings_of(**several(1, change, layers=16, heads=8))
    assert found["depth-r_q"].verdict == "unsupported"
    assert "change from the first layer to the last 0.38" in found["depth-r_q"].evidence[0]
    assert found["depth-r_k"].verdict == "supported"


def trained(levels, phases, layers=6):
    """Checkpoints whose r_k is at levels[i]; heads keep their own offset."""
    def change(row, rng, i):
        own = random.Random(f"{row['layer']}/{row['q_head']}").gauss(0, 0.02)
        row["r_k"] = levels[i] + own + rng.gauss(0, 0.005)
        row["r_q"] = 0.5 + own + rng.gauss(0, 0.005)
        for name in ("ev0", "bias_strength", "ap_overall", "ap_drop"):
            row[name] = 0.5 + own + rng.gauss(0, 0.005)
    return several(len(levels), change, layers=layers, phase=lambda i: phases[i])


def test_training(findings_of):
    found = findings_of(**trained([0.3, 0.31, 0.32, 0.7, 0.71, 0.72], "AAABBB"))
    change = found["training-r_k"]
    assert change.verdict == "supported"
    assert "the position correlation of keys on PC0 rises from" in change.claim
    assert change.claim.endswith("is that from \u2068Model 2\u2069 (\u2068A\u2069) to \u2068Model 3\u2069 (\u2068B\u2069).")
    assert "Mean over 24 heads (12 groups that share keys)" in change.evidence[0]
    assert "p = " in change.evidence[-2] and "One training run" in change.evidence[-1]
    for other in ("r_q", "ev0", "bias_strength", "ap_overall", "ap_drop"):
        assert found[f"training-{other}"].verdict == "unsupported"
    assert "at the last checkpoint, \u2068Model 5\u2069" in found["queries-over-keys"].claim


def test_the_most_certain_of_changes_that_are_not(findings_of):
    """Holm's correction makes all p 1; the pair that is named has the smallest p before it. Its interval agrees with its p."""
    def change(row, rng, i):
        group = 2 * row["layer"] + row["q_head"] // 2
        waves = (0, 0.05 * (-1) ** group, 0.05 * (-1) ** (group // 2), 0.05 * (-1) ** (group // 2))
        row["r_k"] = 0.5 + waves[i] + (0.01 + 0.03 * (-1) ** (group // 3) if i == 3 else 0)
    found = findings_of(**several(4, change, phase=lambda i: "AABB"[i]))["training-r_k"]
    [line] = [line for line in found.evidence if line.startswith("The most certain change of all 6 pairs")]
    assert "from \u2068Model 2\u2069 (\u2068B\u2069) to \u2068Model 3\u2069 (\u2068B\u2069): 0.0100, " in line and "; p = 1.0, corrected 1.0. " in line
    assert line.endswith("Interval and p are those of all pairs at once.")
    low, high = (float(x.replace("\u2212", "-")) for x in re.search(r"interval (\S+) to (\S+);", line).groups())
    assert low < 0 < high
    groups = np.array([0.01 + 0.03 * (-1) ** (g // 3) for g in range(12)])
    assert high - low > 2 * 2.9 * groups.std(ddof=1) / np.sqrt(12)  # t at 1 - 0.05 / 6, where 95 % of one pair has 2.2


@pytest.mark.parametrize("alike", [False, True])
def test_bias_over_the_context(findings_of, alike):
    """Of longer contexts the bias per token falls while that over the context stays; of texts of one length they are one question."""
    lengths = [4096] * 6 if alike else [4096] * 3 + [65536] * 3

    def change(row, rng, i):
        own = random.Random(f"{row['layer']}/{row['q_head']}").gauss(0, 0.02)
        row["bias_over_context"] = 80 * (1 + own + rng.gauss(0, 0.01))
        row["bias_strength"] = row["bias_over_context"] / lengths[i]
    made = several(6, change, phase=lambda i: "AAABBB"[i])
    for model, length in zip(made["models"], lengths, strict=True):
        model["text_tokens"] = length
    found = findings_of(**made)
    if alike:
        assert "training-bias_over_context" not in found
        return
    assert found["training-bias_strength"].verdict == "supported" and "falls" in found["training-bias_strength"].claim
    assert found["training-bias_over_context"].verdict == "unsupported"
    assert "the bias over the context" in found["training-bias_over_context"].claim


SHAPES = {  # levels, and how the claim puts them
    "u": ([0.6, 0.4, 0.2, 0.3, 0.5, 0.7], r"falls from [\d.]+ at 0 .* to [\d.]+ at 2 .*, then it rises to [\d.]+ at 5 "),
    "hill": ([0.2, 0.4, 0.6, 0.5, 0.3, 0.1], r"rises from [\d.]+ at 0 .* to [\d.]+ at 2 .*, then it falls to [\d.]+ at 5 "),
    "wave": ([0.46, 0.08, 0.44, 0.2, 0.4, 0.64], r"falls .* at 1 .*, then it rises .* at 2 .*, then it falls .* at 3 .*, "
                                                 r"then it rises .* at 5 "),
    "up": ([0.2, 0.3, 0.4, 0.5, 0.6, 0.7], r"rises from [\d.]+ at 0 .* to [\d.]+ at 5 .*[^,]*; the largest step"),
    "down": ([0.7, 0.6, 0.5, 0.4, 0.3, 0.2], r"falls from [\d.]+ at 0 .* to [\d.]+ at 5 .*[^,]*; the largest step"),
    "late": ([0.5, 0.5, 0.5, 0.5, 0.5, 0.7], r"rises from [\d.]+ at \d .* to [\d.]+ at 5 .*from 4 \(B\) to 5 \(C\)\.$"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_of_a_curve(findings_of, shape):
    """Turning points are those of the truth, and no others."""
    levels, pattern = SHAPES[shape]
    found = findings_of(**trained(levels, "AABBBC"))["training-r_k"]
    claim = re.sub("[\u2068\u2069]|Model ", "", found.claim)
    assert found.verdict == "supported" and re.search(pattern, claim), claim
    assert claim.count("then") == {"wave": 3, "u": 1, "hill": 1}.get(shape, 0)


def test_a_turn_within_the_intervals_is_none(findings_of):
    found = findings_of(**trained([0.2, 0.3, 0.2995, 0.4, 0.3995, 0.5], "AABBCC"))["training-r_k"]
    assert found.verdict == "supported"
    assert "then" not in found.claim


def test_a_checkpoint_without_the_number(findings_of):
    made = trained([0.2, 0.3, 0.4, 0.5], "AABB")
    for row in made["rows"]:
        if row["model"] == "m0":
            row["ap_drop"] = row["ap_overall"] = None
    found = findings_of(**made)
    assert "Model 0" not in found["training-ap_drop"].evidence[0]
    assert "Model 0" in found["training-r_k"].evidence[0]


def test_few_checkpoints(findings_of):
    nothing = findings_of(**trained([0.5, 0.5], "AB", layers=1))
    assert nothing["training-r_k"].verdict == "too-few"
    assert "Too few heads" in nothing["training-r_k"].claim


# ---- what is not there -------------------------------------------------------------------------

def test_missing_tables_leave_no_trace(report_of):
    made = several(2, lambda *_: None)
    page = report_of(**made, tables=("rotation",))
    found = findings(page)
    assert set(found) == {"bias-recent", "keys-drift-faster", "bias-and-separation", "depth-bias_strength"}
    columns = set(headlines(page)[0])
    assert "slope_ratio" in columns and not columns & {"ev0", "mixed", "ap_drop"}
    assert "Attention plasticity</caption>" not in page


# ---- headline numbers --------------------------------------------------------------------------

def column(rows, name):
    return np.array([np.nan if row.get(name) is None else row[name] for row in rows], float)


def expected_headlines(rows):
    mean = {"mean_r_q": "r_q", "plane_variance": "plane_var_fraction"} | {name: name for name in (
        "ev0", "pos_var_q", "pos_var_k", "pos_var_q_pc0_share", "ap_overall", "ap_first_20pct", "ap_last_20pct", "ap_drop")}
    out = {name: np.nanmean(column(rows, field)) for name, field in mean.items()}
    for name, field in {"separation_median": "separation", "fisher_median": "fisher", "bias_median": "bias_strength"}.items():
        out[name] = np.nanmedian(column(rows, field))
    for name, category in zip(("position_dominated", "q_positional", "k_positional", "content_focused", "mixed"), CATEGORIES):
        out[name] = sum(row["category"] == category for row in rows) / len(rows)
    bias = column(rows, "bias_strength")
    out["bias_positive"] = (bias[np.isfinite(bias)] > 0).mean()
    out["slope_ratio"] = np.nanmedian(np.abs(column(rows, "alpha_k") / column(rows, "alpha_q")))
    for name in ("r_k", "r_q_a", "r_k_a"):
        out[f"mean_abs_{name}"] = np.nanmean(np.abs(column(rows, name)))
    return out


def test_headlines_against_numpy(report_of):
    def change(row, rng, i):
        if rng.random() < 0.1:
            for name in ("bias_strength", "alpha_q", "r_q_a", "plane_var_fraction"):
                row[name] = None  # a degenerate head
        if rng.random() < 0.1:
            row["ap_first_20pct"] = row["ap_drop"] = None
    made = several(5, change, layers=7, heads=6, family=lambda i: "one" if i < 3 else "two")
    rows = headlines(report_of(**made))
    of = {f"m{i}": [r for r in made["rows"] if r["model"] == f"m{i}"] for i in range(5)}
    groups = [of[f"m{i}"] for i in range(5)]
    groups += [of["m0"] + of["m1"] + of["m2"], of["m3"] + of["m4"], made["rows"]]
    assert [r["kind"] for r in rows] == ["model"] * 5 + ["family"] * 2 + ["all"]
    assert [r["heads"] for r in rows] == [len(group) for group in groups]
    for row, group in zip(rows, groups):
        for name, value in expected_headlines(group).items():
            assert row[name] == pytest.approx(value, rel=1e-10, abs=1e-14), (row["model"], name)


def test_checkpoints_are_not_added_up(report_of):
    rows = headlines(report_of(**trained([0.1, 0.2, 0.3], "AAB")))
    assert [row["kind"] for row in rows] == ["model"] * 3
