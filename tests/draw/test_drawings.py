# SPDX-License-Identifier: Apache-2.0
"""A drawing is XML that any reader takes, the same bytes in any locale, without a name that could meet another's."""
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from conftest import BUILD

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ['a"><script>alert(1)</script>', "]]> <!-- & &amp; &#0;", "日本語 ünï 🙂 e\u0301", "x\ny\x01z", "x" * 3000, "<i>a</i><sub>b</sub>"]


def marks(*arguments, **env):
    return subprocess.run([BUILD / "tests" / "draw" / "draw_marks", *arguments], check=True, capture_output=True, timeout=60, env=os.environ | env).stdout


@pytest.mark.cases(6)
@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_is_shown_as_it_is(text):
    svg = marks(text)
    root = ElementTree.fromstring(svg)
    shown = ["".join(part.itertext()) for part in root.iter(SVG + "text")]
    clean = re.sub("[\x00-\x1f]", " ", text)
    assert clean * 2 in shown  # as its tooltip, too
    assert not re.search(rb"<script|\bid=|\bon\w+=|url\(", svg)


def test_colours_are_fixed_in_a_file_and_follow_the_page():
    file, page = marks("a").decode(), marks("a", "page").decode()
    assert "var(" not in file and 'width="85mm"' in file
    assert 'aria-label="a"' in page and "var(--fig-ink)" in page and "var(--fig-bg)" in page
    assert "#1f2328" in file and "#1f2328" not in page
    assert not re.search("[\x01-\x09]", file + page)


def test_no_locale_changes_a_byte(comma_locale):
    assert b"<svg" in marks("a")  # the program fails where it was given a locale and has no decimal comma
    assert marks("a") == marks("a", **comma_locale)


@pytest.mark.skipif(not shutil.which("rsvg-convert"), reason="rsvg-convert is not installed")
def test_a_program_for_svg_takes_it(tmp_path):
    (tmp_path / "a.svg").write_bytes(marks("ünï"))
    done = subprocess.run(["rsvg-convert", "-o", tmp_path / "a.png", tmp_path / "a.svg"], capture_output=True, timeout=60)
    assert done.returncode == 0 and not done.stderr
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
