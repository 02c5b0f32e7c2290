# SPDX-License-Identifier: Apache-2.0
"""qk__numpy_choice against NumPy's default generator."""
import os
import pathlib
import subprocess

import pytest

np = pytest.importorskip("numpy")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build"))


def draw(cases):
    text = "".join(f"{seed} {n} {k}\n" for seed, n, k in cases)
    result = subprocess.run([BUILD / "tests" / "base" / "numpy_choice"], input=text,
                            capture_output=True, text=True, check=True)
    return [[int(x) for x in line.split()] for line in result.stdout.splitlines()]


def test_choices():
    """Few of few, few of many (Floyd's sampling), many of many (a shuffle), and their borders."""
    rng = np.random.default_rng(1)
    cases = [(0, 1, 1), (0, 2, 1), (5, 10000, 9999), (5, 10001, 200), (5, 10001, 201), (0, 3, 9),
             (1, 10001, 10000), (7, 10050, 201), (7, 10050, 202), (3, 127, 64), (3, 63, 64)]
    for _ in range(400):
        seed = int(rng.choice([0, 1, 42, 2**32 - 1, 2**32, 2**63 - 1, rng.integers(2**31)]))
        n = int(rng.integers(1, 40000))
        cases.append((seed, n, int(rng.integers(1, n + 1))))
    for numbers, (seed, n, k) in zip(draw(cases), cases, strict=True):
        want = np.random.default_rng(seed).choice(n, min(k, n), replace=False)
        assert numbers == sorted(want.tolist()), (seed, n, k)


def test_rejected_draws():
    """Ranges so wide that a draw in some hundred is thrown away."""
    n = 30_000_000
    for seed in range(3):
        numbers, = draw([(seed, n, 1000)])
        assert numbers == sorted(
            np.random.default_rng(seed).choice(n, 1000, replace=False).tolist())
