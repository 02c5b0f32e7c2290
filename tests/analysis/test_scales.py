# SPDX-License-Identifier: Apache-2.0
"""Vectors times a power of two give the same numbers, scaled, or an error of the head: never
others. Powers of two change no digit, so this needs no tolerance of rounding."""
import math

import pytest
from conftest import EXAMPLE, read_csv, read_rows, write_rows

pytest.importorskip("pyarrow")
HEADS = ("l01h00q", "l01h01q", "l01h00k")


@pytest.fixture(scope="module")
def analyse(qkscope, tmp_path_factory):
    def run(exponent):
        root = tmp_path_factory.mktemp("scaled")
        for name in HEADS:
            rows = read_rows(EXAMPLE, name)
            rows["vector"] = rows["vector"] * math.ldexp(1, exponent)
            write_rows(root / "c", name, rows)
        return qkscope("analyze", root / "c", "-o", root / "o", "--complement", "--lda", "--ci",
                       "95"), root / "o"
    return run


@pytest.fixture(scope="module")
def unscaled(analyse):
    result, out = analyse(0)
    assert result.code == 0
    return {path.name: read_csv(path) for path in out.glob("*.csv")}


def is_scaled(value, expected, exponent):
    """As it was, or times the factor (a mean), or its square (a bias)."""
    if value == expected or value is None or expected is None or isinstance(value, str):
        return value == expected
    return any(abs(math.ldexp(value, -power * exponent) - expected) <= 1e-9 * abs(expected)
               for power in (0, 1, 2) if abs(power * exponent) < 1000)


@pytest.mark.parametrize("exponent", [480, 100, -100, -480])
def test_scaled(analyse, unscaled, exponent):
    result, out = analyse(exponent)
    assert result.code == 0, result.err
    for name, expected in unscaled.items():
        rows = read_csv(out / name)
        assert len(rows) == len(expected)
        for row, want in zip(rows, expected):
            bad = {c: (row[c], want[c]) for c in row if not is_scaled(row[c], want[c], exponent)}
            assert not bad, (name, bad)


@pytest.mark.cases(5)
@pytest.mark.parametrize("exponent, words", [
    (490, "too large to square"), (1015, "too large to s"), (-490, "too little to square"), (-530, "too little to square"),
    (-1000, "too little to square")])
def test_refused(analyse, exponent, words):
    """1e-160 is 2^-531: its squares are there, but without digits."""
    result, out = analyse(exponent)
    assert result.code == 1 and not out.exists()
    for name in HEADS:
        assert name in result.err
    assert words in result.err and "column 'vector'" in result.err
