# SPDX-License-Identifier: Apache-2.0
"""Drawing figures, and looking into their files. A figure is named by its path without an ending."""
import csv
import os
import pathlib
import shutil
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from conftest import BUILD

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ['a"><script>alert(1)</script>', "'; system \"touch x\"; '", "=cmd()", "x" * 300,
           "%s%n 100%d `touch y`", "<b>x</b>_a^b@c&{d}~e \\n\\t ]]>", "日本語のモデル ünï", "a,b\nnext"]

needs_rsvg = pytest.mark.skipif(not shutil.which("rsvg-convert"), reason="rsvg-convert is not installed")


# ---- reading ---------------------------------------------------------------------------------

def file_of(path, ending):
    return path.with_name(f"{path.name.removesuffix('.svg')}.{ending}")


def read_svg(path):
    return ElementTree.parse(file_of(path, "svg")).getroot()


def shown(element):
    """What a text shows: not its tooltip."""
    return (element.text or "") + "".join(("" if part.tag == SVG + "title" else shown(part)) + (part.tail or "") for part in element)


def svg_texts(path):
    """The texts that a drawing shows, in order, without their markup."""
    return [shown(text) for text in read_svg(path).iter(SVG + "text")]


def texts_of(path):
    return [text.strip() for text in svg_texts(path)]


def whole_texts(path):
    """Of those that were cut, all of them."""
    return [title.text for title in read_svg(path).iter(SVG + "title")]


def told(path):
    """The rows of NAME.csv: numbers as such, empty fields as None."""
    def value(text):
        try:
            return float(text) if text else None
        except ValueError:
            return text
    with file_of(path, "csv").open(newline="", encoding="utf-8") as file:
        return [{name: text or None if name in ("panel", "series") else value(text) for name, text in row.items()}
                for row in csv.DictReader(file)]


def panels(path, key="panel"):
    """Lists of the rows of each panel (or series), in the order of the file."""
    parts = {}
    for row in told(path):
        parts.setdefault(row[key], []).append(row)
    return list(parts.values())


def chart(path):
    """An array for each panel of a chart: a row for each place, in it the numbers of each series."""
    found = []
    for panel in panels(path):
        series = {}
        for row in panel:
            series.setdefault(row["series"], []).append([np.nan if row[c] is None else row[c] for c in ("y", "low", "high", "value")])
        columns = [np.array(rows, float) for rows in series.values()]
        kept = [c for c in range(4) if not all(np.isnan(part[:, c]).all() for part in columns)]
        found.append(np.hstack([part[:, kept] for part in columns]))
    return found


def cells(panel):
    """{(x, y): value} of the cells of a map."""
    return {(row["x"], row["y"]): row["value"] for row in panel}


def numbers(rows, *names):
    return np.array([[np.nan if row[name] is None else row[name] for name in names] for row in rows], float)


# ---- drawing ---------------------------------------------------------------------------------

def helper(name):
    path = BUILD / "tests" / "figure" / name
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


def draw(qkscope, folder, *options):
    """Draws a results folder -> the folder of its figures, all of which must succeed."""
    qkscope("report", folder, "--no-html", *options, expect=0)
    return folder / "figures"


def drawn(figures, family):
    return sorted(path.stem for path in figures.glob(f"{family}-*.svg"))


# What such a program writes to be taken for one that works.
WHOLE = "printf '%s' 'a whole picture, of some kind: IEND%%EOF' > $OUT\n"


def fake_converter(folder, body):
    """A PATH on which rsvg-convert is a program of shell: $FORMAT is what it is asked for, $OUT its file."""
    folder.mkdir(parents=True, exist_ok=True)
    program = pathlib.Path(folder) / "rsvg-convert"
    program.write_text('#!/bin/sh\nfor word; do case $before in --format) FORMAT=$word;; --output) OUT=$word;; esac; before=$word; done\n' + body)
    program.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
