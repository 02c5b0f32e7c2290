# SPDX-License-Identifier: Apache-2.0
"""Drawing figures, and looking into their files. A figure is named by its path without an ending; a file of
it by one with `.svg`, `.dat`, `.gp`."""
import os
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from conftest import BUILD, ROOT, Outcome, check_survived, environment

SVG = "{http://www.w3.org/2000/svg}"
MARKUP = re.compile(r"\\U\+(\w{4})\{\}|\\(.)|\{/\S+ (.*?)\}|[{}_^@]")
HOSTILE = ['a"><script>alert(1)</script>', "'; system \"touch x\"; '", "=cmd()", "x" * 300,
           "%s%n 100%d `touch y`", "{/:Bold x}_a^b@c&{d}~e \\n\\t", "日本語のモデル ünï", "a,b\nnext"]

# A PATH on which gnuplot makes empty pictures: for figures' data and labels, in a fiftieth of the time.
NO_PICTURES = {"PATH": f"{ROOT / 'tests' / 'figure' / 'no_pictures'}{os.pathsep}{os.environ['PATH']}"}

needs_gnuplot = pytest.mark.skipif(not shutil.which("gnuplot"), reason="gnuplot is not installed")


# ---- reading ---------------------------------------------------------------------------------

def read_svg(path):
    return ElementTree.parse(path.with_name(path.name.removesuffix(".svg") + ".svg")).getroot()


def svg_texts(path):
    """The texts that an SVG shows, in order, without their markup."""
    return ["".join(text.itertext()) for text in read_svg(path).iter(SVG + "text")]


def texts_of(path):
    return [text.strip() for text in svg_texts(path)]


def script_of(path):
    return path.with_name(path.name + ".gp").read_text()


def labels_of(path):
    """The texts of a figure's script without their markup: what it says of its numbers, whether they are drawn or not."""
    quoted = re.findall(r"'((?:[^']|'')*)'", script_of(path).split("\nset output")[1])
    texts = [MARKUP.sub(lambda m: chr(int(m[1], 16)) if m[1] else m[2] or m[3] or "", text.replace("''", "'")) for text in quoted]
    return [text for text in texts if text and not re.fullmatch("#[0-9a-f]{6}|,%g", text)]


def dividers(path):
    """Where upright lines part the phases of checkpoints."""
    return [float(x) for x in re.findall(r"first (\S+), graph 0 to", script_of(path))]


def blocks(path):
    """The blocks of a data file: rows of words; a row between two curves is empty."""
    parts = path.with_name(path.name + ".dat").read_text().split("\n\n\n")
    return [[row.split() for row in part.strip("\n").split("\n")] for part in parts if part.strip()]


def numbers(rows):
    return np.array([row for row in rows if row], float)


def curves(block):
    """The curves of a block, each an array of its rows."""
    text = "\n".join(" ".join(row) for row in block)
    return [numbers([row.split() for row in curve.split("\n")]) for curve in text.split("\n\n")]


def check_pictures(figures, names):
    """Each PNG is twice its SVG's size, is not empty, and nothing of it runs over the edge."""
    from PIL import Image
    for name in names:
        width, height = map(float, read_svg(figures / name).get("viewBox").split()[2:])
        with Image.open(figures / f"{name}.png") as image:
            assert image.size == (2 * width, 2 * height), name
            pixels = np.frombuffer(image.convert("RGBA").tobytes(), np.uint32).reshape(image.size[::-1])
        drawn = pixels != pixels[0, 0]
        assert drawn.mean() > 0.01, f"{name} is empty"
        for edge in drawn[:2], drawn[-2:], drawn[:, :2], drawn[:, -2:]:
            assert not edge.any(), f"{name} is cut off at the edge"


# ---- drawing ---------------------------------------------------------------------------------

def helper(name):
    path = BUILD / "tests" / "figure" / name
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


def draw(qkscope, folder, *options, formats="svg"):
    """Draws a results folder -> the folder of its figures, all of which must succeed. A PNG takes four times as long
    as an SVG: only where somebody looks at it."""
    qkscope("report", folder, "--no-html", "--format", formats, *options, expect=0)
    return folder / "figures"


def sketch(qkscope, folder, *options):
    """The same without what gnuplot draws."""
    qkscope("report", folder, "--no-html", "--format", "svg", *options, env=NO_PICTURES, expect=0)
    return folder / "figures"


def drawn(figures, family):
    return sorted(path.stem for path in figures.glob(f"{family}-*.gp"))


def draw_texts(folder, texts, env=None, cwd=None, wrapper=(), **options):
    """Draws a figure of texts (bytes or str, see draw_texts.c) -> Outcome."""
    texts = [t.encode() if isinstance(t, str) else t for t in texts]
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(t + b"\0" for t in texts))
        file.flush()
        os.chmod(file.name, 0o644)  # for a wrapper that gives up rights
        command = [*wrapper, helper("draw_texts"), os.fspath(folder), file.name,
                   *(f"{name}={value}" for name, value in options.items())]
        done = subprocess.run(command, capture_output=True, env=environment(env), cwd=cwd,
                              stdin=subprocess.DEVNULL, timeout=300)
    outcome = Outcome(done.returncode, done.stdout.decode(errors="surrogateescape"),
                      done.stderr.decode(errors="surrogateescape"))
    check_survived(outcome.code, outcome.err)
    return outcome
