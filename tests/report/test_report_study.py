# SPDX-License-Identifier: Apache-2.0
"""The report of a study as large as the published one: 11 models of about 300 heads, with their 44 collages.
All is in one file of less than 12 MB, and it can be read on a screen, on a phone and on paper."""
import csv
from urllib.parse import quote

import pytest

from conftest import EXAMPLE
from made_pictures import collage
from made_tables import CROSS_MODEL, write_cross_model
from report_browser import browser, explorer, open_page, shown_heads, wait_for_count  # noqa: F401
from strict_page import StrictPage

pytestmark = pytest.mark.test_all

SIZE_LIMIT = 12_000_000
HEADS = 295      # so the last layer of 15 lacks five
KINDS = ("pca-06-collage", "rotation-01-plane", "rotation-08-complement", "pca-13-extreme-heads")
@pytest.fixture(scope="module")
def study(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "results"
    write_cross_model(folder, HEADS, pcs=3, buckets=8, bins=4, dim=8)
    (folder / "figures").mkdir()
    (folder / "first.svg").write_text(collage())
    for kind in KINDS:
        for name, _, _ in CROSS_MODEL:
            (folder / "figures" / f"{kind}-{name}.svg").hardlink_to(folder / "first.svg")
    qkscope("report", folder, expect=0)
    return folder / "report.html"


def test_it_is_one_file_fit_for_an_email(study, open_page):
    assert study.stat().st_size < SIZE_LIMIT
    StrictPage(study.read_text())
    page = open_page(study)
    wait_for_count(page, "3,245 heads")
    shown = page.locator("#figures .grid.large figure").evaluate_all("es => es.map(e => e.id)")
    for kind in ("pca-06-collage", "pca-13-extreme-heads", "rotation-01-plane", "rotation-08-complement"):
        assert sum(f"fig-{kind}" in name for name in shown) >= 4, "each kind has its turn, while there is room"
    explorer(page)
    assert len(shown_heads(page)) < 60  # the rest is there when one scrolls


# Text that is seen: its size on the screen, of drawings, too; options are the system's.
TEXTS = """() => [...document.querySelectorAll('body *')].filter((e) =>
        [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())
        && !e.closest('script, style, noscript, option, bdi[hidden]')
        && (e.ownerSVGElement || e.checkVisibility()))
    .map((e) => {
        const matrix = e.ownerSVGElement ? e.getScreenCTM() : { b: 0, d: 1 };
        return [parseFloat(getComputedStyle(e).fontSize) * Math.hypot(matrix.b, matrix.d),
                e.textContent.trim().slice(0, 40), e.ownerSVGElement ? 'drawn' : e.outerHTML.slice(0, 80)];
    })"""
# What is wider than the screen and cannot be scrolled.
OUTSIDE = """() => [...document.querySelectorAll('main *')].filter((e) => {
        const { right, width } = e.getBoundingClientRect();
        if (width === 0 || right <= document.documentElement.clientWidth + 1) return false;
        for (let box = e; box; box = box.parentElement)
            if (getComputedStyle(box).overflowX !== 'visible') return false;
        return !e.ownerSVGElement;
    }).map((e) => e.outerHTML.slice(0, 120))"""
WIDTHS = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"


@pytest.mark.parametrize("width, media", [(1400, "screen"), (390, "screen"), (680, "print")])
def test_nothing_sticks_out_and_all_can_be_read(study, open_page, width, media):
    page = open_page(study, viewport={"width": width, "height": 844})
    page.emulate_media(media=media)
    page.add_style_tag(content=".sheet { content-visibility: visible !important }")
    page.eval_on_selector_all("details", "ds => ds.forEach((d) => (d.open = true))")
    for scheme in ("light", "dark"):
        page.emulate_media(media=media, color_scheme=scheme)
        scroll, client = page.evaluate(WIDTHS)
        assert scroll <= client
    assert page.evaluate(OUTSIDE) == []
    texts = page.evaluate(TEXTS)
    drawn = [text for text in texts if text[2] == "drawn"]
    assert len(texts) > 500 and len(drawn) > 300
    if width == 390:
        assert [text for text in texts if text[0] < 11 and text[2] != "drawn"] == []
        assert page.evaluate("() => [...document.querySelectorAll('.plate')].every((p) => p.scrollWidth <= p.clientWidth + 1)")
    if media == "print":
        assert page.is_visible("#analysed") and page.is_visible("#map-grid canvas >> nth=0")
        assert not page.is_visible("#explorer") and not page.is_visible("#contents")


def test_a_head_shows_its_panel(study, open_page):
    """Cut out of the collages on which it is."""
    page = open_page(study)
    page.goto(f"{study.as_uri()}#head=qwen3-8b/L2H3")
    page.wait_for_selector("#head-card[open] canvas.cut >> nth=1")
    page.wait_for_function("() => document.querySelector('#head-card canvas.cut').width !== 300")
    assert page.locator("#head-card canvas.cut").count() == 4
    size = page.evaluate("(() => { const c = document.querySelector('#head-card canvas.cut'); return [c.width, c.height]; })()")
    assert size[0] < 1037 * 0.55 and size[1] < 600 * 0.6
    page.click("#head-card figure a >> nth=0")
    page.wait_for_function("() => !document.querySelector('#head-card').open")
    top = page.evaluate("document.getElementById('fig-pca-06-collage-qwen3-8b').getBoundingClientRect().top")
    assert -50 < top < 800


def test_panels_of_a_collage_are_read_from_its_drawing(qkscope, tmp_path, open_page):
    """The page knows which head stands where on the picture that `scatter` drew."""
    qkscope("pca", EXAMPLE, "-o", tmp_path, "--layers", 0, expect=0)
    with (tmp_path / "qk.csv").open() as file:
        model = next(csv.DictReader(file))["model"]
    name = "pca-06-collage-" + model.replace(" ", "-")
    qkscope("scatter", EXAMPLE, "-o", tmp_path / "figures", "--name", name, "--collage", "2x2", expect=0)
    qkscope("report", tmp_path, "--no-points", expect=0)
    page, cuts = open_page(tmp_path / "report.html"), []
    for head in range(4):
        page.goto(f"{(tmp_path / 'report.html').as_uri()}#head={quote(model)}/L0H{head}")
        page.wait_for_function("""(title) => document.querySelector('#head-card[open]')?.innerText.includes(title)
            && ![0, 300].includes(document.querySelector('#head-card canvas.cut')?.width ?? 0)""", arg=f"layer 0, head {head}")
        cuts.append(page.evaluate("(() => { const c = document.querySelector('#head-card canvas.cut'); return [c.width, c.height, c.toDataURL()]; })()"))
    assert len({picture for _, _, picture in cuts}) == 4
    assert all(abs(one - first) < 30 for cut in cuts for one, first in zip(cut[:2], cuts[0][:2], strict=True)), "panels are alike"


def test_heads_that_are_missing_are_hatched(study, open_page):
    page = open_page(study, viewport={"width": 1400, "height": 900})
    page.focus("#map-grid canvas >> nth=0")
    page.keyboard.press("End")
    for _ in range(14):
        page.keyboard.press("ArrowDown")
    assert page.inner_text("#map-status") == "Qwen3-0.6B, layer 19, head 14: not analysed."
    page.keyboard.press("Enter")
    assert page.locator("dialog[open]").count() == 0
    page.keyboard.press("ArrowUp")
    page.evaluate("document.activeElement.blur()")
    kinds = page.locator("#map-grid canvas").first.evaluate("""(c) => {
        const ratio = devicePixelRatio, wide = (c.width / ratio - 27) / 20, tall = (c.height / ratio - 18) / 15;
        const context = c.getContext('2d');
        const colors = (layer, head) => new Set(Array.from({ length: 16 }, (_, i) => [...context.getImageData(
            ratio * (26 + wide * layer + 1 + i % 4), ratio * (tall * head + 1 + (i >> 2)), 1, 1).data].join())).size;
        return [colors(19, 14), colors(18, 14)];
    }""")
    assert kinds[0] > 1 and kinds[1] == 1
