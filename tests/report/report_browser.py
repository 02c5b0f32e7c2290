# SPDX-License-Identifier: Apache-2.0
"""A report in Chromium: every complaint and every request is remembered; what of it the tests look at."""
import contextlib
import csv
import io
import math
from pathlib import Path

import pytest

from report_pages import find_chromium, report_of_four

pytest.importorskip("playwright.sync_api", reason="needs Playwright (tests/requirements.txt)")
from playwright.sync_api import sync_playwright  # noqa: E402

FOLDS = ", ".join(f"#{name} > details.fold" for name in ("findings", "summary", "extremes", "explorer", "figures"))
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


@contextlib.contextmanager
def chromium():
    path = find_chromium()
    if not path:
        pytest.skip("needs Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


MADE = []  # the report of four models, which several files of tests look at: drawn once


@pytest.fixture(scope="module")
def made(qkscope, tmp_path_factory):
    """A report of four models in two families with its figures, and its heads in the order of the page."""
    if not MADE:
        MADE.extend(report_of_four(qkscope, tmp_path_factory.mktemp("report")))
    return MADE


class Watched:
    """A page of which every complaint and every request is remembered; what is on it is unfolded, as a reader does."""

    def __init__(self, browser, path, folded=False, **options):
        self.context = browser.new_context(**{"viewport": DESKTOP, "accept_downloads": True,
                                              "offline": True, **options})
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda m: "willReadFrequently" in m.text  # it is the tests that read canvases
                     or self.complaints.append((m.type, m.text)))
        self.page.on("pageerror", lambda e: self.complaints.append(("error", str(e))))
        self.page.on("dialog", lambda d: self.complaints.append(("dialog", d.message)))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.url = Path(path).resolve().as_uri()
        self.page.goto(self.url)
        if not folded:
            self.page.eval_on_selector_all(FOLDS, "folds => folds.forEach((fold) => (fold.open = true))")

    def close(self):
        try:
            assert self.complaints == []
            away = [u for u in self.requests if u != self.url and not u.startswith(("data:", "blob:"))]
            assert away == []
        finally:
            self.context.close()


@pytest.fixture
def open_page(browser):
    opened = []

    def opening(path, **options):
        opened.append(Watched(browser, path, **options))
        return opened[-1].page
    yield opening
    for watched in opened:
        watched.close()


def explorer(page):
    """Brings the explorer into view and waits for its first chart."""
    page.locator("#explorer").scroll_into_view_if_needed()
    page.locator(".chart canvas[role=img]").first.scroll_into_view_if_needed()
    page.wait_for_function("Chart.getChart(document.querySelector('.chart canvas[role=img]'))")
    return page


def pixel(page, head, chart=0):
    """Where a head is on the screen; also scrolls its chart there. Charts that come into view are
    drawn some frames later, and may move the others: so until two looks agree."""
    page.locator(".chart canvas[role=img]").nth(chart).scroll_into_view_if_needed()
    page.wait_for_function(f"Chart.getChart(document.querySelectorAll('.chart canvas[role=img]')[{chart}])")
    found = None
    for _ in range(100):
        before, found = found, page.evaluate("""([head, index]) => {
            const canvas = document.querySelectorAll('.chart canvas[role=img]')[index];
            const chart = Chart.getChart(canvas), frame = canvas.getBoundingClientRect();
            for (const [d, set] of chart.data.datasets.entries())
                for (const [i, p] of set.data.entries())
                    if (p.head === head) {
                        const at = chart.getDatasetMeta(d).data[i];
                        return [frame.left + at.x, frame.top + at.y];
                    }
            return null;
        }""", [head, chart])
        if found and found == before:
            break
        page.wait_for_timeout(100)
    return found


def lonely(rows, x="r_q", y="r_k"):
    """The head farthest from all others in a chart: the one that a pointer hits without doubt."""
    spread = [max(r[c] for r in rows) - min(r[c] for r in rows) for c in (x, y)]
    distance = lambda a, b: math.hypot((a[x] - b[x]) / spread[0], (a[y] - b[y]) / spread[1])
    return max(range(len(rows)), key=lambda i: min(distance(rows[i], o) for j, o in enumerate(rows)
                                                   if i != j))


def shown_heads(page):
    """Indices of the rows of the table that are in the document."""
    return page.eval_on_selector_all("#table tbody tr[data-head]", "rs => rs.map(r => +r.dataset.head)")


def wait_for_count(page, text):
    page.wait_for_function("text => document.querySelector('#count').textContent.includes(text)",
                           arg=text)


def wait_for_selection(page, text):
    """A click is handled some time after it was made."""
    page.wait_for_function("text => document.querySelector('#selection').textContent === text", arg=text)


def wait_for_all_charts(page):
    """Until nothing moves the charts any more; they are drawn when they come into view."""
    page.wait_for_function("""[...document.querySelectorAll('.chart canvas[role=img]')]
        .every((canvas) => Chart.getChart(canvas))""")


def marked(page):
    """Heads marked in each chart that is drawn."""
    return page.evaluate("""() => [...document.querySelectorAll('.chart canvas[role=img]')]
        .map((c) => Chart.getChart(c)).filter(Boolean)
        .map((c) => c.qkOwner.marked().selection)""")


def saved(page, button):
    """Name and bytes of what a button saves."""
    with page.expect_download() as download:
        page.click(button)
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def exported(page, button):
    return list(csv.reader(io.StringIO(saved(page, button)[1].decode(), newline="")))
