# SPDX-License-Identifier: Apache-2.0
"""A program that set a locale with a decimal comma gets the same tables, figures and pages."""
import os
import subprocess
import sys

import pytest

from conftest import BUILD, EXAMPLE

pytest.importorskip("qkscope", reason="the Python package is not in this build")

MADE = """
import locale, sys
import qkscope
locale.setlocale(locale.LC_ALL, "")
assert locale.localeconv()["decimal_point"] == sys.argv[3]
results = qkscope.analyze(sys.argv[1], layers="0", ci=95, taxonomy_low=0.25, progress=False)
results.save("saved")
results.figure("pca-02-rq-rk-scatter").save("points.svg")
qkscope.Results.read(sys.argv[2]).report("page.html", progress=False)
"""


def test_decimal_comma(qkscope, comma_locale, tmp_path):
    results, made = tmp_path / "results", []
    qkscope("analyze", EXAMPLE, "-o", results, "--ci", 95, expect=0)
    qkscope("scatter", EXAMPLE, "-o", results / "figures", "--name", "pca-06-collage-a", "--collage", "2x2", expect=0)
    for point, locale in ((".", {"LC_ALL": "C"}), (",", comma_locale)):
        folder = tmp_path / point.replace(".", "point")
        folder.mkdir()
        subprocess.run([sys.executable, "-c", MADE, EXAMPLE, results, point], cwd=folder, check=True, timeout=300,
                       env={**os.environ, "PYTHONPATH": str(BUILD / "python"), **locale})
        made.append({path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*"))
                     if path.suffix in (".csv", ".svg", ".html")})
    assert len(made[0]) > 10 and list(made[0]) == list(made[1])
    for name, data in made[0].items():
        assert made[1][name] == data, name
