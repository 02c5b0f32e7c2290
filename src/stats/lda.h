/* SPDX-License-Identifier: Apache-2.0 */
/* The line in the plane of the first two components that separates queries from keys. */
#ifndef QK_STATS_LDA_H
#define QK_STATS_LDA_H

#include <qkscope/stats.h>

/* Pooled within-class covariance, equal priors. A row is called Q when weight . x + bias > 0. */
typedef struct qk__lda {
    size_t dim;
    double bias;
    double *weight; /* [dim] */
} qk__lda;

QK_MUST_CHECK qk_status qk__pca_lda(const qk_pca *pca, const qk_moments *q, const qk_moments *k,
                                    qk__lda **lda, qk_error *err);

void qk__lda_free(qk__lda **lda);

/* How many of the rows fall on the Q side. */
int64_t qk__lda_count_q(const qk__lda *lda, const qk_block *rows);

#endif
