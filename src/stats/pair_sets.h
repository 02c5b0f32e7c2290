/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing without replacement, as numbers in order or as sets with a bit for each number. */
#ifndef QK_STATS_PAIR_SETS_H
#define QK_STATS_PAIR_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

/* `limit` distinct numbers below `count`, ascending, by Floyd's algorithm. */
QK_MUST_CHECK qk_status qk__draw(uint64_t *numbers, size_t limit, uint64_t count, uint64_t seed,
                                 const uint64_t *words, size_t num_words, qk_error *err);

/* Whether `limit` of `count` numbers are worth a set: not too few, none of 2^31 or more. */
bool qk__set_fits(int64_t count, int64_t limit);

/* Words of a set of numbers below count, one to spare. */
size_t qk__set_words(int64_t count);

/* What is drawn from `count` numbers by the generator of `num_words` words. */
typedef struct qk__pair_set {
    int64_t count;
    uint64_t words[4];
    uint64_t *bits; /* [qk__set_words(count)], zero before */
} qk__pair_set;

/* Finds the same numbers as qk__draw, for each set. Several at a time take half as long as one after the other. */
QK_MUST_CHECK qk_status qk__draw_sets(qk__pair_set *sets, size_t num_sets, size_t num_words,
                                      size_t limit, uint64_t seed, qk_error *err);

#endif
