# SPDX-License-Identifier: Apache-2.0
"""Pages of a given width in millimetres, with type of the same size; figures without what a paper says in its caption;
symbols; dense points as one image."""
import re

import pytest

from conftest import EXAMPLE, ROOT, synth
from drawn_studies import SIZES, cross  # noqa: F401
from figure_files import draw, read_svg, svg_texts, whole_texts
from made_tables import make_heads, write_results
from svg_pictures import Picture


def size_of(figure):
    """Width and height in units of the drawing, of which 100 are an inch."""
    return tuple(map(float, read_svg(figure).get("viewBox").split()[2:]))


def font_of(figure):
    return max(text.size for text in Picture(figure).texts)


def redrawn(qkscope, study, folder, *options):
    qkscope("report", study.folder, "-o", folder, "--no-html", *options, expect=0)
    return folder / "figures"


@pytest.mark.parametrize("width", [60, 85, 170])
def test_every_figure_is_so_wide(qkscope, cross, tmp_path, width):
    figures = redrawn(qkscope, cross, tmp_path, "--width", f"{width}mm")
    assert sorted(path.stem for path in figures.glob("*.svg")) == cross.names()
    for name in cross.names():
        assert size_of(figures / name)[0] == pytest.approx(width / 25.4 * 100, abs=1), name
        assert font_of(figures / name) == font_of(cross.figures / name)
        assert read_svg(figures / name).get("width") == f"{width}mm"
        faults = [fault for fault in Picture(figures / name).faults() if width > 60]
        assert not faults, (name, faults)


@pytest.mark.parametrize("value", ["5mm", "401mm", "85cm", "8.5cm", "85 mm", "wide", ""])
def test_what_is_no_width(qkscope, tmp_path, value):
    outcome = qkscope("report", tmp_path, "--width", value, expect=2)
    assert "expected a whole number of mm from 60 to 400" in outcome.err
    assert not list(tmp_path.iterdir())


def test_studies(qkscope, tmp_path):
    synth(tmp_path / "c", layers=2, query_heads=4, q_per_kv_group=2, dim=16, examples=2, rows=60, buckets=6,
          bucket_width=16, rope_planes=1)
    (tmp_path / "s.yaml").write_text(f"models:\n  - {{name: a, source: {tmp_path / 'c'}}}\nanalyses: [pca]\n"
                                     "figures: {width: 85mm}\n")
    run = ["study", tmp_path / "s.yaml", "-o", tmp_path / "out", "--no-html"]
    for options, width in ((), 85), (("--width", "120mm"), 120):
        qkscope(*run, *options, expect=0)
        for name in ("pca-01-pc-roles", "pca-06-collage-a"):
            assert size_of(tmp_path / "out" / "figures" / name)[0] == pytest.approx(width / 25.4 * 100, abs=1)


def test_long_names_leave_the_plot_its_room(qkscope, tmp_path):
    """All of them are there, cut where there is no room, and two of them never look alike."""
    names, one, shares = [f"A model of some length, {i}" for i in range(4)], "plasticity-06-by-model", {}
    write_results(tmp_path, [row for name in names for row in make_heads(name, 12, 4, 2)], **SIZES)
    for width in (85, 180):
        figure = draw(qkscope, tmp_path, "--figure", one, "--width", f"{width}mm") / one
        picture = Picture(figure)
        grid = next(path["d"] for path in picture.shapes("path") if path.get("stroke") == "#d8dee4")  # across the plot
        shares[width] = float(re.search(r"l([\d.]+)", grid)[1]) / picture.width
        labels = [text for text in svg_texts(figure) if text.startswith("A ")]
        assert len(set(labels)) == 4 and set(names) <= {*labels, *whole_texts(figure)}
    assert min(shares.values()) > 0.4


@pytest.mark.parametrize("options", [["--collage", "3x1", "--width", "85mm"], ["--collage", "2x3", "--width", "170mm", "--basis", "ab"]])
def test_texts_of_a_collage_stand_apart(qkscope, tmp_path, options):
    """On a narrow page headers are wider than their panels."""
    qkscope("scatter", EXAMPLE, "-o", tmp_path, "--max-points", 50, *options, expect=0)
    picture = Picture(next(tmp_path.rglob("*.svg")))
    assert "1,024" in picture.words() and not picture.faults()


def test_many_points_are_an_image(qkscope, tmp_path):
    synth(tmp_path / "capture", layers=1, query_heads=1, q_per_kv_group=1, dim=16, examples=20, rows=300, rope_planes=1)
    for name, points in (("many", 0), ("few", 500)):
        qkscope("scatter", tmp_path / "capture", "-o", tmp_path, "--max-points", points, "--name", name, expect=0)
    many, few = Picture(tmp_path / "many"), Picture(tmp_path / "few")
    points = [sum(shape.get("stroke-linecap") == "round" for shape in picture.shapes("path")) for picture in (many, few)]
    assert len(many.shapes("image")) == 1 and points == [0, 1000] and len(svg_texts(tmp_path / "many")) > 15
    assert not few.shapes("image")


# ---- what a paper says in its caption, labels without words --------------------------------------

def test_without_title_and_legend(qkscope, cross, tmp_path):
    """No heading and no legend, and the figure is as much lower; all other texts stand as before."""
    name = "pca-01-pc-roles"
    full, height = cross.labels(name), size_of(cross.figures / name)[1]
    heading = ["Position correlation by component (combined QK PCA)", "Seven models · heads of all 7 models"]
    for option, gone in (("--no-title", heading), ("--no-legend", ["rq", "|rk|"])):
        bare = redrawn(qkscope, cross, tmp_path, "--figure", name, option) / name
        assert set(gone) <= set(full) and svg_texts(bare) == [t for t in full if t not in gone], option
        assert size_of(bare)[1] < height - 20, option


def test_symbols(qkscope, cross, tmp_path):
    """Labels and legends have their symbols, all other texts stand as before."""
    redrawn(qkscope, cross, tmp_path, "--symbols")
    replaced = {}
    for name in cross.names():
        for words, symbol in zip(cross.labels(name), svg_texts(tmp_path / "figures" / name), strict=True):
            if words != symbol and re.search("[A-Za-z]", words):
                assert replaced.setdefault(words, symbol) == symbol
    assert {"Correlation of queries with position, rq", "Principal component", "axis a (drift)", "Attention plasticity",
            "drop", "|rk| on the drift axis a", "Bias strength μaq αk × 103"} <= replaced.keys()
    assert all(len(symbol) < len(words) for words, symbol in replaced.items())


def test_every_symbol_stands_for_a_label_that_there_is():
    symbols = (ROOT / "src/figure/symbols.c").read_text()
    sources = "\n".join(path.read_text() for path in [*(ROOT / "src/figure").glob("*"), *(ROOT / "src/scatter").glob("*.c")]
                        if path.name != "symbols.c")
    table = symbols.split("SYMBOLS[] = {")[1].split("\n};")[0]
    for name, value in re.findall(r"^#define (\w+) +(\".*\")$", symbols, re.M):
        table = re.sub(rf"\b{name}\b", value, table)
    rows = re.findall(r"\{\"(.*?)\", \"(.*?)\"\}", re.sub(r'" +"', "", table))
    assert len(rows) == table.count("\n    {") > 30
    assert not [words for words, _ in rows if words not in sources]
