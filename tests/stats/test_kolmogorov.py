# SPDX-License-Identifier: Apache-2.0
"""qk__kolmogorov_p against SciPy and against exact integers; qk__student_quantile against SciPy
and against its definition."""
import math
import os
import pathlib
import subprocess
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build"))


def values(name, cases):
    text = "".join(f"{name} {a!r} {b!r}\n" for a, b in cases)
    result = subprocess.run([BUILD / "tests" / "stats" / "kolmogorov_values"], input=text,
                            capture_output=True, text=True, check=True)
    return np.array([float(line) for line in result.stdout.split()])


def exact_p(n, d):
    """1 - P(i/n - d < U_(i) < (i - 1)/n + d for all i): Steck's determinant in integers, in
    units of 1/n of the binary fraction d."""
    numerator, unit = d.as_integer_ratio()
    one = n * unit
    low = [max(0, i * unit - n * numerator) for i in range(1, n + 1)]
    high = [min(one, i * unit + n * numerator) for i in range(n)]
    inside = [1]
    for k in range(1, n + 1):
        total, width = 0, 0
        for j in range(k, 0, -1):
            width = high[j - 1] - low[k - 1]
            if width <= 0:
                break
            term = math.comb(k, j - 1) * width ** (k - j + 1) * inside[j - 1]
            total += term if (k - j) % 2 == 0 else -term
        inside.append(total)
    return 1 - Fraction(inside[n], one ** n)


def statistics(n, rng, count):
    """Values of d from every region."""
    d = [*rng.random(count), *np.sqrt(rng.uniform(0.05, 8, 2 * count) / n),
         *((1.4 / n) ** (2 / 3) * rng.uniform(0.8, 1.1, count // 2)), 0.4999, 0.5, 0.5001,
         *(j / n for j in (0.5, 0.6, 1, 1.1, 1.5, 2, 2.5, n - 1, n - 0.5))]
    return sorted(float(x) for x in d if 0 < x < 1)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 30, 99, 140, 141, 200, 500, 1023, 1024, 3000,
                               8000, 100000, 100001, 1000000])
def test_as_scipy(n):
    rng = np.random.default_rng(n)
    d = statistics(n, rng, 20 if n < 20000 else 2)
    p = values("ks", [(n, x) for x in d])
    expected = stats.kstwo.sf(d, n)
    assert np.all((0 <= p) & (p <= 1))
    assert np.all(np.diff(p) <= 1e-14)
    # 1 - P(D < d) has about 15 digits after the point, in SciPy and here
    np.testing.assert_allclose(p, expected, rtol=1e-11, atol=2e-14)
    assert np.all((np.abs(p / np.maximum(expected, 1e-300) - 1) < 1e-10) | (expected < 1e-6))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 20, 57, 100, 139, 140])
def test_exact_up_to_140(n):
    d = statistics(n, np.random.default_rng(n), 8)
    p = values("ks", [(n, x) for x in d])
    for x, found in zip(d, p, strict=True):
        exact = float(exact_p(n, x))
        # P(D+ >= d and D- >= d) is left out of the upper tail
        left_out = 2 * math.exp(-8 * n * x * x) if n * x * x > 4 and x < 0.5 else 0
        assert abs(found - exact) <= 1e-12 * exact + 1e-14 + left_out, (n, x, found, exact)


@pytest.mark.parametrize("n", [141, 180])
def test_near_exact_beyond(n):
    d = statistics(n, np.random.default_rng(n), 4)
    p = values("ks", [(n, x) for x in d])
    for x, found in zip(d, p, strict=True):
        exact = float(exact_p(n, x))
        assert abs(found - exact) <= 1e-5 * min(exact, 1 - exact) + 5e-6 * exact, (n, x)


@pytest.mark.parametrize("n", [5, 100, 140, 141, 150, 200, 1000, 8000, 100000, 1000000])
def test_falls_where_methods_meet(n):
    near = np.linspace(-2e-4, 2e-4, 401)
    d = np.unique(np.concatenate([
        np.geomspace(0.3 / n, 0.9999, 500), np.sqrt((2.2 if n > 140 else 4) / n) * (1 + near),
        (1.4 / n) ** (2 / 3) * (1 + near), 0.5 * (1 + near), (1 + near) / n]))
    p = values("ks", [(n, float(x)) for x in d if x < 1])
    assert np.all((0 <= p) & (p <= 1))
    assert np.all(np.diff(p) <= 2e-14)


def test_ends():
    assert list(values("ks", [(9, 0.0), (9, -1.0), (9, 1.0), (9, 2.0)])) == [1, 1, 0, 0]
    assert np.all(np.isnan(values("ks", [(0, 0.1), (9, math.nan)])))
    p = values("ks", [(n, d) for n in (10**9, 2**62) for d in (1e-12, 1e-5, 3e-5, 0.3, 0.7)])
    assert np.all((0 <= p) & (p <= 1))


PROBABILITIES = [0.51, 0.6, 0.7499, 0.75, 0.9, 0.95, 0.975, 0.995, 0.9995, 1 - 1e-9, 1 - 2**-53]


def test_student_as_scipy():
    cases = [(p, float(degrees)) for p in PROBABILITIES
             for degrees in (*range(1, 70), 100, 999, 1000, 1001, 5000)]
    p, degrees = np.array(cases).T
    np.testing.assert_allclose(values("t", cases), stats.t.ppf(p, degrees), rtol=1e-12)


def test_student_by_definition():
    mpmath.mp.dps = 60
    cases = [(p, degrees) for p in (0.5000000001, *PROBABILITIES)
             for degrees in (1.0, 1.3, 2.0, 2.5, 31.0, 77.77, 1500.0)]
    for (p, degrees), t in zip(cases, values("t", cases), strict=True):
        nu, x = mpmath.mpf(degrees), mpmath.mpf(float(t))
        inside = mpmath.betainc(0.5, nu / 2, 0, x * x / (nu + x * x), regularized=True)
        density = mpmath.gamma((nu + 1) / 2) / mpmath.gamma(nu / 2) / mpmath.sqrt(nu * mpmath.pi)
        density *= (1 + x * x / nu) ** (-(nu + 1) / 2)
        error = (inside - (2 * mpmath.mpf(p) - 1)) / (2 * density * x)
        assert abs(error) < 1e-12, (p, degrees, t)


def test_student_outside():
    assert values("t", [(0.5, 3.0)])[0] == 0
    assert np.all(np.isnan(values("t", [(0.4, 3.0), (1.0, 3.0), (0.9, 0.5), (math.nan, 3.0)])))
