/* SPDX-License-Identifier: Apache-2.0 */
/* What the pair kernels need to know of a query model. */
#ifndef QK_STATS_WHITENING_H
#define QK_STATS_WHITENING_H

#include <qkscope/stats.h>

#include "stats/pair_kernel.h"
#include "stats/query_grid.h"
#include "stats/query_model.h"

/* With the residual variances of all queries; room for a factor if asked for. */
QK_MUST_CHECK qk_status qk__whitening_create(qk__whitening **whitening,
                                             const qk__query_model *model, bool with_factor,
                                             qk_error *err);
void qk__whitening_free(qk__whitening **whitening);

/* Means and covariance of one query bucket (two queries at least) instead. */
QK_MUST_CHECK qk_status qk__whitening_set_bucket(qk__whitening *whitening,
                                                 const qk__query_model *model,
                                                 const qk_block *queries,
                                                 const qk__query_grid *grid,
                                                 const qk__query_bucket *bucket, qk_error *err);

/* The square root of a covariance matrix, which may be singular: overwrites a symmetric positive
 * semidefinite n x n matrix (leading dimension ld), of which only the lower triangle is read, by the
 * lower triangular L with L L^T = matrix; the upper triangle becomes zero. Where no more than `least` of
 * a diagonal entry is left, the column is zero. */
void qk__cholesky(double *matrix, size_t n, size_t ld, double least);

#endif
