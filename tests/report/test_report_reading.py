# SPDX-License-Identifier: Apache-2.0
"""What readers of the pages stumbled over: the layout of a comparison, checkpoints out of order, a read-out
that spoke of another column, colours unlike those of the figures."""
import re
from pathlib import Path

import pytest

from conftest import synth
from made_tables import make_heads, write_results
from report_browser import browser, explorer, made, open_page, shown_heads  # noqa: F401
from report_pages import failing_gnuplot, page_of
from test_report_controls import cell, color, status

WIDE = {"width": 1400, "height": 900}


@pytest.fixture(scope="module")
def checkpoints(qkscope, tmp_path_factory):
    """A page of checkpoints whose names are numbers; three heads of the last have each its category."""
    folder = tmp_path_factory.mktemp("checkpoints")
    names, rows = ("20", "100", "700", "2004"), []
    for name in names:
        rows += make_heads(name, 2, 4, 2, seed=int(name))
    write_results(folder, rows, [{"model": n, "label": n, "family": "run", "step": int(n)} for n in names],
                  buckets=6, bins=4, dim=8)
    page = page_of(qkscope, folder, failing_gnuplot(folder / "bin"))
    return folder / "report.html", names, rows, page


# ---- a comparison ----------------------------------------------------------------------------------

def test_a_comparison_fills_the_screen(qkscope, tmp_path, open_page):
    for seed, name in enumerate("ab"):
        synth(qkscope, tmp_path / name, layers=2, query_heads=2, dim=8, examples=6, rows=20, seed=seed)
    done = qkscope("compare", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "out",
                   env={"PATH": failing_gnuplot(tmp_path / "bin")})
    assert done.code in (0, 3), done.err
    page = open_page(tmp_path / "out" / "compare.html", viewport=WIDE)
    assert page.evaluate("document.querySelector('main').getBoundingClientRect().width") > 1200
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# ---- the order of the study ------------------------------------------------------------------------

def test_checkpoints_sort_as_in_the_study(checkpoints, open_page):
    path, names, rows, _ = checkpoints
    page = explorer(open_page(path))
    page.click("#table th[data-name=model] button")
    first = shown_heads(page)
    assert first == sorted(first) and [rows[h]["model"] for h in first] == [names[h // 8] for h in first]
    page.click("#table th[data-name=model] button")
    assert rows[shown_heads(page)[0]]["model"] == names[-1]
    table = page.locator("table.numbers").first
    labels = lambda: table.locator("tbody tr.model th").all_inner_texts()
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
    source = (Path(__file__).resolve().parents[2] / "src/figure/theme.c").read_text()
    figures = dict(re.findall(r'\[QK_(\w+)\] = "#(\w{6})"', source))
    for scheme in ("light", "dark"):
        page = open_page(path, viewport=WIDE, color_scheme=scheme)
        page.select_option("#map-field", "category")
        for category in {r["category"] for r in rows}:
            row = next(r for r in rows if r["category"] == category)
            want = figures[category.upper().replace("-", "_")]
            found = color(page, int(row["model"][1]), row["layer"], row["q_head"])
            assert "".join(f"{round(255 * v):02x}" for v in found) == want, category


# ---- verdicts --------------------------------------------------------------------------------------

def test_no_verdict_reads_as_false(qkscope, tmp_path):
    """Keys that follow position more than queries: true, and so the badge says."""
    def keys_first(row, rng):
        row["r_q"], row["r_k"] = rng.uniform(0.2, 0.4), rng.uniform(0.8, 0.9)
    rows = [r for i in range(6) for r in make_heads(f"m{i}", 4, 4, 2, seed=i, change=keys_first)]
    models = [{"model": f"m{i}", "label": f"M{i}", "family": f"F{i}"} for i in range(6)]
    write_results(tmp_path, rows, models, buckets=6, bins=4, dim=8)
    page = page_of(qkscope, tmp_path, failing_gnuplot(tmp_path / "bin"))
    badge = re.search(r'id="finding-queries-over-keys"[^>]*><span class="badge (\S+)">(.*?)</span>', page)
    assert badge.groups() == ("opposite", "supported, against expectation")
