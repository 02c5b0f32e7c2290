/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing pairs without replacement, as numbers in order or as sets with a bit for each pair. */
#ifndef QK_STATS_PAIR_SETS_H
#define QK_STATS_PAIR_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/status.h>

/* `limit` distinct numbers below `count`, ascending, by Floyd's algorithm. */
QK_MUST_CHECK qk_status qk__draw(uint64_t *numbers, size_t limit, uint64_t count, uint64_t seed,
                                 const uint64_t *words, size_t num_words, qk_error *err);

/* The pairs drawn for a query bucket. */
typedef struct qk_pair_set {
    int64_t bucket, count;
    uint64_t *bits; /* of `count` pairs, and a spare word */
} qk_pair_set;

/* What has been drawn for one head, by bucket: what a bucket draws depends on how many pairs
 * it has and on nothing else that changes from one repetition to the next. Starts as {0}. */
typedef struct qk_pair_sets {
    size_t num, capacity;
    qk_pair_set *set;
} qk_pair_sets;

/* Whether `limit` of `count` pairs are worth a set: not too few, and no more than 2^31 pairs. */
bool qk__pair_set_fits(int64_t count, int64_t limit);

/* Bytes of a set of that many pairs. */
size_t qk__pair_set_bytes(int64_t count);

/* The same `limit` of `count` pairs that qk__draw finds for {stream[0], stream[1], bucket}. The
 * set lives until the bucket is asked for with another count. */
QK_MUST_CHECK qk_status qk__pair_sets_draw(qk_pair_sets *sets, int64_t bucket, int64_t count,
                                           int64_t limit, uint64_t seed,
                                           const uint64_t stream[2], const uint64_t **bits,
                                           qk_error *err);
void qk__pair_sets_clear(qk_pair_sets *sets);

#endif
