/* SPDX-License-Identifier: Apache-2.0 */
/* Bisection and inverse iteration (Barth, Martin and Wilkinson, 1967; Peters and Wilkinson,
 * 1971).
 *
 * The wanted eigenvectors are few, so each is made orthogonal to all before it, not only to
 * those of close eigenvalues: no clusters to find, and none to miss. */
#include "stats/tridiagonal.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "base/rng.h"

/* ---- values ----------------------------------------------------------------------------- */

typedef struct interval {
    double lo, hi; /* of one eigenvalue */
} interval;

/* Where all eigenvalues lie (Gershgorin), and a little more. */
static interval all_values(const qk__tridiagonal *t)
{
    interval all = {INFINITY, -INFINITY};
    for (size_t i = 0; i < t->n; i++) {
        double radius = fabs(t->off[i]) + (i > 0 ? fabs(t->off[i - 1]) : 0);
        all.lo = fmin(all.lo, t->diagonal[i] - radius);
        all.hi = fmax(all.hi, t->diagonal[i] + radius);
    }
    double margin = 4 * (double)t->n * DBL_EPSILON * fmax(fabs(all.lo), fabs(all.hi)) + DBL_MIN;
    return (interval){all.lo - margin, all.hi + margin};
}

/* Narrows to the part of `at` between two neighbouring points that holds the eigenvalue with
 * `rank` smaller ones. */
static void narrow(interval *at, size_t rank, const double *x, const double *below, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (below[i] <= (double)rank)
            at->lo = fmax(at->lo, x[i]);
        else
            at->hi = fmin(at->hi, x[i]);
    }
}

/* Halving has come to its end. */
static bool is_narrow(const interval *at)
{
    double middle = at->lo + (at->hi - at->lo) / 2;
    return at->hi - at->lo <= DBL_EPSILON * fmax(fabs(at->lo), fabs(at->hi)) + DBL_MIN ||
           middle <= at->lo || middle >= at->hi;
}

/* Up to STURM_POINTS eigenvalues side by side, each with its share of the points. */
static void find_values(const qk__tridiagonal *t, const qk__matrix_kernel *kernel,
                        const double *off_squared, interval all, size_t first, size_t count,
                        double *values)
{
    interval at[STURM_POINTS];
    double x[STURM_POINTS] = {0}, below[STURM_POINTS];
    size_t points = STURM_POINTS / count; /* cppcheck-suppress zerodiv; count is 1 or more */
    bool done = false;
    for (size_t i = 0; i < count; i++)
        at[i] = all;
    while (!done) {
        for (size_t i = 0; i < count; i++)
            for (size_t p = 0; p < points; p++)
                x[i * points + p] =
                    at[i].lo + (at[i].hi - at[i].lo) * ((double)(p + 1) / (double)(points + 1));
        kernel->sturm(t->diagonal, off_squared, t->n, x, below);
        done = true;
        for (size_t i = 0; i < count; i++) {
            narrow(&at[i], t->n - 1 - first - i, x + i * points, below + i * points, points);
            done &= is_narrow(&at[i]);
        }
    }
    for (size_t i = 0; i < count; i++)
        values[i] = at[i].lo + (at[i].hi - at[i].lo) / 2;
}

void qk__tridiagonal_values(const qk__tridiagonal *t, const qk__matrix_kernel *kernel,
                            size_t count, double *values, double *scratch)
{
    for (size_t i = 0; i < t->n; i++)
        scratch[i] = fmax(t->off[i] * t->off[i], DBL_MIN);
    interval all = all_values(t);
    for (size_t i = 0; i < count; i += STURM_POINTS) {
        size_t some = count - i < STURM_POINTS ? count - i : STURM_POINTS;
        find_values(t, kernel, scratch, all, i, some, values + i);
    }
    /* Each was found by itself; rounding may have crossed two that are equal. */
    for (size_t i = 1; i < count; i++)
        values[i] = fmin(values[i], values[i - 1]);
}

/* ---- vectors ---------------------------------------------------------------------------- */

/* Below this a pivot is what rounding leaves of zero, entries being of order 1. */
static const double TINY = DBL_EPSILON;

/* T - shift I = P L U with rows exchanged where the entry below the pivot is larger. */
typedef struct factors {
    double *inverse, *above, *above2; /* U, its pivots inverted */
    double *multiplier;               /* L */
    double *exchanged;                /* 1 where row i and i+1 were */
} factors;

static double no_zero(double pivot)
{
    return fabs(pivot) < TINY ? copysign(TINY, pivot) : pivot;
}

static void factorise(const qk__tridiagonal *t, double shift, factors *f)
{
    double pivot = t->diagonal[0] - shift, above = t->off[0];
    for (size_t i = 0; i < t->n; i++) {
        double below = t->off[i], next = i + 1 < t->n ? t->diagonal[i + 1] - shift : 0;
        double next_above = i + 1 < t->n ? t->off[i + 1] : 0;
        f->exchanged[i] = fabs(below) > fabs(pivot);
        if (f->exchanged[i] != 0) {
            f->multiplier[i] = pivot / below;
            f->inverse[i] = 1 / no_zero(below);
            f->above[i] = next;
            f->above2[i] = next_above;
            pivot = above - f->multiplier[i] * next;
            above = -f->multiplier[i] * next_above;
        } else {
            f->inverse[i] = 1 / no_zero(pivot);
            f->multiplier[i] = below * f->inverse[i];
            f->above[i] = above;
            f->above2[i] = 0;
            pivot = next - f->multiplier[i] * above;
            above = next_above;
        }
    }
}

static void solve(const factors *f, size_t n, double *x)
{
    for (size_t i = 0; i + 1 < n; i++) {
        double here = x[i], below = x[i + 1];
        bool exchanged = f->exchanged[i] != 0;
        x[i] = exchanged ? below : here;
        x[i + 1] = (exchanged ? here : below) - f->multiplier[i] * x[i];
    }
    double above = 0, above2 = 0;
    for (size_t i = n; i-- > 0;) {
        x[i] = (x[i] - f->above2[i] * above2 - f->above[i] * above) * f->inverse[i];
        above2 = above;
        above = x[i];
    }
}

static void normalise(const qk__matrix_kernel *kernel, double *x, size_t n)
{
    double length = sqrt(kernel->dot(x, x, n));
    for (size_t i = 0; i < n; i++)
        x[i] /= length;
}

/* Twice, since what rounding leaves of a large part is not small. */
static void orthogonalise(const qk__matrix_kernel *kernel, double *x, size_t n,
                          const double *others, size_t count, size_t ld)
{
    for (int twice = 0; twice < 2; twice++) {
        for (size_t j = 0; j < count; j++)
            kernel->add(-kernel->dot(x, others + j * ld, n), others + j * ld, x, n);
        normalise(kernel, x, n);
    }
}

void qk__tridiagonal_vectors(const qk__tridiagonal *t, const qk__matrix_kernel *kernel,
                             size_t count, const double *values, double *vectors, size_t ld,
                             double *scratch)
{
    enum { ROUNDS = 2 }; /* one finds the vector, the other its last digits */
    const size_t n = t->n;
    factors f = {scratch, scratch + n, scratch + 2 * n, scratch + 3 * n, scratch + 4 * n};
    qk__rng random;
    qk__rng_init(&random, n, NULL, 0);
    double shift = INFINITY;
    for (size_t i = 0; i < count; i++) {
        double *x = vectors + i * ld;
        for (size_t j = 0; j < n; j++)
            x[j] = qk__rng_uniform(&random) - 0.5;
        /* From the same shift as before, rounding would prefer the vector that is found. */
        shift = fmin(values[i], shift - 8 * DBL_EPSILON);
        factorise(t, shift, &f);
        for (int round = 0; round < ROUNDS; round++) {
            orthogonalise(kernel, x, n, vectors, i, ld);
            solve(&f, n, x);
            normalise(kernel, x, n);
        }
        orthogonalise(kernel, x, n, vectors, i, ld);
    }
}
