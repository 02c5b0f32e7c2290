/* SPDX-License-Identifier: Apache-2.0 */
/* Eigenvalues and eigenvectors of a symmetric tridiagonal matrix. */
#ifndef QK_STATS_TRIDIAGONAL_H
#define QK_STATS_TRIDIAGONAL_H

#include <stddef.h>

#include <qkscope/common.h>

#include "stats/matrix_kernel.h"

typedef struct qk__tridiagonal {
    size_t n;
    double *diagonal; /* [n] of order 1, finite */
    double *off;      /* [n]: entry i lies beside diagonal i and i+1; the last is 0 */
} qk__tridiagonal;

/* Scratch for a matrix of n rows, in doubles. */
#define QK__TRIDIAGONAL_SCRATCH(n) (5 * (n))

/* The `count` largest eigenvalues, descending, by bisection. */
void qk__tridiagonal_values(const qk__tridiagonal *t, const qk__matrix_kernel *kernel,
                            size_t count, double *values, double *scratch);

/* Orthonormal eigenvectors of those values, in rows of vectors[count][ld], by inverse
 * iteration. Values beyond n of a row are left alone. */
void qk__tridiagonal_vectors(const qk__tridiagonal *t, const qk__matrix_kernel *kernel,
                             size_t count, const double *values, double *vectors, size_t ld,
                             double *scratch);

#endif
