# SPDX-License-Identifier: Apache-2.0
"""The page of a comparison in a browser: map, table and view of a head are those of a report."""
import re

import pytest

from conftest import read_csv, synth
from report_browser import browser, explorer, open_page, shown_heads  # noqa: F401

pytestmark = pytest.mark.test_all


@pytest.fixture(scope="module")
def compared(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    for i, name in enumerate("ab"):
        synth(folder / name, layers=3, query_heads=4, dim=8, examples=10, rows=30, seed=i + 1, model_name=name)
        qkscope("analyze", folder / name, "-o", folder / f"of-{name}", "--ci", 95, expect=0)
    qkscope("compare", folder / "of-a", folder / "of-b", "-o", folder / "out", expect=0)
    return folder / "out"


def test_all_heads_of_a_comparison(compared, open_page):
    page = open_page(compared / "compare.html")
    rows = {(r["layer"], r["q_head"]): r for r in read_csv(compared / "compare.csv") if r["metric"] == "r_q"}
    assert page.locator("#map-grid canvas").count() == 1 and page.input_value("#map-field") == "r_q.diff"
    page.focus("#map-grid canvas")
    page.keyboard.press("Enter")
    page.wait_for_selector("#head-card[open]")
    numbers = page.locator("#head-numbers tr", has=page.locator("code", has_text=re.compile(r"^r_q\.diff$")))
    assert "query-position correlation r_q on PC0, b − a" in numbers.inner_text()
    value = float(numbers.locator("td").first.get_attribute("data-value"))
    assert value == pytest.approx(rows[0, 0]["difference"], rel=1e-4)
    assert page.locator("#head-view .empty").count() == 0  # nothing that a comparison has not is missed
    page.keyboard.press("Escape")
    explorer(page)
    assert page.inner_text("#table th[data-name='r_q.diff'] button").strip("▲▼ ") == "r_q: b − a"
    page.click("#table th[data-name='r_q.diff'] button")
    order = sorted(range(12), key=lambda head: -list(rows.values())[head]["difference"])
    assert shown_heads(page) == order


def test_tables_sort_and_an_address_opens_heads(compared, open_page):
    page = open_page(compared / "compare.html")
    header = page.locator("#movers th", has_text="p, corrected")
    header.locator("button").focus()
    page.keyboard.press("Enter")
    values = [float(v) for v in page.locator("#movers tbody tr").evaluate_all(
        "rows => rows.map((r) => r.cells[7].dataset.value).filter(Boolean)")]
    assert header.get_attribute("aria-sort") == "descending" and values == sorted(values, reverse=True)
    page.goto(page.url + "#heads=1:2,2:3")
    page.wait_for_selector("#head-card[open]")
    assert page.inner_text("#head-title") == "2 heads side by side"
