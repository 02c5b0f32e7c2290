# SPDX-License-Identifier: Apache-2.0
"""Head maps and layer curves show what the tables say: cells against pandas, colours, hatches, sizes."""
import json
import re

import numpy as np
import pytest
from figure_files import (SVG, blocks, check_pictures, draw, drawn, needs_gnuplot, numbers, read_svg, script_of,
                          svg_texts)
from head_tables import CATEGORIES, ELEVEN, make_heads, write_heads

MAPS = {"map-01-r-q": "r_q", "map-02-r-k": "r_k", "map-03-bias": "bias_strength",
        "map-04-plane-variance": "plane_var_fraction", "map-05-plasticity": "ap_overall",
        "map-06-category": "category"}
FOUR = [("a-1", 6, 8, 2), ("a-2", 9, 4, 4), ("b-1", 6, 8, 1), ("b-2", 3, 6, 3)]
COMPARING = {"pca-03-layer-heatmap-rq", "pca-04-layer-heatmap-rk", "rotation-02-drift-correlation",
             "rotation-03-variance-shares", "rotation-05-slope-ratio", "rotation-06-layer-heatmaps"}

pytestmark = needs_gnuplot


@pytest.fixture(scope="module")
def four(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("four")
    made = make_heads(folder, FOUR, sample=20, title="Four")
    return draw(qkscope, folder, formats="png,svg"), made


@pytest.fixture(scope="module")
def one(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    made = make_heads(folder, [("alone", 12, 6, 3)], sample=60)
    return draw(qkscope, folder, formats="png,svg"), made


def cells_of(made, column):
    """{(column of the map, layer): value} of a model."""
    if column == "category":
        return {(h.q_head, h.layer): CATEGORIES.index(h.category) for h in made.itertuples()}
    return {(h.q_head, h.layer): getattr(h, column) for h in made.itertuples()}


@pytest.mark.parametrize("name, column", MAPS.items())
def test_every_head_is_a_cell(four, name, column):
    figures, made = four
    panels = blocks(figures / name)[:len(FOUR)]
    for (model, *_), panel in zip(FOUR, panels, strict=True):
        expected = cells_of(made[made.model == model], column)
        found = {(int(row[0]), int(row[1])): float(row[2]) for row in panel}
        assert found.keys() == expected.keys()
        for place, value in expected.items():
            assert found[place] == pytest.approx(value, rel=1e-5, abs=1e-9)
    assert {model for model, *_ in FOUR} <= set(svg_texts(figures / name))


def rgb(word):
    return tuple(int(word[2:][i:i + 2], 16) for i in (0, 2, 4))


@pytest.mark.parametrize("name, below", [("map-02-r-k", "blue"), ("map-03-bias", "blue")])
def test_negative_values_have_their_own_side(four, name, below):
    rows = [row for panel in blocks(four[0] / name)[:len(FOUR)] for row in panel]
    most = max(abs(float(row[2])) for row in rows)
    shown = [row for row in rows if abs(float(row[2])) > most / 10]  # nearer to 0 both sides are pale
    assert any(float(row[2]) < 0 for row in shown) and len(shown) > len(rows) / 2
    for row in shown:
        red, _, blue = rgb(row[3])
        assert (blue > red) == (float(row[2]) < 0), (row, below)


def test_colours_do_not_jump_at_zero(qkscope, tmp_path):
    made = make_heads(tmp_path, [("alone", 4, 4, 1)])
    made["r_k"] = np.linspace(-0.99, 0.99, len(made))
    made.loc[3, "r_k"], made.loc[4, "r_k"] = -0.01, 0.01
    write_heads(tmp_path, made, [("alone", 4, 4, 1)])
    draw(qkscope, tmp_path, "--figure", "map-02-r-k")
    colors = {float(row[2]): rgb(row[3]) for row in blocks(tmp_path / "figures" / "map-02-r-k")[0]}
    apart = {pair: sum(abs(a - b) for a, b in zip(*(colors[value] for value in pair)))
             for pair in ((-0.01, 0.01), (-0.99, -0.01), (-0.99, 0.99))}
    assert apart[-0.01, 0.01] < 15 and apart[-0.99, -0.01] > 200 and apart[-0.99, 0.99] > 100
    assert "−0.99" in {row[5] for row in blocks(tmp_path / "figures" / "map-02-r-k")[0]}


def test_cells_of_categories_stand_apart(four):
    """Neighbours of one category would be one area: their boxes leave a gap, those of numbers do not."""
    sizes = {name: {tuple(map(float, pair)) for pair in re.findall(r"1:2:\(([\d.]+)\):\(([\d.]+)\)", script_of(four[0] / name))}
             for name in ("map-06-category", "map-01-r-q")}
    assert sizes["map-01-r-q"] == {(0.5, 0.5)}
    assert all(0.35 < side < 0.5 for pair in sizes["map-06-category"] for side in pair)


def page_color(scale, value):
    """As map.js mixes it: between the stops of the page."""
    stops = np.array([[int(c[i:i + 2], 16) for i in (1, 3, 5)] for c in scale["colors"]], float)
    at = (len(stops) - 1) * np.clip((value - scale["low"]) / (scale["high"] - scale["low"]), 0, 1)
    return [np.interp(at, np.arange(len(stops)), stops[:, c]) for c in range(3)]


def test_figures_and_page_have_one_scale(qkscope, tmp_path):
    """A value has one colour: on every map of a number, by head and by depth, and on the page."""
    make_heads(tmp_path, FOUR)
    qkscope("report", tmp_path, "--format", "svg", expect=0)
    text = (tmp_path / "report.html").read_text()
    fields = {f["name"]: f["scale"] for f in json.loads(re.search(r'id="qk-heads">(.*?)</script>', text, re.S)[1])["fields"]}
    maps = {name: [column] for name, column in MAPS.items() if column != "category"}
    maps |= {"pca-03-layer-heatmap-rq": ["r_q"]}
    for name, (column,) in maps.items():
        panels = len(FOUR) if name.startswith("map") else 1
        rows = [row for panel in blocks(tmp_path / "figures" / name)[:panels] for row in panel]
        found = np.array([rgb(row[3]) for row in rows])
        expected = np.array([page_color(fields[column], float(row[2])) for row in rows])
        assert np.abs(found - expected).max() < 8, name
        assert len(np.unique(found, axis=0)) > 15, name
    by_depth = blocks(tmp_path / "figures" / "rotation-06-layer-heatmaps")[1]
    expected = np.array([page_color(fields["bias_strength"], float(row[2])) for row in by_depth])
    assert np.abs(np.array([rgb(row[3]) for row in by_depth]) - expected).max() < 8


def test_one_head_does_not_take_all_colours(qkscope, tmp_path):
    made = make_heads(tmp_path, [("alone", 20, 20, 4)])
    made["bias_strength"] = np.abs(made.bias_strength)
    made.loc[0, "bias_strength"] = 1e3
    write_heads(tmp_path, made, [("alone", 20, 20, 4)])
    draw(qkscope, tmp_path, "--figure", "map-03-bias")
    rows = blocks(tmp_path / "figures" / "map-03-bias")[0]
    assert len({row[3] for row in rows}) > 100
    assert any("98 % of heads" in text for text in svg_texts(tmp_path / "figures" / "map-03-bias"))


def test_missing_heads_are_hatched(qkscope, four, tmp_path):
    assert "rectangle from graph 0,0 to graph 1,1" in script_of(four[0] / "map-01-r-q")
    assert "no such head, or not in the capture" in svg_texts(four[0] / "map-01-r-q")
    make_heads(tmp_path, [("alone", 4, 4, 1)])
    draw(qkscope, tmp_path, "--figure", "map-01-r-q")
    whole = tmp_path / "figures" / "map-01-r-q"
    assert "graph 0,0 to graph 1,1" not in script_of(whole)
    assert not any("no such head" in text for text in svg_texts(whole))


def test_no_missing_cell_is_white(qkscope, tmp_path):
    """Outside of cells, a panel shows the hatched grey."""
    from PIL import Image
    made = make_heads(tmp_path, [("alone", 10, 10, 1)])
    made = made[(made.layer == 0) | (made.layer == 9)]
    write_heads(tmp_path, made, [("alone", 10, 10, 1)])
    draw(qkscope, tmp_path, "--figure", "map-06-category", formats="png")
    with Image.open(tmp_path / "figures" / "map-06-category.png") as image:
        pixels = np.asarray(image.convert("RGB"), int)
    middle = pixels[pixels.shape[0] * 2 // 5:pixels.shape[0] // 2, pixels.shape[1] // 3:pixels.shape[1] // 2]
    assert (middle != 255).any(axis=2).all()
    assert len(np.unique(middle.reshape(-1, 3), axis=0)) > 3, "hatched, not plain"


def test_categories_are_named(four):
    shown = svg_texts(four[0] / "map-06-category")
    assert set(CATEGORIES) <= set(shown)


def test_pictures(four, one):
    for figures, _ in (four, one):
        check_pictures(figures, drawn(figures, "map"))


@pytest.mark.parametrize("theme", ["screen", "dark"])
def test_themes(qkscope, tmp_path, theme):
    make_heads(tmp_path, FOUR, sample=10)
    figures = draw(qkscope, tmp_path, "--theme", theme, "--figure", "map-03-bias", "--figure", "map-06-category", formats="png,svg")
    check_pictures(figures, ["map-03-bias", "map-06-category"])


# ---- sizes -----------------------------------------------------------------------------------

def test_eleven_whole_models(qkscope, tmp_path):
    """28,160 cells: one image in the SVG, whose axes and texts stay; panels keep a size that can be read."""
    make_heads(tmp_path, ELEVEN)
    figures = draw(qkscope, tmp_path, "--figure", "map-01-r-q", formats="png,svg")
    root = read_svg(figures / "map-01-r-q")
    width, height = map(float, root.get("viewBox").split()[2:])
    assert width <= 1000 and height <= 1400
    assert len(list(root.iter(SVG + "image"))) == 1
    assert sum(1 for _ in root.iter(SVG + "polygon")) < 300
    assert {name for name, *_ in ELEVEN} <= set(svg_texts(figures / "map-01-r-q"))
    assert (figures / "map-01-r-q.svg").stat().st_size < 1_200_000
    assert not list(figures.glob("*.dat.png"))
    assert len(blocks(figures / "map-01-r-q")[0]) == 40 * 64


def test_more_models_than_panels(qkscope, tmp_path):
    models = [(f"m{i:02d}", 3, 4, 2) for i in range(30)]
    make_heads(tmp_path, models)
    figures = draw(qkscope, tmp_path, "--figure", "map-01-r-q")
    shown = svg_texts(figures / "map-01-r-q")
    panels = [name for name, *_ in models if name in shown]
    assert len(panels) == 12 and panels[0] == "m00" and panels[-1] == "m29"
    assert any("12 of 30 models" in text for text in shown)


def test_checkpoints(qkscope, tmp_path):
    models = [(f"step-{i}", 6, 4, 2) for i in range(10)]
    make_heads(tmp_path, models, phases=["one"] * 5 + ["two"] * 5, title="Training")
    figures = draw(qkscope, tmp_path)
    for name in MAPS:
        assert {model for model, *_ in models} <= set(svg_texts(figures / name))
    assert not {"pca-10-checkpoint-heatmap-rq", "map-07-layer-curves"} & {p.stem for p in figures.iterdir()}


def test_a_head_far_out_takes_no_memory(qkscope, tmp_path):
    made = make_heads(tmp_path, [("alone", 3, 4, 2)])
    made.loc[0, ["layer", "q_head", "k_head"]] = [60000, 60000, 30000]
    write_heads(tmp_path, made.sort_values(["layer", "q_head"]), [("alone", 3, 4, 2)])
    assert not {"map-01-r-q", "map-06-category"} & set(drawn(draw(qkscope, tmp_path), "map"))


# ---- one model -------------------------------------------------------------------------------

def test_of_one_model_maps_stand_for_what_compares(one, four):
    names = {path.stem for path in one[0].glob("*.gp")}
    assert set(MAPS) | {"map-07-layer-curves"} <= names and not names & COMPARING
    assert {path.stem for path in four[0].glob("*.gp")} >= COMPARING
    assert "map-07-layer-curves" not in {path.stem for path in four[0].glob("*.gp")}


def test_layer_curves(one):
    figures, made = one
    shown = ["r_q", "r_k", "r_q_a", "r_k_a", "alpha_q", "alpha_k", "var_frac_a", "var_frac_b", "bias_strength",
             "ap_first_20pct", "ap_last_20pct"]
    parts = [numbers(block) for block in blocks(figures / "map-07-layer-curves")]
    curves = [part[:, [0, *range(i, i + 4)]] for part in parts for i in range(1, part.shape[1], 4)]
    assert len(curves) == len(shown) and len(parts) == 6
    for column, found in zip(shown, curves, strict=True):
        values = made[column].abs() if column.startswith(("alpha", "r_q_a", "r_k")) else made[column]
        by_layer = values.groupby(made.layer)
        expected = np.column_stack([by_layer.mean(), by_layer.quantile(0.25), by_layer.quantile(0.75),
                                    by_layer.median()])
        np.testing.assert_array_equal(found[:, 0], sorted(made.layer.unique()))
        np.testing.assert_allclose(found[:, 1:], expected, rtol=2e-5, atol=1e-9)


def test_pictures_of_earlier_versions_go(qkscope, tmp_path):
    make_heads(tmp_path, [(f"step-{i}", 3, 4, 2) for i in range(2)], phases=["p", "p"])
    figures = tmp_path / "figures"
    figures.mkdir()
    for name in ("pca-10-checkpoint-heatmap-rq", "pca-11-checkpoint-heatmap-rk"):
        for ending in ("gp", "dat", "png", "svg"):
            (figures / f"{name}.{ending}").write_text("old")
    (figures / "pca-10-mine.png").write_text("mine")
    draw(qkscope, tmp_path, formats="png,svg")
    assert [path.name for path in figures.glob("pca-1[01]*")] == ["pca-10-mine.png"]
