# SPDX-License-Identifier: Apache-2.0
"""Maps of heads and of depths show what the tables say: cells, colours, what is missing."""
import json
import re

import numpy as np
import pytest

from drawn_studies import CATEGORIES, Study, change, cross, training, values  # noqa: F401
from figure_files import draw, drawn, svg_texts, told
from made_tables import make_heads, write_results
from svg_pictures import Picture

MAPS = {"map-01-r-q": "r_q", "map-02-r-k": "r_k", "map-03-bias": "bias_strength",
        "map-04-plane-variance": "plane_var_fraction", "map-05-plasticity": "ap_overall", "map-06-category": "category",
        "attention-01-distance-share": "distance_share", "attention-02-sink": "sink_mass", "attention-03-self": "self_mass",
        "attention-04-previous": "previous_mass", "attention-05-induction": "induction_mass",
        "attention-06-information": "far_information"}


def number(row, column):
    if column == "category":
        return CATEGORIES.index(row[column]) if row[column] else None
    return row[column]


@pytest.mark.cases(12)
@pytest.mark.parametrize("name, column", MAPS.items())
def test_every_head_is_a_cell(cross, name, column):
    for rows, panel in zip(cross.by_model, cross.cells(name), strict=True):
        expected = {(row["q_head"], row["layer"]): number(row, column) for row in rows if number(row, column) is not None}
        assert panel == pytest.approx(expected, rel=1e-9)
    labels = cross.labels(name)
    assert {*cross.labels_of_models, "Query head", "Layer", "no number"} <= set(labels)
    assert column != "category" or {row["category"] for row in cross.heads if row["category"]} <= set(labels)


# ---- by depth ----------------------------------------------------------------------------------

DEPTHS = [("pca-03-layer-heatmap-rq", 0, "r_q", False), ("pca-04-layer-heatmap-rk", 0, "r_k", True),
          ("rotation-06-layer-heatmaps", 0, "r_k_a", True), ("rotation-06-layer-heatmaps", 1, "bias_strength", False),
          ("attention-14-layer-heatmaps", 0, "sink_mass", False), ("attention-14-layer-heatmaps", 1, "distance_share", False)]


@pytest.mark.cases(12)
@pytest.mark.parametrize("study", ["cross", "training"])
@pytest.mark.parametrize("name, panel, column, size", DEPTHS)
def test_means_by_depth(request, study, name, panel, column, size):
    """In each tenth of the depth, or layer by layer where no model has ten."""
    study = request.getfixturevalue(study)
    tenths = max(row["layer"] for row in study.heads) > 8
    expected = {}
    for m, rows in enumerate(study.by_model):
        last = max(row["layer"] for row in rows)
        places = [min(9, 10 * row["layer"] // last) if tenths else row["layer"] for row in rows]
        for place in set(places):
            own = values([row for row, at in zip(rows, places) if at == place], column, size)
            if np.isfinite(own).any():
                expected[place, m] = np.nanmean(own)
    found = {(int(10 * x + 0.5) if tenths else int(x), study.labels_of_models.index(y)): value
             for (x, y), value in study.cells(name)[panel].items()}
    assert found == pytest.approx(expected, rel=1e-9)
    factor = 1000 if max(map(abs, expected.values())) < 0.01 else 1
    own = [text.text for text in Picture(study.figures / name).texts if text.color in ("#fefefe", "#101010")]
    for value, text in zip(study.cells(name)[panel].values(), own[:len(expected)] if panel == 0 else own[-len(expected):], strict=True):
        decimals = len(text.partition(".")[2])
        assert abs(float(text.replace("−", "-")) - factor * value) <= 0.501 * 10.0 ** -decimals and "-" not in text
    labels = study.labels(name)
    assert {*study.labels_of_models, "Depth (layer / last layer)" if tenths else "Layer"} <= set(labels)


# ---- colours -----------------------------------------------------------------------------------

def cell_colors(figure):
    """Values of cells with their colours, in the order in which both are written, without hatched ones."""
    boxes = [box for box in Picture(figure).shapes("rect")[1:] if box["fill"] != "#d8dee4"]
    return [(row["value"], [int(box["fill"][i:i + 2], 16) for i in (1, 3, 5)]) for row, box in zip(told(figure), boxes)]


@pytest.mark.parametrize("name", ["map-02-r-k", "map-03-bias", "rotation-06-layer-heatmaps"])
def test_negative_values_have_their_own_side(cross, name):
    rows = cell_colors(cross.figures / name)
    rows = rows[len(rows) // 2:] if name.startswith("rotation") else rows
    most = max(abs(value) for value, _ in rows)
    shown = [row for row in rows if abs(row[0]) > most / 10]  # nearer to 0 both sides are pale
    assert any(value < 0 for value, _ in shown)
    for value, (red, _, blue) in shown:
        assert (blue > red) == (value < 0), value


def page_color(scale, value):
    """As map.js mixes it: between the stops of the page."""
    stops = np.array([[int(c[i:i + 2], 16) for i in (1, 3, 5)] for c in scale["colors"]], float)
    at = (len(stops) - 1) * np.clip((value - scale["low"]) / (scale["high"] - scale["low"]), 0, 1)
    return [np.interp(at, np.arange(len(stops)), stops[:, c]) for c in range(3)]


def test_figures_and_page_have_one_scale(qkscope, cross, tmp_path):
    """A value has one colour: on every map of a number, by head and by depth, and on the page."""
    qkscope("report", cross.folder, "-o", tmp_path, "--alone", expect=0)
    text = (tmp_path / "report.html").read_text()
    scales = {f["name"]: f["scale"] for f in json.loads(re.search(r'id="qk-heads">(.*?)</script>', text, re.S)[1])["fields"]}
    for name, column in [*MAPS.items(), ("pca-03-layer-heatmap-rq", "r_q")]:
        if column != "category":
            rows = cell_colors(cross.figures / name)
            found = np.array([color for _, color in rows])
            assert np.abs(found - [page_color(scales[column], value) for value, _ in rows]).max() < 12, name
            assert len(np.unique(found, axis=0)) > 15, name


def one_model(folder, layers, heads, change=lambda row, rng: None):
    write_results(folder, make_heads("alone", layers, heads, change=change), tables=("pca", "rotation"), pcs=2)


def test_one_head_does_not_take_all_colours(qkscope, tmp_path):
    def far(row, rng):
        row["bias_strength"] = 1e3 if row["layer"] == row["q_head"] == 0 else abs(row["bias_strength"])
    one_model(tmp_path, 20, 20, far)
    figure = draw(qkscope, tmp_path, "--figure", "map-03-bias") / "map-03-bias"
    assert len({tuple(color) for _, color in cell_colors(figure)}) > 100
    assert any("98 % of heads" in text for text in svg_texts(figure))


def test_cells_of_categories_stand_apart(cross):
    """Neighbours of one category would be one area: their boxes leave a gap, those of numbers do not."""
    for name, apart in ("map-06-category", True), ("map-01-r-q", False):
        boxes = [box for box in Picture(cross.figures / name).shapes("rect")[1:] if float(box["width"]) > 14]
        first, second = [(float(box["x"]), float(box["width"])) for box in boxes if box["fill"] != "#d8dee4"][:2]
        assert (first[0] + first[1] < second[0]) == apart or second[0] - first[0] > 1.5 * first[1], name


# ---- what is missing, and what is much ---------------------------------------------------------

def test_missing_heads_are_hatched(qkscope, cross, tmp_path):
    hatched = [box for box in Picture(cross.figures / "map-01-r-q").shapes("rect") if box["fill"] == "#d8dee4"]
    assert len(hatched) == 1 + sum(row["r_q"] is None for row in cross.heads), "and in the line that says what it means"
    one_model(tmp_path, 4, 4)
    figure = draw(qkscope, tmp_path, "--figure", "map-01-r-q") / "map-01-r-q"
    assert "#d8dee4" not in Picture(figure).colors("rect")
    assert not any("no number" in text for text in svg_texts(figure))


def test_more_models_than_panels(qkscope, tmp_path):
    models = [(f"m{i:02d}", "f", "") for i in range(30)]
    labels = Study(qkscope, tmp_path, models, [3], 4, tables=("pca",), change=None).labels("map-01-r-q")
    panels = [name for name, *_ in models if name in labels]
    assert len(panels) == 12 and panels[0] == "m00" and panels[-1] == "m29"
    assert any("12 of 30 models" in text for text in labels)


def test_a_model_without_the_number_is_counted(qkscope, tmp_path):
    """Neither a map nor points are of all models then, and both say so."""
    def lacks(row, rng):
        change(row, rng)
        row["distance_share"] = None if row["model"] == "name1" else row["distance_share"]
    study = Study(qkscope, tmp_path, [(name, "f", "") for name in "abc"], [3], 4, change=lacks)
    assert any("(2 of 3 models; others have no number)" in text for text in study.labels("attention-01-distance-share"))
    assert "heads of 2 of 3 models" in study.labels("attention-07-r-q")


def test_a_head_far_out_takes_no_memory(qkscope, tmp_path):
    def far(row, rng):
        if row["layer"] == 2 and row["q_head"] == 3:
            row |= {"layer": 60000, "q_head": 60000, "k_head": 30000}
    one_model(tmp_path, 3, 4, far)
    assert not {"map-01-r-q", "map-06-category"} & set(drawn(draw(qkscope, tmp_path), "map"))


@pytest.mark.test_all
def test_eleven_whole_models(qkscope, tmp_path):
    """28,160 cells: an image for each model, whose axes and texts stay; panels keep a size that can be read."""
    rows = [row for i in range(11) for row in make_heads(f"model-{i}", 40, 64, 8)]
    write_results(tmp_path, rows, tables=("pca",), pcs=1)
    figure = draw(qkscope, tmp_path, "--figure", "map-01-r-q") / "map-01-r-q"
    picture = Picture(figure)
    assert picture.width <= 1000 and picture.height <= 1400
    assert len(picture.shapes("image")) == 11 and len(picture.shapes("rect")) < 300
    assert figure.with_suffix(".svg").stat().st_size < 1_200_000 and not picture.faults()
    assert len(told(figure)) == 11 * 40 * 64
