/* SPDX-License-Identifier: Apache-2.0 */
/* The sums that are kept of a head's attention. */
#ifndef QK_STATS_ATTENTION_SUMS_H
#define QK_STATS_ATTENTION_SUMS_H

#include <qkscope/attention.h>

/* Sums are rows of QK_ATTENTION_SUMS. */
typedef struct qk__attention_head {
    size_t num_groups, num_buckets;
    int64_t texts, rows;
    double *group;     /* [num_groups] by group of texts */
    int64_t *bucket;   /* [num_buckets] which bin the positions of rows are in, in order */
    double *by_bucket; /* [num_buckets] */
} qk__attention_head;

/* Sums of more rows, and the larger of both maxima. */
void qk__attention_add(double *to, const double *more);

#endif
