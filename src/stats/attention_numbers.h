/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over rows of attention to numbers of a head (docs/behaviour.md#attention): attention_numbers.c;
 * profiles over distance: attention_profile.c. */
#ifndef QK_STATS_ATTENTION_NUMBERS_H
#define QK_STATS_ATTENTION_NUMBERS_H

#include <qkscope/attention.h>

/* The sums that are kept of a head's attention, rows of QK_ATTENTION_SUMS. */
typedef struct qk__attention_head {
    size_t num_groups, num_buckets;
    int64_t texts, rows;
    double *group;     /* [num_groups] by group of texts */
    int64_t *bucket;   /* [num_buckets] which bin the positions of rows are in, in order */
    double *by_bucket; /* [num_buckets] */
} qk__attention_head;

/* Sums of more rows, and the larger of both maxima. */
void qk__attention_add(double *to, const double *more);

/* All numbers but the profile and its predictions. level: of the intervals (0..1), 0: none. QK_ERR_MALFORMED: a sum is
 * not finite, or there are too many groups. */
QK_MUST_CHECK qk_status qk__attention_numbers(const qk__attention_head *head, double level,
                                              qk_attention *numbers, qk_error *err);

#endif
