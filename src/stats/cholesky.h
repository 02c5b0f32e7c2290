/* SPDX-License-Identifier: Apache-2.0 */
/* Square root of a covariance matrix that may be singular. */
#ifndef QK_STATS_CHOLESKY_H
#define QK_STATS_CHOLESKY_H

#include <stddef.h>

/* Overwrites the symmetric positive semidefinite n x n matrix (leading dimension ld), of which
 * only the lower triangle is read, by the lower triangular L with L L^T = matrix; the upper
 * triangle becomes zero. Where no more than `least` of a diagonal entry is left, the column
 * is zero. */
void qk__cholesky(double *matrix, size_t n, size_t ld, double least);

#endif
