# SPDX-License-Identifier: Apache-2.0
"""Figures of measured attention show what attention.csv says, where there is one."""
import numpy as np
import pytest
from figure_files import blocks, draw, drawn, needs_gnuplot, svg_texts
from head_tables import CATEGORIES, make_heads, write_heads

MODELS = [("a-1", 6, 8, 2), ("b-1", 4, 8, 4)]
NUMBERS = ["sink_mass", "first_mass", "self_mass", "previous_mass", "distance_share", "mean_distance",
           "distance_slope", "rotation_slope"]
MAPS = {"attention-01-distance-share": "distance_share", "attention-02-sink": "sink_mass",
        "attention-03-previous": "previous_mass"}
POINTS = {"attention-04-r-q": ("r_q", "distance_share"), "attention-05-plasticity": ("ap_overall", "distance_share"),
          "attention-06-slopes": ("rotation_slope", "distance_slope")}

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
    panels = blocks(figures / "attention-08-layer-heatmaps")[:2]
    for column, panel in zip(("sink_mass", "distance_share"), panels, strict=True):
        expected = made.groupby(["model", "layer"], sort=True)[column].mean().to_numpy()
        assert sorted(float(row[2]) for row in panel) == pytest.approx(sorted(expected), rel=1e-5)


def test_one_model_has_curves_over_its_layers(qkscope, tmp_path):
    made = make_attention(tmp_path, [("alone", 6, 8, 2)])
    figures = draw(qkscope, tmp_path)
    names = drawn(figures, "attention")
    assert "attention-07-layer-curves" in names and "attention-08-layer-heatmaps" not in names
    first = blocks(figures / "attention-07-layer-curves")[0]
    expected = made.groupby("layer").sink_mass.mean().to_numpy()
    assert [float(row[1]) for row in first] == pytest.approx(expected, rel=1e-5)


def test_none_without_the_table(qkscope, tmp_path):
    make_heads(tmp_path, MODELS)
    assert not drawn(draw(qkscope, tmp_path), "attention")
