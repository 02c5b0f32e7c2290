# SPDX-License-Identifier: Apache-2.0
"""The picture of the page in docs/figures.md, docs/page.png: page_picture.py REPORT.html, of a capture of the bundled model,

    qkscope capture -m examples/kjv-tiny/step-2004 -t examples/kjv-tiny/passages.jsonl -o capture
    qkscope analyze capture -o results --ci 95
    qkscope report results"""
import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
HEADS = "#heads=4:2,0:3"

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 1280, "height": 1060}, color_scheme="light")
    page.goto(Path(sys.argv[1]).resolve().as_uri() + HEADS)
    page.wait_for_timeout(1000)
    picture = Image.open(io.BytesIO(page.screenshot()))
    browser.close()
picture.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(ROOT / "docs" / "page.png", optimize=True)
