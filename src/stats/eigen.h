/* SPDX-License-Identifier: Apache-2.0 */
/* Leading eigenpairs of a symmetric matrix, by LAPACK. */
#ifndef QK_STATS_EIGEN_H
#define QK_STATS_EIGEN_H

#include <stddef.h>

#include <qkscope/status.h>

/* The `count` largest eigenvalues of the symmetric d x d matrix, descending, and their unit
 * eigenvectors as rows of vectors[count][d]. The matrix is destroyed. */
QK_MUST_CHECK qk_status qk__eigen_largest(double *matrix, size_t d, size_t count,
                                          double *values, double *vectors, qk_error *err);

#endif
