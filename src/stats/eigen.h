/* SPDX-License-Identifier: Apache-2.0 */
/* Leading eigenpairs of a symmetric matrix. */
#ifndef QK_STATS_EIGEN_H
#define QK_STATS_EIGEN_H

#include <stddef.h>

#include <qkscope/common.h>

/* The `count` <= d largest eigenvalues of the symmetric matrix [d][d], descending, and
 * orthonormal eigenvectors as rows of vectors[count][d], unless that is NULL. Errors of values are a few roundings
 * of the largest entry; close eigenvalues share their space in a way that is fixed, but has no
 * meaning. Any thread. QK_ERR_INCONSISTENT when an entry is not finite. */
QK_MUST_CHECK qk_status qk__eigen_largest(const double *matrix, size_t d, size_t count,
                                          double *values, double *vectors, qk_error *err);

#endif
