# SPDX-License-Identifier: Apache-2.0
"""Drawing figures of texts, and looking into their files."""
import os
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree

import pytest

from conftest import BUILD, Outcome, check_survived, environment

SVG = "{http://www.w3.org/2000/svg}"
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")


def svg_texts(path):
    """The texts that an SVG shows, in order, without their markup."""
    return ["".join(text.itertext()) for text in read_svg(path).iter(SVG + "text")]


def read_svg(path):
    return ElementTree.parse(path).getroot()


def skeleton(root):
    """(everything but numbers, the numbers) of an SVG, in order; texts count as a whole, so that a
    number that is shown has to be the same."""
    words, numbers = [], []
    for element in root.iter():
        words.append(element.tag)
        for name, value in sorted(element.items()):
            words.append(f"{name}={NUMBER.sub('#', value)}")
            numbers += map(float, NUMBER.findall(value))
        words += [(element.text or "").strip(), (element.tail or "").strip()]
    return words, numbers


# ---- drawing ---------------------------------------------------------------------------------

def helper(name):
    path = BUILD / "tests" / "figure" / name
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


def need_gnuplot():
    if not shutil.which("gnuplot"):
        pytest.skip("gnuplot is not installed")


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
