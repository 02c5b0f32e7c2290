# SPDX-License-Identifier: Apache-2.0
"""What readers of the pages stumbled over in a browser: the layout of a comparison, checkpoints out of order, a read-out
that spoke of another column, colours unlike those of the figures."""
import json
import re
import shlex
import shutil
from collections import Counter
from pathlib import Path

import pytest

from conftest import EXAMPLE, synth
from made_tables import make_heads, write_results
from report_browser import browser, explorer, made, open_page, shown_heads, wait_for_count  # noqa: F401
from report_pages import page_of
from test_report_controls import cell, color, status

WIDE = {"width": 1400, "height": 900}

pytestmark = pytest.mark.test_all


@pytest.fixture(scope="module")
def checkpoints(qkscope, tmp_path_factory):
    """A page of checkpoints whose names are numbers."""
    folder = tmp_path_factory.mktemp("checkpoints")
    names, rows = ("20", "100", "700", "2004"), []
    for name in names:
        rows += make_heads(name, 2, 4, 2, seed=int(name))
    write_results(folder, rows, [{"model": n, "label": n, "family": "run", "phase": "main"} for n in names],
                  buckets=6, bins=4, dim=8)
    qkscope("report", folder, expect=0)
    return folder / "report.html", names, rows


# ---- a comparison ----------------------------------------------------------------------------------

def test_a_comparison_fills_the_screen(qkscope, tmp_path, open_page):
    for seed, name in enumerate("ab"):
        synth(tmp_path / name, layers=2, query_heads=2, dim=8, examples=6, rows=20, seed=seed)
        qkscope("pca", tmp_path / name, "-o", tmp_path / f"of-{name}", expect=0)
    done = qkscope("compare", tmp_path / "of-a", tmp_path / "of-b", "-o", tmp_path / "out")
    assert done.code in (0, 3), done.err
    page = open_page(tmp_path / "out" / "compare.html", viewport=WIDE)
    assert page.evaluate("document.querySelector('main').getBoundingClientRect().width") > 1150, "beside the contents"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# ---- the order of the study ------------------------------------------------------------------------

def test_checkpoints_sort_as_in_the_study(checkpoints, open_page):
    path, names, rows = checkpoints
    page = explorer(open_page(path))
    page.click("#table th[data-name=model] button")
    first = shown_heads(page)
    assert first == sorted(first) and [rows[h]["model"] for h in first] == [names[h // 8] for h in first]
    page.click("#table th[data-name=model] button")
    assert rows[shown_heads(page)[0]]["model"] == names[-1]
    table = page.locator("table.numbers").first
    labels = lambda: [text.split()[0] for text in table.locator("tbody tr.model th").all_inner_texts()]
    table.locator("th button").nth(2).click()
    table.locator("th button").first.click()
    assert labels() == list(names)
    table.locator("th button").first.click()
    assert labels() == list(names)[::-1]


# ---- the picture of all heads ----------------------------------------------------------------------

def test_the_read_out_follows_the_column(made, open_page):
    path, rows = made
    page = open_page(path, viewport=WIDE)
    hint = status(page)
    page.mouse.move(*cell(page, 1, 2, 3))
    assert "head 3: r_q" in status(page)
    page.mouse.move(0, 0)
    page.select_option("#map-field", "bias_strength")
    row = next(r for r in rows if (r["model"], r["layer"], r["q_head"]) == ("m1", 2, 3))
    found = re.match(r"Model 1, layer 2, head 3: bias_strength (\S+?)[,.] ", status(page))[1]
    assert float(found.replace("−", "-")) == pytest.approx(row["bias_strength"], rel=1e-3)
    page.select_option("#map-model", label="Model 0")
    assert status(page) == hint


def test_categories_have_the_colours_of_the_figures(made, open_page):
    """theme.c draws the figures; the page has the same five, in the light and in the dark."""
    path, rows = made
    source = (Path(__file__).resolve().parents[2] / "src/draw/theme.c").read_text()
    figures = dict(re.findall(r'\[QK_(\w+)\] = "#(\w{6})"', source))
    for scheme in ("light", "dark"):
        page = open_page(path, viewport=WIDE, color_scheme=scheme)
        page.select_option("#map-field", "category")
        for category in {r["category"] for r in rows}:
            row = next(r for r in rows if r["category"] == category)
            want = figures[category.upper().replace("-", "_")]
            found = color(page, int(row["model"][1]), row["layer"], row["q_head"])
            assert "".join(f"{round(255 * v):02x}" for v in found) == want, category


# ---- the first screen ------------------------------------------------------------------------------

@pytest.mark.parametrize("study", ["models", "checkpoints"])
def test_how_many_heads_follow_position(study, made, checkpoints, open_page):
    """Numbers of heads by category, of the last checkpoint where there are some; each leads to these heads."""
    path, rows = made if study == "models" else (checkpoints[0], checkpoints[2])
    own = [i for i, r in enumerate(rows) if study == "models" or r["model"] == "2004"]
    counts = Counter(rows[i]["category"] for i in own)
    page = open_page(path, viewport=WIDE)
    picture = page.locator("#map-grid").bounding_box()
    assert picture["y"] + 30 < 700, "the first screen has a picture"
    links = page.locator("#kinds a")
    assert {text.split(" ")[1]: int(text.split(" ")[0]) for text in links.all_inner_texts()} == counts
    name, count = counts.most_common()[-1]
    links.filter(has_text=name).first.click()
    wait_for_count(page, f"{count} of {len(rows)} heads")
    explorer(page)
    assert shown_heads(page) == [i for i in own if rows[i]["category"] == name]


def test_a_card_names_thresholds_and_the_capture(qkscope, tmp_path, open_page):
    capture = tmp_path / "it's a capture"
    shutil.copytree(EXAMPLE, capture)
    qkscope("analyze", capture, "-o", tmp_path / "out", "--taxonomy-low", 0.25, "--model-name", "tiny", expect=0)
    text = page_of(qkscope, tmp_path / "out")
    assert "\"thresholds\":[0.25,0.7]" in text
    page = open_page(tmp_path / "out" / "report.html")
    page.goto(page.url + "#head=tiny/L0H0")
    page.wait_for_selector("#head-card[open]")
    numbers = page.inner_text("#head-numbers")
    assert "Below 0.25 PC0 does not count as following position, above 0.7 it does" in numbers
    assert "Without its sign, below 0.25" in numbers
    words = shlex.split(page.locator("#head-view code", has_text="qkscope attention").first.inner_text())
    run = json.loads((tmp_path / "out" / "manifest.json").read_text())["runs"][0]
    assert words == ["qkscope", "attention", run["capture"], "-o", "RESULTS"]
    assert Path(words[2]).resolve() == capture.resolve()
    page.click("#head-close")
    explorer(page)
    page.select_option(".chart >> nth=0 >> [data-axis=x]", "r_q")
    lines = page.evaluate("""() => {
        const chart = Chart.getChart(document.querySelector('.chart canvas[role=img]')), seen = [], { ctx } = chart;
        const { top, left } = chart.chartArea, { x } = chart.scales;
        ctx.moveTo = (at, y) => ctx.getLineDash().length && y === top && at > left && seen.push(x.getValueForPixel(at));
        chart.draw();
        delete ctx.moveTo;
        return [seen, x.min, x.max];
    }""")
    expected = [at for at in (-0.25, 0.25, -0.7, 0.7) if lines[1] < at < lines[2]]
    assert len(expected) > 1 and lines[0] == pytest.approx(expected, abs=0.01)


def test_cards_are_as_tall_as_their_text(made, open_page):
    page = open_page(made[0], viewport=WIDE)
    empty = """(cards) => cards.map((c) => c.getBoundingClientRect().bottom
        - c.lastElementChild.getBoundingClientRect().bottom)"""
    assert all(0 <= room < 40 for room in page.eval_on_selector_all(".card", empty))
    page.emulate_media(media="print")
    wide = "(e) => e.getBoundingClientRect().width"
    assert page.eval_on_selector("#standing", wide) == pytest.approx(page.eval_on_selector(".cards", wide), abs=1)
    assert page.eval_on_selector("#standing", "(e) => getComputedStyle(e).breakInside") == "auto"
