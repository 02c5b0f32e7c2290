# SPDX-License-Identifier: Apache-2.0
"""Pages of a given width in millimetres, with type of the same size; figures without what a paper says in its caption;
symbols; dense points as one image."""
import re

import pytest

from conftest import EXAMPLE, ROOT, synth
from drawn_studies import SIZES, cross  # noqa: F401
from figure_files import NO_PICTURES, SVG, labels_of, needs_gnuplot, read_svg, script_of, sketch, svg_texts
from made_tables import make_heads, write_results


def size_of(figure):
    """Width and height in units of the script, of which 100 are an inch."""
    return tuple(map(float, re.search(r"terminal svg enhanced size (\d+),(\d+)", script_of(figure)).groups()))


def font_of(figure):
    return float(re.search(r"size = ([\d.]+)", script_of(figure))[1])


def redrawn(qkscope, study, folder, *options):
    qkscope("report", study.folder, "-o", folder, "--no-html", "--format", "svg", *options, env=NO_PICTURES, expect=0)
    return folder / "figures"


@pytest.mark.parametrize("width", [60, 85, 170])
def test_every_figure_is_so_wide(qkscope, cross, tmp_path, width):
    figures = redrawn(qkscope, cross, tmp_path, "--width", f"{width}mm")
    assert sorted(path.stem for path in figures.glob("*.gp")) == cross.names()
    for name in cross.names():
        assert size_of(figures / name)[0] == pytest.approx(width / 25.4 * 100, abs=1), name
        assert font_of(figures / name) == font_of(cross.figures / name)


@needs_gnuplot
def test_drawings_say_their_width_and_their_labels(qkscope, cross, tmp_path):
    """One figure of each family, as gnuplot draws it: it has the texts of its script, on the page."""
    names = ["map-06-category", "pca-02-rq-rk-scatter", "rotation-04-bias-histograms", "plasticity-06-by-model", "attention-10-slopes"]
    qkscope("report", cross.folder, "-o", tmp_path, "--no-html", "--format", "svg", "--width", "85mm",
            *(option for name in names for option in ("--figure", name)), expect=0)
    for figure in (tmp_path / "figures" / name for name in names):
        root, words = read_svg(figure), {text for text in svg_texts(figure) if re.search("[A-Za-z]{3}", text)}
        width, height = map(float, root.get("viewBox").split()[2:])
        assert root.get("width") == "85mm" and (width, height) == size_of(figure)
        assert len(words) > 2 and words <= set(labels_of(figure)), figure
        for group in root.iter(SVG + "g"):
            place = re.match(r"translate\(([\d.-]+),([\d.-]+)\)", group.get("transform") or "")
            if group.find(SVG + "text") is not None and place:
                assert 0 <= float(place[1]) <= width and 0 <= float(place[2]) <= height


@pytest.mark.parametrize("value", ["5mm", "401mm", "85cm", "8.5cm", "85 mm", "wide", ""])
def test_what_is_no_width(qkscope, tmp_path, value):
    outcome = qkscope("report", tmp_path, "--width", value, expect=2)
    assert "expected a whole number of mm from 60 to 400" in outcome.err
    assert not list(tmp_path.iterdir())


def test_studies(qkscope, tmp_path):
    synth(tmp_path / "c", layers=2, query_heads=4, q_per_kv_group=2, dim=16, examples=2, rows=60, buckets=6,
          bucket_width=16, rope_planes=1)
    (tmp_path / "s.yaml").write_text(f"models:\n  - {{name: a, source: {tmp_path / 'c'}}}\nanalyses: [pca]\n"
                                     "figures: {width: 85mm, formats: [svg, pdf]}\n")
    run = ["study", tmp_path / "s.yaml", "-o", tmp_path / "out", "--no-html"]
    for options, width in ((), 85), (("--width", "120mm"), 120):
        qkscope(*run, *options, env=NO_PICTURES, expect=0)
        for name in ("pca-01-pc-roles", "pca-06-collage-a"):
            assert size_of(tmp_path / "out" / "figures" / name)[0] == pytest.approx(width / 25.4 * 100, abs=1)


def test_long_names_leave_the_plot_its_room(qkscope, tmp_path):
    """Beside the plot where there is room, else above its lines; all of them either way."""
    names, one, shares = [f"A model of some length, {i}" for i in range(4)], "plasticity-06-by-model", {}
    write_results(tmp_path, [row for name in names for row in make_heads(name, 12, 4, 2)], **SIZES)
    for width in (85, 180):
        figure = sketch(qkscope, tmp_path, "--figure", one, "--width", f"{width}mm") / one
        margins = dict(re.findall(r"^set ([lr])margin at screen (\S+)", script_of(figure), re.M))
        shares[width] = float(margins["r"]) - float(margins["l"])
        labels = labels_of(figure)
        assert [text for text in labels if text in names] == names and ("Model" in labels) == (width == 180)
    assert min(shares.values()) > 0.55


@pytest.mark.test_all
@needs_gnuplot
def test_headers_of_a_collage_stand_clear_of_its_bars(qkscope, tmp_path):
    """On a narrow page they are wider than their panels."""
    from svg_pictures import overlap, read_picture
    qkscope("scatter", EXAMPLE, "-o", tmp_path, "--collage", "3x1", "--width", "85mm", "--max-points", 50, "--format", "svg", expect=0)
    picture = read_picture(next(tmp_path.rglob("*.svg")))
    shown = [t for t in picture.texts if t.box and t.text.strip()]
    assert any(t.text == "1,024" for t in shown)
    assert not [(a.text, b.text) for i, a in enumerate(shown) for b in shown[i + 1:] if overlap(a.box, b.box) > 1.5]


@pytest.mark.test_all
@needs_gnuplot
def test_many_points_are_one_image(qkscope, tmp_path):
    """A scatter of 30,000 points and one of 1,000: more and fewer than become an image, of the whole page."""
    synth(tmp_path / "capture", layers=1, query_heads=1, q_per_kv_group=1, dim=16, examples=50, rows=300, rope_planes=1)
    for name, points in (("many", 0), ("few", 500)):
        qkscope("scatter", tmp_path / "capture", "-o", tmp_path, "--max-points", points, "--format", "svg", "--name", name, expect=0)
    images, markers = ({name: [e for e in read_svg(tmp_path / name).iter(SVG + tag) if not e.get("id")] for name in ("many", "few")}
                       for tag in ("image", "use"))
    [image] = images["many"]
    place = [float(image.get(side)) for side in ("x", "y", "width", "height")]
    assert place == pytest.approx([0, 0, *size_of(tmp_path / "many")], abs=0.2)
    assert not images["few"] and len(markers["few"]) == 1000 and not markers["many"] and len(svg_texts(tmp_path / "many")) > 15
    assert not list(tmp_path.glob("*.dat.png"))


# ---- what a paper says in its caption, labels without words --------------------------------------

def test_without_title_and_legend(qkscope, cross, tmp_path):
    """No heading and no legend, and the figure is as much lower; all other texts stand as before."""
    name = "pca-01-pc-roles"
    full, height = cross.labels(name), size_of(cross.figures / name)[1]
    heading = ["Position correlation by component (combined QK PCA)", "Seven models · heads of all 7 models"]
    for option, gone in (("--no-title", heading), ("--no-legend", ["rq", "|rk|"])):
        bare = redrawn(qkscope, cross, tmp_path, "--figure", name, option) / name
        assert set(gone) <= set(full) and labels_of(bare) == [t for t in full if t not in gone], option
        assert size_of(bare)[1] < height - 20, option


def test_symbols(qkscope, cross, tmp_path):
    """Labels and legends have their symbols, all other texts stand as before."""
    redrawn(qkscope, cross, tmp_path, "--symbols")
    replaced = {}
    for name in cross.names():
        for words, symbol in zip(cross.labels(name), labels_of(tmp_path / "figures" / name), strict=True):
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
