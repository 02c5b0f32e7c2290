/* SPDX-License-Identifier: Apache-2.0 */
/* What of the scores q.k of a head is of the key alone, and in how many dimensions the rest is. docs/methods.md#key-and-query */
#ifndef QK_STATS_INTERACTION_H
#define QK_STATS_INTERACTION_H

#include <qkscope/stats.h>

/* Of the variance over keys of a row's scores, in the mean over queries, the share that the mean query has as well;
 * NaN without any. */
double qk__key_share(const qk_moments *q, const qk_moments *k);

/* How many of the largest eigenvalues of the product of both covariances have 90 % of their sum; NaN with fewer
 * than two rows a dimension of either kind, or without variance. */
QK_MUST_CHECK qk_status qk__score_rank(const qk_moments *q, const qk_moments *k, double *rank,
                                       qk_error *err);

#endif
