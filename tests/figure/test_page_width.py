# SPDX-License-Identifier: Apache-2.0
"""--width: pages of a given width in millimetres, with type of the same size; dense points as one image."""
import json
import re
import subprocess
import zlib

import pytest
from conftest import EXAMPLE, ROOT, environment, synth
from figure_files import SVG, draw, needs_gnuplot, read_svg, script_of, svg_texts, texts_of
from head_tables import make_heads
from svg_pictures import overlap, pdf_objects, pdf_page, read_picture

FOUR = [(f"model-{i}", 12, 8, 2) for i in range(4)]
TABLES = ROOT / "tests" / "data" / "figures"
POINT = 72 / 25.4  # of a millimetre

pytestmark = needs_gnuplot


def media_box(path):
    """Width and height of a PDF's page, in millimetres."""
    return tuple(side / POINT for side in pdf_page(pdf_objects(path))[0])


def type_sizes(path):
    """Heights of letters in an SVG, in points on paper: its width and its view box say how large a unit is."""
    root = read_svg(path)
    units = float(root.get("viewBox").split()[2])
    width = root.get("width")
    unit = float(width.removesuffix("mm")) / 25.4 * 72 / units if width.endswith("mm") else 0.72
    return {round(float(e.get("font-size")) * unit, 1) for e in root.iter() if e.get("font-size")}


@pytest.fixture(scope="module", params=[85, 170])
def page(qkscope, tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("page")
    make_heads(folder, FOUR, sample=40, title="Four")
    return draw(qkscope, folder, "--width", f"{request.param}mm", formats="png,svg,pdf"), request.param


def test_every_figure_is_so_wide(page):
    from PIL import Image
    figures, width = page
    names = [path.stem for path in figures.glob("*.gp")]
    assert len(names) > 12
    for name in names:
        assert media_box(figures / f"{name}.pdf")[0] == pytest.approx(width, abs=0.2), name
        assert read_svg(figures / name).get("width") == f"{width}mm", name
        with Image.open(figures / f"{name}.png") as image:
            assert image.width == 3 * round(width / 25.4 * 100), "300 dots an inch"


def test_type_keeps_its_size(qkscope, page, tmp_path):
    figures, _ = page
    make_heads(tmp_path, FOUR, sample=40, title="Four")
    free = draw(qkscope, tmp_path)
    for path in figures.glob("*.svg"):
        known = type_sizes(free / path.name) | {7.5}
        assert all(min(abs(size - k) for k in known) < 0.15 for size in type_sizes(path)), path.name
        assert min(type_sizes(path)) > 4.5


def test_texts_stay_on_the_page(page):
    figures, _ = page
    for path in figures.glob("*.svg"):
        root = read_svg(path)
        width, height = map(float, root.get("viewBox").split()[2:])
        for group in root.iter(SVG + "g"):
            place = re.match(r"translate\(([\d.-]+),([\d.-]+)\)", group.get("transform") or "")
            if group.find(SVG + "text") is not None and place:
                assert 0 <= float(place[1]) <= width and 0 <= float(place[2]) <= height, path.name
                if group.get("text-anchor") == "end":  # the name of a bar, to its left
                    words = "".join(group.find(SVG + "text").itertext())
                    assert float(place[1]) > 0.4 * float(group.get("font-size")) * len(words), (path.name, words)


@pytest.mark.parametrize("study", ["cross", "training"])
@pytest.mark.parametrize("width", [60, 85])
def test_no_figure_fails_on_a_narrow_page(qkscope, tmp_path, study, width):
    outcome = json.loads(qkscope("report", TABLES / study, "-o", tmp_path, "--no-html", "--width", width, "--format",
                                 "svg", "--json", expect=0).out)
    assert outcome["failures"] == [] and outcome["figures"] > 15


@pytest.mark.parametrize("value", ["5mm", "401mm", "85cm", "8.5cm", "85 mm", "wide", ""])
def test_what_is_no_width(qkscope, tmp_path, value):
    outcome = qkscope("report", tmp_path, "--width", value, expect=2)
    assert "expected a whole number of mm from 60 to 400" in outcome.err
    assert not list(tmp_path.iterdir())


def test_studies(qkscope, tmp_path):
    synth(qkscope, tmp_path / "c", layers=2, query_heads=4, q_per_kv_group=2, dim=16, examples=2, rows=60, buckets=6,
          bucket_width=16, rope_planes=1)
    (tmp_path / "s.yaml").write_text(f"models:\n  - {{name: a, source: {tmp_path / 'c'}}}\nanalyses: [pca]\n"
                                     "figures: {width: 85mm, formats: [svg, pdf]}\n")
    run = ["study", tmp_path / "s.yaml", "-o", tmp_path / "out", "--no-html"]
    qkscope(*run, expect=0)
    figures = tmp_path / "out" / "figures"
    assert read_svg(figures / "pca-01-pc-roles").get("width") == "85mm"
    assert media_box(figures / "pca-06-collage-a.pdf")[0] == pytest.approx(85, abs=0.2)
    qkscope(*run, "--width", "120mm", expect=0)
    assert media_box(figures / "pca-06-collage-a.pdf")[0] == pytest.approx(120, abs=0.2)
    files = json.loads((tmp_path / "out" / "manifest.json").read_text())["figures"]["files"]
    assert set(files) == {f"figures/{path.name}" for path in figures.iterdir()}


def test_long_names_leave_the_plot_its_room(qkscope, tmp_path):
    """Beside the plot where there is room, else above its lines; all of them either way."""
    names = [f"A model of some length, {i}" for i in range(4)]
    make_heads(tmp_path, [(name, 12, 8, 2) for name in names], sample=40)
    one, shares = "plasticity-06-by-model", {}
    for width in (85, 180):
        figure = draw(qkscope, tmp_path, "--figure", one, "--width", f"{width}mm") / one
        margins = re.findall(r"^set ([lr])margin at screen (\S+)", script_of(figure), re.M)
        shares[width] = float(dict(margins)["r"]) - float(dict(margins)["l"])
        texts = texts_of(figure)
        assert [text for text in texts if text in names] == names and ("Model" in texts) == (width == 180)
        assert not any(re.fullmatch(r"−?\d+(\.5)?", text) for text in texts), "no numbers of rows"
    assert min(shares.values()) > 0.55


def test_headers_of_a_collage_stand_clear_of_its_bars(qkscope, tmp_path):
    """On a narrow page they are wider than their panels."""
    qkscope("scatter", EXAMPLE, "-o", tmp_path, "--collage", "3x1", "--width", "85mm", "--max-points", 50, "--format", "svg", expect=0)
    picture = read_picture(next(tmp_path.rglob("*.svg")))
    shown = [t for t in picture.texts if t.box and t.text.strip()]
    assert any(t.text == "1,024" for t in shown)
    assert not [(a.text, b.text) for i, a in enumerate(shown) for b in shown[i + 1:] if overlap(a.box, b.box) > 1.5]


# ---- dense points ----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def dense(qkscope, tmp_path_factory):
    """A scatter of 30,000 points and one of 1,000: more and fewer than become an image."""
    folder = tmp_path_factory.mktemp("dense")
    synth(qkscope, folder / "capture", layers=1, query_heads=1, q_per_kv_group=1, dim=16, examples=50, rows=300,
          rope_planes=1)
    for name, points in (("many", 0), ("few", 500)):
        qkscope("scatter", folder / "capture", "-o", folder, "--max-points", points, "--format", "png,svg,pdf",
                "--name", name, expect=0)
    return folder


def places_of_images(path):
    return [tuple(float(e.get(k)) for k in ("x", "y", "width", "height")) for e in read_svg(path).iter(SVG + "image")]


def drawn_markers(path):
    return sum(1 for e in read_svg(path).iter(SVG + "use") if not e.get("id"))


def test_many_points_are_one_image(dense):
    root = read_svg(dense / "many")
    width, height = map(float, root.get("viewBox").split()[2:])
    [place] = places_of_images(dense / "many")
    assert place == pytest.approx((0, 0, width, height), abs=0.2), "of the whole page"
    assert drawn_markers(dense / "many") == 0 and len(svg_texts(dense / "many")) > 15
    assert places_of_images(dense / "few") == [] and drawn_markers(dense / "few") == 1000
    pdf = (dense / "many.pdf").read_bytes()
    assert pdf.count(b"/Subtype /Image") == 1
    assert (dense / "few.pdf").read_bytes().count(b"/Subtype /Image") == 0
    assert not list(dense.glob("*.dat.png"))


def test_the_image_shows_the_points_of_the_png(dense):
    """Where the PNG has colour, the image that the SVG embeds has it, too."""
    import base64
    import io

    import numpy as np
    from PIL import Image
    [element] = read_svg(dense / "many").iter(SVG + "image")
    data = element.get("{http://www.w3.org/1999/xlink}href").split(",", 1)[1]
    with Image.open(io.BytesIO(base64.b64decode(data))) as image, Image.open(dense / "many.png") as png:
        assert image.size == png.size
        a, b = (np.asarray(picture.convert("RGB"), int) for picture in (image, png))
    colored = [np.abs(p - p.mean(axis=2, keepdims=True)).max(axis=2) > 30 for p in (a, b)]
    right = b.shape[1] * 4 // 5  # the colour bars are no points
    differ = (colored[0] ^ colored[1])[:, :right].mean()
    assert colored[0].mean() > 0.02 and differ < 0.001


def test_sizes_are_bounded(dense, tmp_path):
    """Against the same points as vectors: the script with the image switched off draws these."""
    script = (dense / "many.gp").read_text()
    assert script.count("raster = format eq 'svg'") == 1
    plain = re.sub(r"raster = format eq .*", "raster = 0", script)
    (tmp_path / "many.gp").write_text(plain)
    (tmp_path / "many.dat").write_bytes((dense / "many.dat").read_bytes())
    for ending, share in (("svg", 0.4), ("pdf", 0.6)):
        subprocess.run(["gnuplot", "-d", "-e", f"format='{ending}'", "many.gp"], cwd=tmp_path, check=True,
                       env=environment())
        assert (dense / f"many.{ending}").stat().st_size < share * (tmp_path / f"many.{ending}").stat().st_size


def test_the_script_draws_the_image_again(dense, tmp_path):
    for ending in ("gp", "dat"):
        (tmp_path / f"many.{ending}").write_bytes((dense / f"many.{ending}").read_bytes())
    subprocess.run(["gnuplot", "-d", "-e", "format='svg'", "many.gp"], cwd=tmp_path, check=True, env=environment())
    assert (tmp_path / "many.svg").read_bytes() == (dense / "many.svg").read_bytes()
    assert zlib.crc32((tmp_path / "many.dat.png").read_bytes())


# ---- what a paper says in its caption --------------------------------------------------------

def test_without_title_and_legend(qkscope, tmp_path):
    """No heading and no legend, and the figure is as much lower; all other texts stand as before."""
    make_heads(tmp_path, FOUR, sample=40, title="Four")
    name = "pca-01-pc-roles"
    one = ("--figure", name)
    full = draw(qkscope, tmp_path, *one) / name
    texts, height = svg_texts(full), float(read_svg(full).get("viewBox").split()[3])
    heading = [t for t in texts if t.startswith(("Position correlation by", "Four"))]
    assert heading == ["Position correlation by component (combined QK PCA)", "Four · heads of all 4 models"]
    legend = ["rq", "|rk|"]
    for option, gone in (("--no-title", heading), ("--no-legend", legend)):
        bare = draw(qkscope, tmp_path, *one, option) / name
        assert list(filter(None, svg_texts(bare))) == [t for t in texts if t and t not in gone], option
        assert float(read_svg(bare).get("viewBox").split()[3]) < height - 20, option


# ---- labels without words --------------------------------------------------------------------

SYMBOLS = (ROOT / "src/figure/symbols.c").read_text()


def shown(markup):
    """Markup as an SVG has its text."""
    return re.sub(r"\{/\S+ (.*?)\}|[{}_^@]", r"\1", markup)


def symbol_rows():
    macros = dict(re.findall(r"^#define (\w+) +(\".*\")$", SYMBOLS, re.M))
    table = SYMBOLS.split("SYMBOLS[] = {")[1].split("\n};")[0]
    for name, value in macros.items():
        table = re.sub(rf"\b{name}\b", value, table)
    rows = dict(re.findall(r"\{\"(.*?)\", \"(.*?)\"\}", re.sub(r'" +"', "", table)))
    assert len(rows) == table.count("\n    {") > 30
    return rows


def test_every_symbol_stands_for_a_label_that_there_is():
    sources = "\n".join(path.read_text() for path in [*(ROOT / "src/figure").glob("*"), *(ROOT / "src/scatter").glob("*.c")]
                        if path.name != "symbols.c")
    assert not [words for words in symbol_rows() if words not in sources]


def test_symbols(qkscope, tmp_path):
    """Labels and legends have their symbols, all other texts stand as before."""
    make_heads(tmp_path, FOUR, sample=40, title="Four")
    symbols = {shown(words): shown(symbol) for words, symbol in symbol_rows().items()}
    names = ("pca-01-pc-roles", "pca-02-rq-rk-scatter", "rotation-03-variance-shares", "rotation-06-layer-heatmaps",
             "plasticity-06-by-model")
    options = [part for name in names for part in ("--figure", name)]
    words, drawn = draw(qkscope, tmp_path, *options), {}
    for name in names:
        drawn[name] = list(filter(None, svg_texts(words / name)))
    replaced = set()
    draw(qkscope, tmp_path, *options, "--symbols")
    for name in names:
        parts = [text.partition(" × ") for text in drawn[name]]
        replaced |= {part[0] for part in parts if part[0] in symbols}
        assert list(filter(None, svg_texts(words / name))) == [
            symbols.get(label, label) + times + power for label, times, power in parts], name
    assert {"Correlation of queries with position, rq", "Principal component", "axis a (drift)", "Attention plasticity",
            "drop", "|rk| on the drift axis a", "Bias strength μaq αk"} <= replaced
