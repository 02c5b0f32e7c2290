# SPDX-License-Identifier: Apache-2.0
"""Small figures against committed ones: the same structure, texts and colours, and numbers that
differ by less than a tenth of a pixel. After a change that is meant,

    QKSCOPE_GOLDEN=write make test

writes them anew; look at the difference before it is committed. Another version of gnuplot than
the one they were made with draws other lines for the same figure, with more room about them: then
texts, colours, the size of the picture, those of its type, dashes, and how many markers and filled
shapes there are must agree all the same, colour scales aside."""
import os
import pathlib
import re
import subprocess
from collections import Counter, defaultdict

import pytest

from conftest import ROOT, environment
from figure_files import SVG, helper, needs_gnuplot, read_svg, skeleton, svg_texts

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
TABLES = ROOT / "tests" / "data" / "figures"
WRITE = os.environ.get("QKSCOPE_GOLDEN") == "write"
TOLERANCE = 0.1

FIGURES = {
    "cross": ["pca-01-pc-roles", "pca-03-layer-heatmap-rq", "pca-05-explained-variance",
              "rotation-02-drift-correlation", "rotation-03-variance-shares",
              "rotation-05-slope-ratio", "plasticity-01-distance-heatmap-made-up",
              "plasticity-02-profiles-kjv-tiny", "plasticity-03-component-weights-made-up",
              "plasticity-05-score"],
    "training": ["pca-07-position-signal", "pca-08-taxonomy", "pca-09-pc0-variance",
                 "rotation-10-bias-decomposition", "plasticity-04-trajectory"],
}

pytestmark = needs_gnuplot


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    for study in FIGURES:
        subprocess.run([helper("draw_figures"), TABLES / study, folder / study, "paper", "svg"],
                       check=True, capture_output=True, env=environment())
    return folder


def gnuplot_of(path):
    return re.search(r"Produced by (GNUPLOT [\d.]+)", path.read_text()).group(1)


def strips_of(root):
    """The shapes of a colour scale: many beside one another, all between the same two edges. How finely the ramp is
    cut is gnuplot's affair."""
    between = defaultdict(list)
    for shape in root.iter(SVG + "polygon"):
        for side in zip(*(point.split(",") for point in shape.get("points").split()), strict=True):
            between[min(side), max(side)].append(shape)
    return {shape for shapes in between.values() if len(shapes) > 100 for shape in shapes}


def look_of(path):
    """What any gnuplot makes of the figure: its texts, colours (#rrggbb or rgb(r, g, b)), sizes, dashes, and
    the number of its markers and filled shapes, colour scales aside."""
    root = read_svg(path)
    strips = strips_of(root)
    said = " ".join(value for e in root.iter() if e not in strips for value in e.attrib.values())
    colors = re.findall(r"#[0-9a-fA-F]{6}\b|rgb\([^)]*\)", said)
    return {"texts": sorted(svg_texts(path)), "colors": {c.replace(" ", "").lower() for c in colors},
            "size": root.get("viewBox"), "type": {float(e.get("font-size", 0)) for e in root.iter()},
            "dashes": {e.get("stroke-dasharray") for e in root.iter()},
            "markers": Counter(e.get("{http://www.w3.org/1999/xlink}href") for e in root.iter(SVG + "use")
                               if not e.get("id")),
            "shapes": sum(1 for _ in root.iter(SVG + "polygon")) - len(strips), "scale": bool(strips)}


@pytest.mark.parametrize("study, name", [(s, n) for s, names in FIGURES.items() for n in names])
def test_golden(drawn, study, name):
    new, old = drawn / study / f"{name}.svg", GOLDEN / f"{study}-{name}.svg"
    assert new.exists(), f"{name} was not drawn"
    if WRITE:
        old.parent.mkdir(exist_ok=True)
        old.write_bytes(new.read_bytes())
        return
    assert look_of(new) == look_of(old)
    if gnuplot_of(new) != gnuplot_of(old):
        return
    assert svg_texts(new) == svg_texts(old)
    (words, numbers), (old_words, old_numbers) = (skeleton(read_svg(path)) for path in (new, old))
    assert words == old_words
    worst = max(abs(a - b) for a, b in zip(numbers, old_numbers, strict=True))
    assert worst < TOLERANCE, f"largest difference {worst}"


def test_no_golden_figure_is_forgotten():
    if WRITE:
        pytest.skip("they are being written")
    assert {p.stem for p in GOLDEN.glob("*.svg")} == {f"{s}-{n}" for s, names in FIGURES.items()
                                                      for n in names}


@pytest.mark.parametrize("study", FIGURES)
def test_no_text_is_cut(drawn, study):
    """Every text of every figure lies in its picture, but for the ends of wide fonts."""
    pictures = sorted((drawn / study).glob("*.svg"))
    assert len(pictures) > 15
    cut = []
    for path in pictures:
        root = read_svg(path)
        width, height = map(float, root.get("viewBox").split()[2:])
        for group in root.iter(SVG + "g"):
            text = group.find(SVG + "text")
            place = re.match(r"translate\(([\d.-]+),([\d.-]+)\)( rotate)?", group.get("transform") or "")
            if text is None or not place:
                continue
            x, y = float(place[1]), float(place[2])
            size = float(group.get("font-size"))
            low, high = (x - 0.9 * size, x + 0.25 * size) if place[3] else (y - 0.9 * size, y + 0.25 * size)
            if low < -1 or high > (width if place[3] else height) + 1:
                cut.append((path.name, "".join(text.itertext()), low, high))
    assert not cut
