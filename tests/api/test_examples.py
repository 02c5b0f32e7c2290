# SPDX-License-Identifier: Apache-2.0
"""Programs of examples/ and of the headers build against an installed copy through pkg-config alone, and run."""
import os
import re
import subprocess

import pytest
from conftest import read_csv, read_json
from test_api import BUILD, ROOT, output

pytestmark = pytest.mark.test_all
CATEGORIES = {"position-dominated", "Q-positional", "K-positional", "content-focused", "mixed"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    if b"b_sanitize" in (BUILD / "meson-private" / "cmd_line.txt").read_bytes():
        pytest.skip("an instrumented library is not installed")
    destination = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir",
                    destination], check=True, capture_output=True)
    return destination


def compiled(destination, package, source, program, *more):
    """A program that pkg-config tells where headers and library are."""
    library = next(destination.rglob(f"lib{package}.so")).parent
    env = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(destination),
           "PKG_CONFIG_PATH": str(library / "pkgconfig")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", package], check=True, env=env,
                           capture_output=True, text=True).stdout.split()
    flags = [f"-L{library}" if flag.startswith("-L") else flag for flag in flags]
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", source, "-o", program, *flags, *more,
                    f"-Wl,-rpath,{library}"], check=True)
    return program


def test_example_builds_against_an_installed_copy(installed, tmp_path):
    program = compiled(installed, "qkscope-core", ROOT / "examples" / "head_drift.c", tmp_path / "head_drift")
    lines = output(program, ROOT / "examples" / "kjv-tiny-capture").splitlines()
    assert len(lines) == 1 + 20
    layer, head, r_q, r_k = lines[1].split()
    assert (layer, head) == ("0", "0") and 0 <= float(r_q) <= 1 and -1 <= float(r_k) <= 1


@pytest.mark.parametrize("keep", ["rows,moments", "moments", "moments,reservoir=4"])
def test_example_of_a_sink_makes_a_capture(installed, qkscope, tmp_path, keep):
    program = compiled(installed, "qkscope-core", ROOT / "examples" / "sink.c", tmp_path / "sink", "-lm")
    said = output(program, tmp_path / "capture", keep)
    heads, rows, summed = re.fullmatch(r"(\d+) heads, (\d+) rows, (\d+) of them summed\n", said).groups()
    assert heads == "12" and 12 * 6 * 250 < int(summed) < 12 * 6 * 350
    assert int(rows) == (int(summed) if "rows" in keep else 12 * 6 * 7 * 4 if "reservoir" in keep else 0)
    qkscope("analyze", tmp_path / "capture", "-o", tmp_path / "out", expect=0)
    first = [row for row in read_csv(tmp_path / "out" / "qk.csv") if row["pc"] == 0]
    assert len(first) == 8  # queries drift one way, keys the other
    assert all(row["r_q"] > 0.1 and row["r_k"] < -0.1 or row["r_q"] < -0.1 and row["r_k"] > 0.1 for row in first)
    frequencies = read_json(tmp_path / "capture" / "capture.json")["rope_frequencies"]["1"]
    assert frequencies == [10000 ** (-j / 8) for j in range(8)]
    assert output(program, tmp_path / "capture", keep) == said  # it is there


def test_the_umbrella_header_teaches_with_a_program_that_runs(installed, tmp_path):
    """The example at its top, word by word."""
    text = (ROOT / "include/qkscope/qkscope.h").read_text()
    example = re.findall(r"^ \*     (.*)$", text.split("The headers, in the order")[0], re.M)
    assert 10 <= len(example) <= 15
    source = tmp_path / "example.c"
    source.write_text("#include <stdio.h>\n#include <qkscope/qkscope.h>\nint main(void)\n{\n"
                      + "\n".join(example) + "\nreturn 0;\n}\n")
    lines = output(compiled(installed, "qkscope", source, tmp_path / "example")).splitlines()
    assert len(lines) == 20 and set(lines) <= CATEGORIES
