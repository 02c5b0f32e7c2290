# SPDX-License-Identifier: Apache-2.0
"""qk__kolmogorov_p and qk__student_quantile against SciPy; the second against its definition, too."""
import math
import os
import pathlib
import subprocess

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


def statistics(n, rng, count):
    """Values of d from every region."""
    d = [*rng.random(count), *np.sqrt(rng.uniform(0.05, 8, 2 * count) / n),
         *((1.4 / n) ** (2 / 3) * rng.uniform(0.8, 1.1, count // 2)), 0.4999, 0.5, 0.5001,
         *(j / n for j in (0.5, 0.6, 1, 1.1, 1.5, 2, 2.5, n - 1, n - 0.5))]
    return sorted(float(x) for x in d if 0 < x < 1)


@pytest.mark.cases(4)
@pytest.mark.parametrize("n", [1, 5, 140, 141, 8000, 100001])
def test_as_scipy(n):
    rng = np.random.default_rng(n)
    d = statistics(n, rng, 20 if n < 20000 else 1)
    p = values("ks", [(n, x) for x in d])
    expected = stats.kstwo.sf(d, n)
    assert np.all((0 <= p) & (p <= 1))
    assert np.all(np.diff(p) <= 1e-14)
    # 1 - P(D < d) has about 15 digits after the point, in SciPy and here
    np.testing.assert_allclose(p, expected, rtol=1e-11, atol=2e-14)
    assert np.all((np.abs(p / np.maximum(expected, 1e-300) - 1) < 1e-10) | (expected < 1e-6))


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
