# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: built without a warning, whole and searchable from a folder, without a network."""
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

pytestmark = pytest.mark.test_all
pytest.importorskip("mkdocs", reason="needs mkdocs-material (tests/requirements.txt)")

from conftest import ROOT  # noqa: E402


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder], cwd=ROOT,
                          capture_output=True, text=True, timeout=600, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout + done.stderr == ""
    return folder


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.loaded, self.linked, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        self.ids |= {a["id"]} if "id" in a else set()
        if tag == "a":
            self.linked.append(a.get("href", ""))
        elif tag in ("script", "img", "iframe"):
            self.loaded.append(a.get("src", ""))
        elif tag == "link" and a.get("rel") != "canonical":
            self.loaded.append(a.get("href", ""))


def test_every_link_is_there(site):
    pages = {path.relative_to(site).as_posix(): Links(path.read_text()) for path in site.rglob("*.html")}
    assert len(pages) >= 25 and {"index.html", "concepts.html", "glossary.html", "tutorial.html"} <= set(pages)
    bad = []
    for name, page in pages.items():
        for link in page.loaded + page.linked:
            path, _, anchor = link.partition("#")
            if re.match(r"https?:", link) and link not in page.loaded or name == "404.html":
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(name), unquote(path))) if path else name
            if not (site / target).is_file() or anchor and anchor not in pages[target].ids and anchor != "__comments":
                bad.append((name, link))
    assert not bad


def test_every_page_of_docs_is_in_the_contents(site):
    contents = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.relative_to(ROOT / "docs").as_posix() in contents, page
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file()


def test_it_is_read_and_searched_from_a_folder(site):
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright (tests/requirements.txt)")
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or pytest.skip("needs Chromium")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        asked, failed = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("requestfailed", lambda request: failed.append(request.url))
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.goto(f"file://{site}/reference/tables.html")
        page.click("[data-md-component=search-query]")
        page.keyboard.type("safetensors")
        page.wait_for_selector(".md-search-result__item a")
        assert "formats.html" in page.locator(".md-search-result__item a").first.get_attribute("href")
        browser.close()
    assert not failed and all(url.startswith("file:") for url in asked)
