#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coverage.py BUILD: which lines of src/ the programs of a build folder have run since its counts were deleted, by room,
and the files of which most is left. A line that is run is not thereby tested; a line that is never run is not."""
import argparse
import json
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORST = 10
SMALL = 30  # a file of fewer lines tells little by its share


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
    print("\n".join(text))
    print(f"line coverage: {share(*total)}, {total[1]:,} of {total[0]:,} lines of src")


if __name__ == "__main__":
    main()
