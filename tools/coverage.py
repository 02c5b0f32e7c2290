#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coverage.py BUILD [--page]: which lines of src/ the programs of a build folder have run since its counts
were deleted, by room, and the files of which most is left. --page: docs/coverage.md."""
import argparse
import json
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORST = 10
SMALL = 30  # a file of fewer lines tells little by its share
INTRODUCTION = """\
# Line coverage

Which lines of `src/` the core of the tests runs, as gcov counts them; the whole suite runs some more. A line
that is run is not thereby tested; a line that is never run certainly is not. Most of what is missing are answers
to memory that ran out and to calls of the system that fail.

    make asan-core          # prints these tables, as CI does
    make coverage-page      # writes this page
"""


def count(build):
    """{file: (lines, lines run)}"""
    done = subprocess.run(["gcovr", "--root", ROOT, "--filter", f"{ROOT}/src/", "--json-summary", "-o", "-",
                           "--gcov-ignore-parse-errors", build], check=True, capture_output=True, text=True, cwd=ROOT)
    return {file["filename"]: (file["line_total"], file["line_covered"]) for file in json.loads(done.stdout)["files"]
            if file["line_total"] > 0}


def share(lines, run):
    return f"{100 * run / lines:.1f} %"


def table(title, rows):
    return [f"| {title} | lines | run | share |", "|---|--:|--:|--:|",
            *(f"| `{name}` | {lines:,} | {run:,} | {share(lines, run)} |" for name, (lines, run) in rows), ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    files = count(args.build)
    rooms = defaultdict(lambda: (0, 0))
    for name, (lines, run) in files.items():
        for room in (name.split("/")[1], "src"):
            rooms[room] = rooms[room][0] + lines, rooms[room][1] + run
    total = rooms.pop("src")
    worst = sorted((f for f in files.items() if f[1][0] >= SMALL), key=lambda f: f[1][1] / f[1][0])[:WORST]
    text = [*table("room", [*sorted(rooms.items()), ("src", total)]),
            f"The {WORST} files with the smallest share, of those of {SMALL} lines and more:", "", *table("file", worst)]
    if args.page:
        (ROOT / "docs" / "coverage.md").write_text("\n".join([INTRODUCTION, *text]).rstrip() + "\n")
    else:
        print("\n".join(text))
    print(f"line coverage: {share(*total)}, {total[1]:,} of {total[0]:,} lines of src")


if __name__ == "__main__":
    main()
