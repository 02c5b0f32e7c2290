#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/stats/normal_table.h: the coefficients with which the pair kernels form the normal
distribution. Needs mpmath.

    python3 tools/normal_coefficients.py > src/stats/normal_table.h

exp(z^2 / 2) erfc(z / sqrt 2) on [0, 37] is a ratio of polynomials that interpolates it in nodes
which are moved until the relative error has the same size between all of them (the minimax
property); all coefficients are positive, so that nothing cancels. exp(-s / 2) on
[-ln 2, ln 2] is a Chebyshev fit.
"""
from mpmath import chebyfit, cos, erfc, exp, fabs, log, lu_solve, matrix, mp, mpf, pi, sqrt

mp.dps = 60
TOP = mpf(37)  # beyond it 4 p (1 - p) is below 1e-298 and counts as zero
ABOVE, BELOW = 8, 9  # degrees of numerator and denominator
EXP_DEGREE = 10
MIDDLE = mpf(3)  # z = MIDDLE (1 + t) / (1 - t): nodes are laid out in t


def scaled_tail(z):
    return exp(z * z / 2) * erfc(z / sqrt(mpf(2)))


def from_t(t):
    return MIDDLE * (1 + t) / (1 - t)


def horner(coefficients, x):
    value = mpf(0)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def interpolate(nodes):
    size = ABOVE + BELOW + 1
    system, right = matrix(size, size), matrix(size, 1)
    for i, z in enumerate(nodes):
        y = scaled_tail(z)
        for k in range(ABOVE + 1):
            system[i, k] = z**k
        for k in range(1, BELOW + 1):
            system[i, ABOVE + k] = -y * z**k
        right[i] = y
    x = lu_solve(system, right)
    return list(x[:ABOVE + 1]), [mpf(1)] + list(x[ABOVE + 1:])


def fit_ratio():
    size = ABOVE + BELOW + 1
    low, high = mpf(-1), (TOP - MIDDLE) / (TOP + MIDDLE)
    nodes = [(low + high) / 2 - (high - low) / 2 * cos(pi * (2 * i + 1) / (2 * size))
             for i in range(size)]
    while True:
        p, q = interpolate([from_t(t) for t in nodes])
        ends = [low] + nodes + [high]
        peaks = []
        for a, b in zip(ends, ends[1:]):
            grid = [from_t(a + (b - a) * k / 16) for k in range(17)]
            peaks.append(max(fabs(horner(p, z) / horner(q, z) / scaled_tail(z) - 1)
                             for z in grid))
        if max(peaks) < mpf("1.05") * min(peaks):
            return p, q, max(peaks)
        gaps = [(b - a) * (peak / max(peaks)) ** (mpf("-1.5") / size)
                for a, b, peak in zip(ends, ends[1:], peaks)]
        at, stretch, nodes = low, (high - low) / sum(gaps), []
        for gap in gaps[:-1]:
            at += gap * stretch
            nodes.append(at)


def row(value):
    return f"    {float(value).hex()}, /* {mp.nstr(value, 17)} */ \\"


def table(name, values):
    print(f"#define {name} \\")
    for value in values[:-1]:
        print(row(value))
    print(f"    {float(values[-1]).hex()} /* {mp.nstr(values[-1], 17)} */")


p, q, error = fit_ratio()
e, exp_error = chebyfit(lambda s: exp(-s / 2), [-log(2), log(2)], EXP_DEGREE + 1, error=True)
assert min(p) > 0 and min(q) > 0
ln2 = mpf(float(2 * log(2)))
print("/* SPDX-License-Identifier: Apache-2.0 */")
print("/* Coefficients of the normal distribution, written by tools/normal_coefficients.py. By falling")
print(" * degree, of")
print(f" *   exp(z^2 / 2) erfc(z / sqrt 2) = TAIL_P(z) / TAIL_Q(z), relative error"
      f" {mp.nstr(error, 2)}, 0 <= z <= {int(TOP)}")
print(f" *   exp(-s / 2) = EXP_HALF(s), error {mp.nstr(exp_error, 2)}, |s| <= ln 2 */")
print("#ifndef QK_STATS_NORMAL_TABLE_H")
print("#define QK_STATS_NORMAL_TABLE_H\n")
print(f"#define NORMAL_TOP {float(TOP)}")
print(f"#define MINUS_HALF_LOG2_E {float(-1 / (2 * log(2))).hex()}")
print(f"#define TWO_LN2_HIGH {float(ln2).hex()} /* 2 ln 2 in two parts */")
print(f"#define TWO_LN2_LOW {float(2 * log(2) - ln2).hex()}\n")
table("TAIL_P", list(reversed(p)))
print()
table("TAIL_Q", list(reversed(q)))
print()
table("EXP_HALF", list(e))
print("\n#endif")
