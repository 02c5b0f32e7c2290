# SPDX-License-Identifier: Apache-2.0
"""What docs/python.md shows of analyses and results runs, in the order of the page."""
import builtins
import re
import shutil

import pytest

from conftest import EXAMPLE, ROOT

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
SECTIONS = ["In ten lines", "Analyses", "Running a model", "Files for other programs", "Results", "Tables",
            "Comparing two results", "Figures and reports in notebooks", "Progress, warnings, Ctrl-C", "Errors"]


def blocks(section):
    text = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


@pytest.mark.test_all
@pytest.mark.filterwarnings("ignore::qkscope.QkscopeWarning")
def test_the_page_runs(tmp_path, monkeypatch, capsys):
    for package in ("pandas", "polars", "pyarrow", "duckdb", "numpy"):
        pytest.importorskip(package)
    if not shutil.which("rsvg-convert"):
        pytest.skip("rsvg-convert makes PNG and PDF")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(EXAMPLE.parent)
    names = {}
    for section in SECTIONS:
        assert blocks(section), section
        for i, block in enumerate(blocks(section)):
            exec(compile(block, f"{section} {i}", "exec"), names)
    said = capsys.readouterr().out
    assert "<Results of kjv-tiny step-2004: 12 heads; qk, heads, repeats, rotated, " in said
    assert "ci=0.95: is a percentage; did you mean 95?\n" in said and "stopped\n" in said
    assert (tmp_path / "scatter.pdf").is_file() and (tmp_path / "results" / "heads.csv").is_file()
    assert len(names["table"]["r_q_diff_lo"]) == len(names["table"])


def test_tables_of_the_page():
    """The exceptions and functions that the page lists are those that there are."""
    listed = dict(re.findall(r"^\| `(\w+)` \| (?:`(\w+)`)? ?\|", PAGE, re.M))
    classes = {name: getattr(qk, name) for name in qk.__all__ if isinstance(getattr(qk, name), type)}
    errors = {name for name, one in classes.items() if issubclass(one, qk.Error)}
    assert set(listed) == errors - {"Error"}
    for name, base in listed.items():
        assert not base or issubclass(getattr(qk, name), getattr(builtins, base))
    assert {"analyze", "pca", "rotate", "plasticity", "compare_stages", "study", "compare"} <= set(
        re.findall(r"^\| `(\w+)\(", PAGE, re.M))
