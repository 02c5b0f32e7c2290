# SPDX-License-Identifier: Apache-2.0
"""The notebook that reads results runs from top to bottom."""
import shutil

import pytest

import notebooks

pytestmark = pytest.mark.test_all
pytest.importorskip("qkscope", reason="the Python package is not in this build")

PATH = notebooks.NOTEBOOKS / "results.ipynb"


def test_results(tmp_path):
    if not shutil.which("rsvg-convert"):
        pytest.skip("rsvg-convert makes PNG and PDF")
    made = notebooks.execute(PATH, tmp_path, needs=["pandas", "polars", "pyarrow", "matplotlib"])
    shown = notebooks.outputs(made)
    assert notebooks.errors(made) == ""
    assert len(shown["image/png"]) == 2  # of matplotlib
    svg, = shown["image/svg+xml"]
    assert "<svg" in svg
    pages = "".join(shown["text/html"])
    assert "head_metrics" in pages and "position-dominated" in pages and "separation_strength_diff" in pages
    assert all(cell.execution_count for cell in made.cells if cell.cell_type == "code")
    for cell, kept in zip(made.cells, notebooks.read(PATH).cells, strict=True):  # stored with what it prints
        assert notebooks.told(cell) == notebooks.told(kept), cell.source


def test_nothing_of_a_machine_is_kept():
    text = PATH.read_text()
    assert not notebooks.errors(notebooks.read(PATH)) and "/root" not in text and "/home" not in text and "/tmp/tmp" not in text
    assert not list(PATH.parent.glob("*.csv")) and not list(PATH.parent.glob("*.html"))
