/* SPDX-License-Identifier: Apache-2.0 */
/* Leading eigenpairs of a symmetric matrix: Householder's reduction to a tridiagonal one
 * (Martin, Reinsch and Wilkinson, 1968), its values by bisection (Barth, Martin and Wilkinson, 1967), its
 * vectors by inverse iteration (Peters and Wilkinson, 1971), and the way back.
 *
 * Step k takes row k, which holds what earlier steps left of it, to (off, 0, 0, ...) by the
 * reflection I - u u^T / h:
 *
 *     d o 0 0 0      d, o: diagonal and off-diagonal of the result
 *     o d o 0 0      k:    the row whose tail becomes u, kept in its place for the way back
 *     0 o k u u      x:    rows still to come: x -= v w^T + w v^T of the step before, and at
 *     0 0 u x x            the same time the product x u, from which this step's v and w
 *     0 0 u x x            follow
 *
 * So the matrix goes through the processor once a step. Both triangles are kept: rows then lie
 * in memory order, which is worth more than half of the arithmetic for d <= 512.
 *
 * The wanted eigenvectors are few, so each is made orthogonal to all before it, not only to
 * those of close eigenvalues: no clusters to find, and none to miss. */
#include "stats/eigen.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/rng.h"
#include "stats/matrix_kernel.h"

/* The tridiagonal matrix. */
typedef struct tridiagonal {
    size_t n;
    double *diagonal; /* [n] of order 1, finite */
    double *off;      /* [n]: entry i lies beside diagonal i and i+1; the last is 0 */
} tridiagonal;

typedef struct reduction {
    const qk__matrix_kernel *kernel;
    size_t n, ld;   /* ld: n in whole lanes */
    double *matrix; /* [n][ld]; in the end row k holds u of step k from column k + 1 */
    double *h;      /* [ld]; 0: step k needed no reflection */
    double *v, *w, *next, *product; /* [ld] */
    double *vectors;                /* [count][ld] */
    double *scratch;                /* [5 ld] of the tridiagonal one */
    tridiagonal t;
} reduction;

/* All arrays lie in one block, each in whole lanes. */
static qk_status reserve(reduction *r, size_t count, double **block, qk_error *err)
{
    size_t ld = r->ld;
    double *at = *block = qk__alloc_aligned(ld * (r->n + count + 7 + 5), sizeof *at);
    if (!at)
        return qk__nomem(err);
    r->matrix = at, at += r->n * ld;
    r->vectors = at, at += count * ld;
    r->h = at, at += ld;
    r->v = at, at += ld;
    r->w = at, at += ld;
    r->next = at, at += ld;
    r->product = at, at += ld;
    r->t.diagonal = at, at += ld;
    r->t.off = at, at += ld;
    r->scratch = at;
    memset(r->v, 0, 4 * ld * sizeof *r->v);
    return QK_OK;
}

/* Copies the matrix, scaled by a power of two to entries of order 1, so that no square over- or
 * underflows. The exponent goes to *scale. */
static qk_status load_matrix(reduction *r, const double *matrix, int *scale, qk_error *err)
{
    double largest = 0;
    *scale = 0;
    for (size_t i = 0; i < r->n * r->n; i++) {
        if (!isfinite(matrix[i]))
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "the covariance has an entry that is not finite");
        largest = fabs(matrix[i]) > largest ? fabs(matrix[i]) : largest;
    }
    if (largest > 0)
        frexp(largest, scale);
    /* As ldexp gives it, and several times as fast; the smallest ones need two powers. */
    const double again = *scale < -1022 ? 0x1p100 : 1;
    const double by = ldexp(1 / again, -*scale);
    for (size_t i = 0; i < r->n; i++) {
        double *row = r->matrix + i * r->ld;
        for (size_t j = 0; j < r->n; j++)
            row[j] = matrix[i * r->n + j] * by * again;
        memset(row + r->n, 0, (r->ld - r->n) * sizeof *row);
    }
    return QK_OK;
}

/* The reflection that takes x[n] to (off, 0, ...): x becomes u. Returns h, 0 where the tail is
 * zero or cannot be seen beside entries of order 1. */
static double reflect(const qk__matrix_kernel *kernel, double *x, size_t n, double *off)
{
    double first = x[0], tail = kernel->dot(x + 1, x + 1, n - 1);
    const double invisible = DBL_EPSILON / 1024;
    *off = first;
    if (tail < invisible * invisible)
        return 0;
    double length = sqrt(first * first + tail);
    *off = -copysign(length, first);
    x[0] = first - *off;
    return length * (length + fabs(first));
}

/* Fills r->t, r->h and the reflections in r->matrix. */
static void reduce(reduction *r)
{
    const size_t n = r->n, ld = r->ld;
    for (size_t k = 0; k < n; k++) {
        double *row = r->matrix + k * ld, v_k = r->v[k], w_k = r->w[k];
        r->kernel->add(-v_k, r->w + k, row + k, n - k);
        r->kernel->add(-w_k, r->v + k, row + k, n - k);
        r->t.diagonal[k] = row[k];
        r->t.off[k] = 0;
        r->h[k] = 0;
        if (k + 1 == n)
            break;
        double h = r->h[k] = reflect(r->kernel, row + k + 1, n - k - 1, &r->t.off[k]);
        memset(r->next, 0, ld * sizeof *r->next);
        memset(r->product, 0, ld * sizeof *r->product);
        if (h > 0)
            memcpy(r->next + k + 1, row + k + 1, (n - k - 1) * sizeof *row);
        r->kernel->sweep(r->matrix, ld, k + 1, n, r->v, r->w, r->next, r->product);
        double *u = r->next;
        r->next = r->v;
        r->v = u;
        memset(r->w, 0, ld * sizeof *r->w);
        if (h == 0)
            continue;
        /* w = p - u (u.p) / 2h with p = product / h */
        double half = r->kernel->dot(u + k + 1, r->product + k + 1, n - k - 1) / (2 * h * h);
        for (size_t j = k + 1; j < n; j++)
            r->w[j] = r->product[j] / h - half * u[j];
    }
}

/* ---- values of the tridiagonal one ------------------------------------------------------ */

typedef struct interval {
    double lo, hi; /* of one eigenvalue */
} interval;

/* Where all eigenvalues lie (Gershgorin), and a little more. */
static interval all_values(const tridiagonal *t)
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

/* Whether halving has come to its end. */
static bool is_narrow(const interval *at)
{
    double middle = at->lo + (at->hi - at->lo) / 2;
    return at->hi - at->lo <= DBL_EPSILON * fmax(fabs(at->lo), fabs(at->hi)) + DBL_MIN ||
           middle <= at->lo || middle >= at->hi;
}

/* Up to STURM_POINTS eigenvalues side by side, each with its share of the points. */
static void find_values(const tridiagonal *t, const qk__matrix_kernel *kernel,
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

/* Finds the `count` largest, descending. */
static void bisect_values(const tridiagonal *t, const qk__matrix_kernel *kernel, size_t count,
                          double *values, double *scratch)
{
    for (size_t i = 0; i < t->n; i++)
        scratch[i] = fmax(t->off[i] * t->off[i], DBL_MIN);
    interval all = all_values(t);
    for (size_t i = 0; i < count; i += STURM_POINTS) {
        size_t some = count - i < STURM_POINTS ? count - i : STURM_POINTS;
        find_values(t, kernel, scratch, all, i, some, values + i);
    }
    /* Each was found separately; rounding may have swapped two equal values. */
    for (size_t i = 1; i < count; i++)
        values[i] = fmin(values[i], values[i - 1]);
}

/* ---- vectors of the tridiagonal one ----------------------------------------------------- */

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

static void factorise(const tridiagonal *t, double shift, factors *f)
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

/* Finds orthonormal vectors of the `count` values, in rows of r->vectors. */
static void iterate_vectors(reduction *r, size_t count, const double *values)
{
    enum { ROUNDS = 2 }; /* the first finds the vector, the second its last digits */
    const size_t n = r->n, ld = r->ld;
    factors f = {r->scratch, r->scratch + n, r->scratch + 2 * n, r->scratch + 3 * n,
                 r->scratch + 4 * n};
    qk__rng random;
    qk__rng_init(&random, n, NULL, 0);
    double shift = INFINITY;
    for (size_t i = 0; i < count; i++) {
        double *x = r->vectors + i * ld;
        for (size_t j = 0; j < n; j++)
            x[j] = qk__rng_uniform(&random) - 0.5;
        /* From the same shift as before, rounding would prefer the vector that is found. */
        shift = fmin(values[i], shift - 8 * DBL_EPSILON);
        factorise(&r->t, shift, &f);
        for (int round = 0; round < ROUNDS; round++) {
            orthogonalise(r->kernel, x, n, r->vectors, i, ld);
            solve(&f, n, x);
            normalise(r->kernel, x, n);
        }
        orthogonalise(r->kernel, x, n, r->vectors, i, ld);
    }
}

/* ---- the way back ----------------------------------------------------------------------- */

/* From the tridiagonal matrix's vectors to the matrix's own. */
static void turn_back(const reduction *r, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = r->n; k-- > 0;) {
            const double *u = r->matrix + k * r->ld + k + 1;
            double *z = r->vectors + i * r->ld + k + 1;
            if (r->h[k] > 0)
                r->kernel->add(-r->kernel->dot(u, z, r->n - k - 1) / r->h[k], u, z,
                               r->n - k - 1);
        }
}

qk_status qk__eigen_largest(const double *matrix, size_t d, size_t count, double *values,
                            double *vectors, qk_error *err)
{
    reduction r = {.kernel = qk__best_matrix_kernel(),
                   .n = d,
                   .ld = (d + MATRIX_LANES - 1) / MATRIX_LANES * MATRIX_LANES,
                   .t.n = d};
    double *block;
    int scale;
    QK_TRY(reserve(&r, count, &block, err));
    qk_status status = load_matrix(&r, matrix, &scale, err);
    if (status == QK_OK) {
        reduce(&r);
        bisect_values(&r.t, r.kernel, count, values, r.scratch);
        if (vectors) {
            iterate_vectors(&r, count, values);
            turn_back(&r, count);
        }
        for (size_t i = 0; i < count; i++) {
            values[i] = ldexp(values[i], scale);
            if (vectors)
                memcpy(vectors + i * d, r.vectors + i * r.ld, d * sizeof *vectors);
        }
    }
    free(block);
    return status;
}
