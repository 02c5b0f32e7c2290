# SPDX-License-Identifier: Apache-2.0
"""Small figures against committed ones: the same structure, texts and colours, and numbers that
differ by less than a tenth of a pixel. After a change that is meant,

    QKSCOPE_GOLDEN=write make test

writes them anew; look at the difference before it is committed. Other versions of gnuplot than
the one they were made with draw other lines for the same figure: then texts and colours are
compared, and not where lines run."""
import os
import pathlib
import re
import subprocess

import pytest

from conftest import ROOT, environment
from figure_files import SVG, helper, need_gnuplot, read_svg, skeleton, svg_texts

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


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    need_gnuplot()
    folder = tmp_path_factory.mktemp("drawn")
    for study in FIGURES:
        subprocess.run([helper("draw_figures"), TABLES / study, folder / study, "paper", "svg"],
                       check=True, capture_output=True, env=environment())
    return folder


def gnuplot_of(path):
    return re.search(r"Produced by (GNUPLOT [\d.]+)", path.read_text()).group(1)


def colors_of(path):
    """Every colour that the picture uses, as #rrggbb or rgb(r, g, b) in its file."""
    found = re.findall(r"#[0-9a-fA-F]{6}\b|rgb\([^)]*\)", path.read_text())
    return {color.replace(" ", "").lower() for color in found}


@pytest.mark.parametrize("study, name", [(s, n) for s, names in FIGURES.items() for n in names])
def test_golden(drawn, study, name):
    new, old = drawn / study / f"{name}.svg", GOLDEN / f"{study}-{name}.svg"
    assert new.exists(), f"{name} was not drawn"
    if WRITE:
        old.parent.mkdir(exist_ok=True)
        old.write_bytes(new.read_bytes())
        return
    assert sorted(svg_texts(new)) == sorted(svg_texts(old))
    assert colors_of(new) == colors_of(old)
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
