# SPDX-License-Identifier: Apache-2.0
"""The notebook that reads results runs from top to bottom."""
import shutil

import pytest

import notebooks

pytest.importorskip("qkscope", reason="the Python package is not in this build")

PATH = notebooks.NOTEBOOKS / "results.ipynb"


def test_results(tmp_path):
    if not shutil.which("gnuplot"):
        pytest.skip("gnuplot draws the figures")
    made = notebooks.execute(PATH, tmp_path, needs=["pandas", "polars", "pyarrow", "matplotlib"])
    shown = notebooks.outputs(made)
    assert notebooks.errors(made) == ""
    assert len(shown["image/png"]) == 2  # of matplotlib
    svg, = shown["image/svg+xml"]
    assert "<svg" in svg
    pages = "".join(shown["text/html"])
    assert "head_metrics" in pages and "position-dominated" in pages and "separation_strength_diff" in pages
    assert all(cell.execution_count for cell in made.cells if cell.cell_type == "code")


def test_it_is_kept_without_outputs():
    for cell in notebooks.read(PATH).cells:
        assert not cell.get("outputs") and not cell.get("execution_count")
    assert not list(PATH.parent.glob("*.csv")) and not list(PATH.parent.glob("*.html"))
