/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a head's scores q.k the key alone decides, and in how many dimensions the rest is.
 * docs/methods.md#key-and-query */
#ifndef QK_STATS_INTERACTION_H
#define QK_STATS_INTERACTION_H

#include <qkscope/stats.h>

/* The share of the variance over keys of a row's scores (in the mean over queries) that the mean query has as well;
 * NaN without variance. */
double qk__key_share(const qk_moments *q, const qk_moments *k);

/* How many of the largest eigenvalues of the product of both covariances make 90 % of their sum; NaN with fewer than
 * two rows a dimension of either kind, or without variance. */
QK_MUST_CHECK qk_status qk__score_rank(const qk_moments *q, const qk_moments *k, double *rank,
                                       qk_error *err);

#endif
