# SPDX-License-Identifier: Apache-2.0
"""The report of a large study: 11 models of 300 heads, every table made up, their figures drawn and the
page written, on 2 processors, with four collages of each model; then how
long a list of its heads takes, and the page to open. Prints Markdown. Opening needs Playwright and Chromium (tests/requirements.txt)
and is left out without them."""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "report"))

from made_tables import CROSS_MODEL, write_cross_model  # noqa: E402
from made_pictures import collage  # noqa: E402
from report_pages import find_chromium  # noqa: E402

THREADS = 2


def tables(work, heads):
    """The results folder, made once."""
    folder = work / f"cross-model-{heads}"
    if not (folder / "models.csv").exists():
        shutil.rmtree(folder, ignore_errors=True)
        write_cross_model(folder, heads)
    return folder


def add_collages(work, figures):
    """As a study has them: three or four of each model. How many."""
    (work / "collage.svg").write_text(collage())
    figures.mkdir(parents=True)
    kinds = ("pca-06-collage", "rotation-01-plane", "rotation-08-complement", "pca-13-extreme-heads")
    for kind in kinds:
        for name, _, _ in CROSS_MODEL:
            shutil.copy(work / "collage.svg", figures / f"{kind}-{name}.svg")
    return len(kinds) * len(CROSS_MODEL)


def draw(build, folder, out):
    """Seconds, and the size of the page."""
    shutil.rmtree(out, ignore_errors=True)
    collages = add_collages(out.parent, out / "figures")
    start = time.perf_counter()
    subprocess.run([build / "qkscope", "report", folder, "-o", out, "--threads", str(THREADS),
                    "--quiet"], check=True)
    return time.perf_counter() - start, (out / "report.html").stat().st_size, collages


def listing(build, folder):
    """Seconds until qkscope heads has listed some of them."""
    start = time.perf_counter()
    subprocess.run([build / "qkscope", "heads", folder, "--where", "category == 'mixed' and abs(r_k) > 0.5", "--sort", "-r_q"],
                   check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def opening(path, runs):
    """Seconds until the page is loaded and its table there, in a fresh page each time."""
    chromium = find_chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if not chromium:
        return None
    seconds = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(runs):
            page = browser.new_page()
            start = time.perf_counter()
            page.goto(path.resolve().as_uri())
            page.wait_for_selector("#table tbody tr[data-head]", state="attached")
            seconds.append(time.perf_counter() - start)
            page.close()
        browser.close()
    return statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--heads", type=int, default=300, help="of each of the 11 models")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    work = options.build / "bench-data"
    folder, out = tables(work, options.heads), work / "report"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    drawn = [draw(options.build, folder, out) for _ in range(options.runs)]
    figures = len(list((out / "figures").glob("*.svg")))
    print("| 11 models | |\n|---|---:|")
    print(f"| heads | {11 * options.heads:,} |\n| figures | {figures} |\n| collages | {drawn[0][2]} |")
    print(f"| figures and page, {THREADS} threads | {statistics.median(d[0] for d in drawn):.1f} s |")
    print(f"| size of the page | {drawn[0][1] / 1e6:.1f} MB |")
    print(f"| a list of heads by a condition | {statistics.median(listing(options.build, folder) for _ in range(9)):.2f} s |")
    opened = opening(out / "report.html", options.runs)
    if opened is not None:
        print(f"| opening it | {opened:.2f} s |")


if __name__ == "__main__":
    main()
