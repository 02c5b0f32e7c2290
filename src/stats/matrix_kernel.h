/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors and symmetric matrices in float64: the innermost work of axes, projections and
 * eigenvalues.
 *
 * A kernel forms every number by the same chain of additions and multiplications, none of them
 * fused, in 8 lanes: kernels agree to the last bit, whatever their vector width. */
#ifndef QK_STATS_MATRIX_KERNEL_H
#define QK_STATS_MATRIX_KERNEL_H

#include <stddef.h>

#include "base/simd.h"

enum { MATRIX_LANES = 8, STURM_POINTS = 16 };

typedef struct qk__matrix_kernel {
    /* Sum of a[i] b[i]. */
    double (*dot)(const double *a, const double *b, size_t n);

    /* y += factor x. */
    void (*add)(double factor, const double *x, double *y, size_t n);

    /* One pass of a tridiagonalisation over rows first .. n-1 of a symmetric matrix [n][ld]:
     * subtracts v w^T + w v^T from it, then product += matrix next. All vectors have ld
     * values, zero before `first` (v and w: before the row above it) and from n on; ld is in
     * whole lanes. Columns of the lanes before the one with `first` are left alone. */
    void (*sweep)(double *matrix, size_t ld, size_t first, size_t n, const double *v,
                  const double *w, const double *next, double *product);

    /* below[i] = how many eigenvalues of a tridiagonal matrix are less than x[i]: negative
     * pivots of its factors (Barth, Martin and Wilkinson, 1967). off_squared[i] is the square
     * of the entry beside diagonal i and i+1, and more than 0. */
    void (*sturm)(const double *diagonal, const double *off_squared, size_t n,
                  const double x[STURM_POINTS], double below[STURM_POINTS]);
} qk__matrix_kernel;

/* Fastest kernel for this processor. */
const qk__matrix_kernel *qk__best_matrix_kernel(void);

/* By instruction set. */
extern const qk__matrix_kernel *const qk__matrix_kernels[QK_NUM_SIMD];
extern const qk__matrix_kernel qk__matrix_portable;
extern const qk__matrix_kernel qk__matrix_avx2;
extern const qk__matrix_kernel qk__matrix_avx512;

#endif
