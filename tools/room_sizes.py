#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the last column of the table of sizes in docs/dev/architecture.md: lines of C in the rooms of today.

    tools/room_sizes.py [--check]
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "dev" / "architecture.md"
NEAR = 0.05  # of the figure: a page that is as far off as this still tells what a reader wants to know


def lines_of(folder):
    return sum(len(path.read_bytes().splitlines()) for path in sorted(folder.rglob("*"))
               if path.suffix in (".c", ".h"))


def rooms_of(cell):
    """"record: recorder, sink" -> its folders; "all": none."""
    names = [name.strip() for name in cell.split(":")[-1].split(",")]
    return [ROOT / name if name.startswith("include") else ROOT / "src" / name for name in names]


def counted(page):
    """[(line, what it says, what there is)] of the rows; the last is the sum of all C files, in no room as well."""
    table = page.split("| room in 0.1.0: rooms now |")[1].split("\n\n")[0]
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        size = lines_of(ROOT / "src") + lines_of(ROOT / "include") if cells[0] == "all" else sum(
            lines_of(folder) for folder in rooms_of(cells[0]))
        yield line, int(cells[2].replace(",", "")), size


def main():
    page = PAGE.read_text()
    rows = list(counted(page))
    named = {path.name for line, _, _ in rows for path in rooms_of(line.strip("|").split("|")[0].strip())}
    rooms = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
    off = [f"{line}: there are {size}" for line, says, size in rows if abs(says - size) > NEAR * size]
    off += [f"src/{room} is in no row" for room in sorted(rooms - named)]
    if "--check" in sys.argv[1:]:
        print("\n".join(off))
        return bool(off)
    for line, _, size in rows:
        page = page.replace(line, re.sub(r"[\d,]+ \|$", f"{size:,} |", line))
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
