# SPDX-License-Identifier: Apache-2.0
"""qk__kolmogorov_p and qk__student_quantile against SciPy; the second against its definition, too."""
import math
import os
import pathlib
import subprocess

import mpmath
import numpy as np
from scipy import stats

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build"))


def values(name, cases):
    text = "".join(f"{name} {a!r} {b!r}\n" for a, b in cases)
    result = subprocess.run([BUILD / "tests" / "stats" / "kolmogorov_values"], input=text,
                            capture_output=True, text=True, check=True)
    return np.array([float(line) for line in result.stdout.split()])


def test_as_scipy():
    """The limit of many values, on both sides of where its two series meet."""
    cases = [(n, float(x) / math.sqrt(n)) for n in (1, 140, 8000, 2**62) for x in (*np.linspace(0.02, 6, 300), 0.9999999, 1.0, 18.0)]
    n, d = np.array(cases).T
    p, expected = values("ks", cases), stats.kstwobign.sf(np.sqrt(n) * d)
    assert np.all((0 <= p) & (p <= 1))
    np.testing.assert_allclose(p, expected, rtol=1e-12, atol=0)


def test_ends():
    assert list(values("ks", [(9, 0.0), (9, -1.0)])) == [1, 1]
    assert np.all(np.isnan(values("ks", [(0, 0.1), (-1, 0.1), (9, math.nan)])))


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
