# SPDX-License-Identifier: Apache-2.0
"""What the analyses say when they are done: heads by category, means by depth, on colours where
standard output is a terminal that has them."""
import json
import math
import re
from collections import Counter

import pytest

from conftest import EXAMPLE, on_terminal, read_csv

CAPTURE = [EXAMPLE, "--heads", "0,1"]  # in five layers
CELL = re.compile(r"\x1b\[([0-9;]+)m( *-?[0-9.]+) \x1b\[0m")
TRUE_COLOR = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": None}
COLORS_256 = {"TERM": "screen-256color", "COLORTERM": None, "NO_COLOR": None}
WITHOUT_COLOR = {"NO_COLOR": {**TRUE_COLOR, "NO_COLOR": "1"}, "dumb": {**TRUE_COLOR, "TERM": "dumb"},
                 "no TERM": {**TRUE_COLOR, "TERM": None}, "16 colours": {**COLORS_256, "TERM": "xterm"}}


def by_depth(rows, column, magnitude=False):
    """Means in tenths of the depth, None where there is no head."""
    last = max(r["layer"] for r in rows)
    bins = [[] for _ in range(10)]
    for row in rows:
        value = row[column]
        bins[min(9, 10 * row["layer"] // last)].append(abs(value) if magnitude else value)
    return [math.fsum(b) / len(b) if b else None for b in bins]


def shown(means):
    return ["-" if m is None else f"{m:.2f}" for m in means]


def strip_of(text, label):
    line = next(line for line in text.splitlines() if line.startswith(f"  {label} "))
    return line[len(label) + 2:].split()


@pytest.fixture(scope="module")
def tables(qkscope, tmp_path_factory):
    out = tmp_path_factory.mktemp("tables")
    qkscope("analyze", *CAPTURE, "-o", out, expect=0)
    return {name: read_csv(out / f"{name}.csv")
            for name in ("qk", "heads", "rotated", "head_metrics")}


def first_components(tables):
    return [r for r in tables["qk"] if r["pc"] == 0]


def test_plain_text_has_the_means_in_short_rows(qkscope, tables, tmp_path):
    out = qkscope("pca", *CAPTURE, "-o", tmp_path, expect=0).out
    assert "\x1b" not in out
    assert strip_of(out, "depth, %") == [str(p) for p in range(0, 100, 10)]
    assert strip_of(out, "mean r_q") == shown(by_depth(first_components(tables), "r_q"))
    assert strip_of(out, "mean |r_k|") == shown(by_depth(first_components(tables), "r_k", True))
    counts = Counter(r["category"] for r in tables["heads"])
    for category in ("position-dominated", "content-focused", "mixed"):
        share = 100 * counts[category] / len(tables["heads"])
        keys = len({(r["layer"], r["k_head"]) for r in tables["heads"] if r["category"] == category})
        assert strip_of(out, category) == [str(counts[category]), f"{share:.1f}", "%", "with", str(keys), "key", "head" + "s" * (keys != 1)]
    lines = [line for line in out.splitlines() if str(tmp_path) not in line]  # names of the folder may be long
    assert max(map(len, lines)) <= 80
    assert not any(line.endswith(" ") for line in lines)


def test_rotate_and_plasticity_have_rows_of_their_own(qkscope, tables, tmp_path):
    out = qkscope("rotate", *CAPTURE, "-o", tmp_path, expect=0).out
    assert strip_of(out, "mean |r_q|") == shown(by_depth(tables["rotated"], "r_q_a", True))
    assert strip_of(out, "mean |r_k|") == shown(by_depth(tables["rotated"], "r_k_a", True))
    out = qkscope("plasticity", *CAPTURE, "-o", tmp_path, expect=0).out
    rows = [line.split()[1:] for line in out.splitlines() if line.startswith("  plasticity ")]
    assert rows[-1] == shown(by_depth(tables["head_metrics"], "ap_overall"))


@pytest.mark.parametrize("env", [COLORS_256, TRUE_COLOR], ids=["256", "24-bit"])
def test_cells_are_coloured_on_a_terminal(program, tables, tmp_path, env):
    out = on_terminal([program, "analyze", *CAPTURE, "-o", tmp_path], "stdout", env)
    q, k = [line for line in out.splitlines() if line.startswith(("  mean r_", "  mean |r_k|  "))]
    for line, column, darkest in ((q, "r_q", 2), (k, "r_k", 0)):
        cells = CELL.findall(line)
        means = [m for m in by_depth(first_components(tables), column) if m is not None]
        assert [c[1].strip() for c in cells] == shown(means)
        if env is TRUE_COLOR:
            colors = [list(map(int, c[0].split(";")))[2:5] for c in cells]
            assert all(c[0].startswith("48;2;") and ";38;2;" in c[0] for c in cells)
            # Blues and Reds: the larger the mean, the darker
            sums = [sum(c) for _, c in sorted(zip(means, colors))]
            assert sums == sorted(sums, reverse=True)
            assert all(max(c) == c[darkest] for c in colors)
        else:
            assert all(re.fullmatch(r"48;5;\d+;38;5;(16|231)", c[0]) for c in cells)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    lines = [line for line in plain.splitlines() if str(tmp_path) not in line]  # names of the folder may be long
    assert max(map(len, lines)) <= 80
    assert strip_of(plain, "mean r_q") == shown(by_depth(first_components(tables), "r_q"))


@pytest.mark.parametrize("why", WITHOUT_COLOR)
def test_no_colours_where_they_are_not_wanted(program, tmp_path, why):
    out = on_terminal([program, "pca", EXAMPLE, "-o", tmp_path, "--heads", "0"], "stdout", WITHOUT_COLOR[why])
    assert "\x1b" not in out and "mean r_q" in out


def test_quiet_and_json(program, tables, tmp_path):
    assert on_terminal([program, "analyze", *CAPTURE, "-o", tmp_path, "--quiet"], "stdout",
                       TRUE_COLOR) == ""
    said = json.loads(on_terminal([program, "analyze", *CAPTURE, "-o", tmp_path, "--json"], "stdout",
                                  TRUE_COLOR))
    means = by_depth(first_components(tables), "r_q")
    for value, mean in zip(said["mean_r_q_by_depth"], means, strict=True):
        assert value == (None if mean is None else pytest.approx(mean, rel=1e-12))
    for name, size in (("mean_r_k_by_depth", False), ("mean_abs_r_k_by_depth", True)):
        for value, mean in zip(said[name], by_depth(first_components(tables), "r_k", size), strict=True):
            assert value == (None if mean is None else pytest.approx(mean, rel=1e-12))


def test_kinds_fitted_apart_have_no_depths(qkscope, tmp_path):
    out = qkscope("pca", *CAPTURE, "-o", tmp_path, "--kinds", "q", expect=0).out
    assert "depth" not in out
