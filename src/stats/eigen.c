/* SPDX-License-Identifier: Apache-2.0 */
/* Leading eigenpairs of a symmetric matrix: Householder's reduction to a tridiagonal one
 * (Martin, Reinsch and Wilkinson, 1968), its pairs, and the way back.
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
 * in memory order, which is worth more than half of the arithmetic for d <= 512. */
#include "stats/eigen.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/tridiagonal.h"

typedef struct reduction {
    const qk__matrix_kernel *kernel;
    size_t n, ld;   /* ld: n in whole lanes */
    double *matrix; /* [n][ld]; in the end row k holds u of step k from column k + 1 */
    double *h;      /* [ld]; 0: step k needed no reflection */
    double *v, *w, *next, *product; /* [ld] */
    double *vectors;                /* [count][ld] */
    double *scratch;                /* of the tridiagonal solver */
    qk__tridiagonal t;
} reduction;

/* All arrays lie in one block, each in whole lanes. */
static qk_status reserve(reduction *r, size_t count, double **block, qk_error *err)
{
    size_t ld = r->ld;
    double *at = *block =
        qk__alloc_aligned(ld * (r->n + count + 7) + QK__TRIDIAGONAL_SCRATCH(ld), sizeof *at);
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
static qk_status load(reduction *r, const double *matrix, int *scale, qk_error *err)
{
    double largest = 0;
    *scale = 0;
    for (size_t i = 0; i < r->n * r->n; i++) {
        if (!isfinite(matrix[i]))
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "the covariance has an entry that is not finite");
        largest = fmax(largest, fabs(matrix[i]));
    }
    if (largest > 0)
        frexp(largest, scale);
    for (size_t i = 0; i < r->n; i++) {
        double *row = r->matrix + i * r->ld;
        for (size_t j = 0; j < r->n; j++)
            row[j] = ldexp(matrix[i * r->n + j], -*scale);
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
    qk_status status = load(&r, matrix, &scale, err);
    if (status == QK_OK) {
        reduce(&r);
        qk__tridiagonal_values(&r.t, r.kernel, count, values, r.scratch);
        qk__tridiagonal_vectors(&r.t, r.kernel, count, values, r.vectors, r.ld, r.scratch);
        turn_back(&r, count);
        for (size_t i = 0; i < count; i++) {
            values[i] = ldexp(values[i], scale);
            memcpy(vectors + i * d, r.vectors + i * r.ld, d * sizeof *vectors);
        }
    }
    free(block);
    return status;
}
