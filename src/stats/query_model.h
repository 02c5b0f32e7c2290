/* SPDX-License-Identifier: Apache-2.0 */
/* How the queries of a head depend on position: a mean that is linear in position, and the
 * variances about it in coordinates whose first one holds all of the drift. */
#ifndef QK_STATS_QUERY_MODEL_H
#define QK_STATS_QUERY_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/stats.h>

/* mu(t) = mean + beta (t - mean_t). The reflection H = I - 2 m m^T with m = mirror takes
 * beta / |beta| to sign e1; m = 0 (H = I) without drift or where beta already points there. */
typedef struct qk__query_model {
    size_t dim;
    int64_t count;
    double mean_t;
    double beta_norm;
    double sign;
    double *mean;     /* [dim] */
    double *beta;     /* [dim]; 0 where the drift is no more than rounding */
    double *mirror;   /* [dim] unit vector or zero */
    double *variance; /* [dim] of the residuals of H q, 1/(n-1); rounding counts as 0 */
} qk__query_model;

/* sign: 1 or -1. mirror_from: NULL, or a model whose reflection and sign are kept. With -1,
 * coordinates 2..d are, but for their signs, what one gets by changing the sign of the first
 * coordinate of all vectors and then reflecting beta to e1. One row or constant positions give
 * beta = 0; one row gives variance 0. */
QK_MUST_CHECK qk_status qk__query_model_create(qk__query_model **model, const qk_moments *q,
                                               const qk__query_model *mirror_from, int sign,
                                               qk_error *err);
void qk__query_model_free(qk__query_model **model);

#endif
