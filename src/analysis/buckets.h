/* SPDX-License-Identifier: Apache-2.0 */
/* The position buckets of plasticity: those of the capture, or buckets of equal width cut from positions. */
#ifndef QK_ANALYSIS_BUCKETS_H
#define QK_ANALYSIS_BUCKETS_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

/* All zero: the column `bucket` as it is. */
typedef struct qk__buckets {
    int count;     /* buckets of equal width; 0 = the capture's own */
    int64_t first; /* position where bucket 0 begins */
    int64_t last;  /* largest position of the capture */
} qk__buckets;

/* Tokens a bucket; 0 with the capture's own buckets. */
double qk__buckets_width(const qk__buckets *buckets);

/* The buckets of these positions; count is not 0. Positions outside first..last fall into the buckets at the ends. */
void qk__buckets_cut(const qk__buckets *buckets, const int64_t *position, size_t rows,
                     int64_t *bucket);

#endif
