# SPDX-License-Identifier: Apache-2.0
"""The page as a file: it is whole, holds the numbers of the tables, leads nowhere, and names from outside are text on it.
One page is opened in a browser, where one is installed; test_report_explorer.py and others look closer."""
import html
import re

import pytest

from made_tables import make_heads, write_results
from report_pages import HOSTILE, block, drawn, findings, four, hostile  # noqa: F401
from strict_page import StrictPage


def test_every_element_closes(four, hostile):
    """In these pages whatever a page can hold: one that is left open spoils all that follows."""
    for path in (four[0], hostile):
        assert StrictPage(path.read_text()).count > 1000


def test_nothing_leads_out(four):
    """Every link goes to a place on the page itself: the page may have been sent alone. No script but its own may run."""
    text = four[0].read_text()
    markup = drawn(four[0])
    links = [html.unescape(link) for link in re.findall(r'\b(?:href|src)="([^"]*)"', markup)]
    assert {link.split(":")[0] for link in links if not link.startswith("#")} <= {"data"}
    targets = {re.sub("^at=([^&]*)&.*", r"\1", link[1:]) for link in links if link.startswith("#")}
    assert targets <= set(re.findall(r'\bid="([^"]*)"', markup)) and any(target.startswith("finding-") for target in targets)
    assert any(target.startswith("fig-") for target in targets)
    policy = html.unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1])
    assert policy.startswith("default-src 'none';") and "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]


def test_the_same_tables_give_the_same_bytes(four, qkscope, tmp_path):
    qkscope("report", four[0].parent, "-o", tmp_path, "--title", "Four models", "--threads", 1, expect=0)
    assert (tmp_path / "report.html").read_bytes() == four[0].read_bytes()


def test_numbers_are_those_of_the_tables(four):
    path, rows = four
    data = block(path.read_text(), "qk-heads")
    assert len(data["model"]) == len(rows) and len(data["fields"]) > 30
    for field in data["fields"]:
        for value, row in zip(field["values"], rows):
            expected = row.get(field["name"])
            assert (value is None) == (expected is None)
            assert expected is None or value == pytest.approx(expected, rel=1e-4, abs=1e-300)


def test_names_are_text(hostile):
    text = hostile.read_text()
    assert text.count("<script") == 7 and not re.search(r"<script>alert|<img src=x", text)
    seen = drawn(hostile)
    assert not re.search(r"<script>alert|<img src=x", seen)
    shown = [html.unescape(name) for name in re.findall(r"<bdi>(.*?)</bdi>", seen, re.S)]
    assert {HOSTILE[0], HOSTILE[1], HOSTILE[3], HOSTILE[4]} <= set(shown)
    assert max(map(len, shown)) < 100, "ten thousand letters are cut"
    assert not list(hostile.parent.rglob("x"))


def test_bytes_that_are_not_utf8(qkscope, tmp_path):
    rows = make_heads("bad \udcff\udcfe name \udced\udca0\udc80", 2, 2, 2)
    write_results(tmp_path, rows, buckets=4, bins=2, dim=4)
    qkscope("report", tmp_path, expect=0)
    assert "bad \ufffd\ufffd name" in (tmp_path / "report.html").read_bytes().decode("utf-8")  # whatever was in the tables


def test_a_folder_without_heads(qkscope, tmp_path):
    (tmp_path / "scores.csv").write_text("model,bench,ap_drop\na,1,0.2\nb,2,0.1\nc,3,0.05\n")
    qkscope("report", tmp_path, expect=0)
    text = (tmp_path / "report.html").read_text()
    assert 'id="explorer"' not in text and findings(text)["scores"].verdict == "too-few"


def test_figures_say_that_checkpoints_are_together(four, qkscope, tmp_path):
    """Findings are about the last checkpoint; these figures are not. The page says so, and the notes beside them."""
    rows = [row for name in ("20", "100", "700", "2004") for row in make_heads(name, 2, 4, 2, seed=int(name))]
    models = [{"model": n, "label": n, "family": "run", "phase": "main"} for n in ("20", "100", "700", "2004")]
    write_results(tmp_path, rows, models, buckets=6, bins=4, dim=8)
    qkscope("report", tmp_path, "--format", "svg", expect=0)
    for path, pooled in ((tmp_path / "report.html", {"pca-01-pc-roles", "pca-05-explained-variance", "rotation-07-bias-vs-separation"}),
                         (four[0], set())):
        captions = re.findall(r'<figure class="\w+" id="fig-([^"]+)">.*?<figcaption>(.*?)</figcaption>', path.read_text(), re.S)
        together = "All 4 checkpoints together."
        assert {name for name, caption in captions if together in caption} == pooled and len(captions) > 15
        notes = {note.stem for note in (path.parent / "figures").glob("*.md") if together in note.read_text()}
        assert notes == pooled


def test_it_opens_in_a_browser(four):
    """Where a browser and Playwright are installed: nothing complains, nothing is fetched, and the explorer has all heads."""
    import report_browser as seen
    path, rows = four
    with seen.chromium() as browser:
        watched = seen.Watched(browser, path)
        page = seen.explorer(watched.page)
        assert page.title() == page.inner_text("h1") == "Four models"
        page.fill("#search", "m1 L3H")
        seen.wait_for_count(page, "6 of 120")
        assert seen.shown_heads(page) == [i for i, r in enumerate(rows) if r["model"] == "m1" and r["layer"] == 3]
        watched.close()


def test_without_javascript(four):
    """The figures and the headline tables, and a line that says so; what is empty then is not there."""
    import report_browser as seen
    with seen.chromium() as browser:
        watched = seen.Watched(browser, four[0], folded=True, java_script_enabled=False)
        page = watched.page
        assert "Without JavaScript it has the figures and the headline numbers" in page.inner_text("main")
        assert page.locator("main section:visible").evaluate_all("list => list.map((one) => one.id)") == ["summary", "figures", "methods"]
        page.click("#summary summary")
        page.click("#figures > details > summary")
        assert page.locator("table.numbers:visible").count() > 2 and page.locator("#figures svg").first.is_visible()
        watched.close()
