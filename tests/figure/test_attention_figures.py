# SPDX-License-Identifier: Apache-2.0
"""Figures of measured attention show what attention.csv and attention_profile.csv say, where they are."""
import re

import numpy as np
import pandas as pd
import pytest
from figure_files import blocks, draw, drawn, needs_gnuplot, script_of, svg_texts
from head_tables import CATEGORIES, make_heads, write_heads

MODELS = [("a-1", 6, 8, 2), ("b-1", 4, 8, 4)]
NUMBERS = ["sink_mass", "first_mass", "self_mass", "previous_mass", "induction_mass", "far_information",
           "distance_share", "mean_distance", "distance_slope", "rotation_slope"]
MAPS = {"attention-01-distance-share": "distance_share", "attention-02-sink": "sink_mass",
        "attention-03-self": "self_mass", "attention-04-previous": "previous_mass",
        "attention-05-induction": "induction_mass", "attention-06-information": "far_information"}
POINTS = {"attention-07-r-q": ("r_q", "distance_share"), "attention-08-r-k": ("r_k", "distance_share"),
          "attention-09-plasticity": ("ap_overall", "distance_share"),
          "attention-10-slopes": ("rotation_slope", "distance_slope")}

pytestmark = needs_gnuplot


def make_attention(folder, models, seed=1):
    """Heads, the first without a category, and what they attend to, the last without numbers."""
    made = make_heads(folder, models)
    rng = np.random.default_rng(seed)
    made.loc[0, "category"] = ""
    for column in NUMBERS:
        made[column] = rng.uniform(0, 1, len(made))
    made["distance_slope"] *= -1e-4
    made.loc[len(made) - 1, NUMBERS] = np.nan
    write_heads(folder, made, models)
    made[["model", "layer", "q_head", "k_head", *NUMBERS]].to_csv(folder / "attention.csv", index=False)
    return made


@pytest.fixture(scope="module")
def two(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    made = make_attention(folder, MODELS)
    return draw(qkscope, folder, formats="png,svg"), made


@pytest.mark.parametrize("name, column", MAPS.items())
def test_every_head_is_a_cell(two, name, column):
    figures, made = two
    for (model, *_), panel in zip(MODELS, blocks(figures / name), strict=False):
        known = made[(made.model == model) & made[column].notna()]
        expected = {(h.q_head, h.layer): getattr(h, column) for h in known.itertuples()}
        found = {(int(row[0]), int(row[1])): float(row[2]) for row in panel}
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name, columns", POINTS.items())
def test_every_head_is_a_point_of_its_category(two, name, columns):
    figures, made = two
    x, y = columns
    known = made[made[x].notna() & made[y].notna()]
    rows = blocks(figures / name)[0]
    found = {(round(float(r[0]), 9), round(float(r[1]), 9)): (r[2], r[3]) for r in rows}
    assert len(rows) == len(known) == len(found)
    looks = {}
    for (px, py), look in found.items():
        near = known.iloc[np.hypot((known[x] - px) / known[x].std(), (known[y] - py) / known[y].std()).argmin()]
        assert (near[x], near[y]) == pytest.approx((px, py), rel=1e-5, abs=1e-9)
        looks.setdefault(near.category, set()).add(look)
    assert all(len(look) == 1 for look in looks.values()), "a colour and a shape for each category"
    assert len(set.union(*looks.values())) == len(CATEGORIES) + 1
    words = " ".join(svg_texts(figures / name))
    for category, count in known.category.value_counts().items():
        assert f"{category or 'no category'} ({count})" in words


def test_means_by_depth(two):
    figures, made = two
    panels = blocks(figures / "attention-14-layer-heatmaps")[:2]
    for column, panel in zip(("sink_mass", "distance_share"), panels, strict=True):
        expected = made.groupby(["model", "layer"], sort=True)[column].mean().to_numpy()
        assert sorted(float(row[2]) for row in panel) == pytest.approx(sorted(expected), rel=1e-5)


def test_one_model_has_curves_over_its_layers(qkscope, tmp_path):
    made = make_attention(tmp_path, [("alone", 6, 8, 2)])
    figures = draw(qkscope, tmp_path)
    names = drawn(figures, "attention")
    assert "attention-13-layer-curves" in names and "attention-14-layer-heatmaps" not in names
    first = blocks(figures / "attention-13-layer-curves")[0]
    expected = made.groupby("layer").sink_mass.mean().to_numpy()
    assert [float(row[1]) for row in first] == pytest.approx(expected, rel=1e-5)


def make_profiles(folder, model, seed=2):
    """attention_profile.csv: three ranges of rows; the first head has none, heads of layer 1 a window of 8 keys."""
    made = make_attention(folder, [model], seed)
    rng = np.random.default_rng(seed)
    made["means_r2"] = rng.uniform(-1, 1, len(made))
    made[["model", "layer", "q_head", "k_head", *NUMBERS, "means_r2"]].to_csv(folder / "attention.csv", index=False)
    rows = [(*head, row, 2 * row - 1, first, max(0, 2 * first - 1), *rng.lognormal(-3, 1, 4))
            for head in made[1:][["model", "layer", "q_head", "k_head"]].itertuples(index=False)
            for row in (8, 16, 32) for first in (0, 1, 2, 4, 8, 16, 32) if first <= (min(row, 4) if head[1] == 1 else row)]
    profile = pd.DataFrame(rows, columns=["model", "layer", "q_head", "k_head", "row_first", "row_last", "distance_first",
                                          "distance_last", "mass", "uniform", "predicted_rotation", "predicted_means"])
    profile["cell"] = profile.groupby(["layer", "q_head"]).cumcount()
    profile.to_csv(folder / "attention_profile.csv", index=False)
    return made, profile


def over_uniform(profile):
    last = profile[profile.row_first == 32]
    names = ["mass", "predicted_means", "predicted_rotation"]
    return last[["layer", "q_head", "distance_first"]].join(
        pd.concat([(last.distance_first + last.distance_last) / 2 + 1, last[names].div(last.uniform, axis=0)], axis=1))


def six_heads(made):
    """Of each fifth of the depth the head in the middle by distance_share, and the worst prediction of the others."""
    heads = made[1:]
    fifth = np.minimum(4, np.floor(5 * heads.layer / made.layer.max()))
    chosen = []
    for _, group in heads[heads.distance_share.notna()].groupby(fifth):
        share = group.distance_share.to_numpy()
        balance = np.abs((share[:, None] > share).sum(1) - (share[:, None] < share).sum(1))
        chosen.append(group.index[balance.argmin()])
    return [*chosen, heads.means_r2.drop(chosen).idxmin()]


def test_profiles_of_six_heads(qkscope, tmp_path):
    made, profile = make_profiles(tmp_path, ("alone", 7, 5, 1))
    figure = draw(qkscope, tmp_path) / "attention-11-profiles-alone"
    ratios = over_uniform(profile)
    chosen = six_heads(made)
    panels = blocks(figure)
    assert len(panels) == len(set(chosen)) == 6
    for i, panel in zip(chosen, panels, strict=True):
        own = ratios[(ratios.layer == made.layer[i]) & (ratios.q_head == made.q_head[i])]
        assert np.array(panel, float) == pytest.approx(own.to_numpy()[:, 3:], rel=1e-5)
    words = [text.replace("\N{MINUS SIGN}", "-") for text in svg_texts(figure)]
    titles = [f"layer {made.layer[i]}, head {made.q_head[i]}: R² = {made.means_r2[i]:.2f}" for i in chosen]
    assert [text for text in words if text.startswith("layer")] == titles
    assert {"measured", "predicted by mean vectors", "predicted by the drift of keys"} <= set(words)


def test_profiles_by_layer(qkscope, tmp_path):
    _, profile = make_profiles(tmp_path, ("alone", 7, 5, 1))
    figure = draw(qkscope, tmp_path) / "attention-12-profiles-by-depth-alone"
    means = np.log2(over_uniform(profile).groupby(["layer", "distance_first"]).mass.mean())
    bins = [0, 1, 2, 4, 8, 16, 32]
    found = {(int(row[1]), bins[int(row[0])]): float(row[2]) for row in blocks(figure)[0]}
    assert found == pytest.approx(means.to_dict(), rel=1e-5, abs=1e-5)
    assert 7 * 7 - len(found) == 3, "layer 1 has no keys beyond its window"
    assert " ".join(map(str, bins)) in " ".join(svg_texts(figure)), "bins are called by where they begin"


def test_profiles_without_predictions(qkscope, tmp_path):
    """No line, no name in the legend and no R²; a line that leaves what was measured does not set the axis."""
    made, profile = make_profiles(tmp_path, ("alone", 7, 5, 1))
    profile["predicted_means"] = np.nan
    profile["predicted_rotation"] = 1e-40
    profile.to_csv(tmp_path / "attention_profile.csv", index=False)
    made[["model", "layer", "q_head", "k_head", *NUMBERS]].to_csv(tmp_path / "attention.csv", index=False)
    figure = draw(qkscope, tmp_path) / "attention-11-profiles-alone"
    words = svg_texts(figure)
    assert "predicted by the drift of keys" in words and "predicted by mean vectors" not in words
    assert not any("R²" in text for text in words) and len(blocks(figure)) == 5
    lows = [float(low) for low in re.findall(r"^set yrange \[([^:]+):", script_of(figure), re.M)]
    measured = [min(float(row[1]) for row in panel) for panel in blocks(figure)]
    assert lows == pytest.approx([low / 14 for low in measured], rel=1e-4)


@pytest.mark.parametrize("value", [0, -1, np.nan])
def test_profiles_of_nothing(qkscope, tmp_path, value):
    _, profile = make_profiles(tmp_path, ("alone", 7, 5, 1))
    profile["mass"] = value
    profile.to_csv(tmp_path / "attention_profile.csv", index=False)
    assert {"attention-11-profiles-alone", "attention-12-profiles-by-depth-alone"} <= set(drawn(draw(qkscope, tmp_path), "attention"))


def test_none_without_the_table(qkscope, tmp_path):
    make_heads(tmp_path, MODELS)
    assert not drawn(draw(qkscope, tmp_path), "attention")
