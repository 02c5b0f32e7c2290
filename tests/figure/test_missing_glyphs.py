# SPDX-License-Identifier: Apache-2.0
"""Characters that no font here has: pictures show '?' for them, an SVG the characters themselves."""
import os

import pytest

from figure_files import draw_texts, needs_gnuplot, svg_texts

MISSING = "\U000f1234"  # of a private plane: no font has it

pytestmark = needs_gnuplot


@pytest.mark.parametrize("role", ["title", "label", "tic", "legend"])
def test_a_picture_shows_question_marks(tmp_path, role):
    for name, text in [("missing", f"a{MISSING}b{MISSING}"), ("question", "a?b?")]:
        assert draw_texts(tmp_path / name, [text], role=role).code == 0
    pictures = [(tmp_path / name / "sample.png").read_bytes() for name in ["missing", "question"]]
    assert pictures[0] == pictures[1]
    assert f"a{MISSING}b{MISSING}" in svg_texts(tmp_path / "missing" / "sample.svg")


def test_common_characters_need_no_variable(tmp_path):
    assert draw_texts(tmp_path, ["naïve Ωмега – ‘q’"], role="title").code == 0
    assert "text1" not in (tmp_path / "sample.gp").read_text()


def test_without_fontconfig(tmp_path):
    """It is loaded when a character asks for it. Then nothing is known of the fonts, and the picture is drawn all the same."""
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "libfontconfig.so.1").write_text("no library")
    gnuplot = tmp_path / "bin" / "gnuplot"
    gnuplot.parent.mkdir()
    gnuplot.write_text('#!/bin/sh\nunset LD_LIBRARY_PATH\nPATH=${PATH#*:} exec gnuplot "$@"\n')
    gnuplot.chmod(0o755)
    path = f"{gnuplot.parent}:{os.environ['PATH']}"
    for name, env in [("with", {}), ("without", {"LD_LIBRARY_PATH": tmp_path / "bad"})]:
        drawn = draw_texts(tmp_path / name, ["a∀b"], role="title", env={"PATH": path, **env})
        assert drawn.code == 0, drawn.err
        assert ("a?b" in (tmp_path / name / "sample.gp").read_text()) == (name == "without")
