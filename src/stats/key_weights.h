/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that are a choice of those there were: no more than so many of each text and bucket, drawn
 * at random. What each of them, and each pair of them, stands for.
 *
 * A text and bucket with fewer than that is there as a whole. Of the others it is only known how
 * many keys they have together, in each group of texts: each is taken to have as many as they
 * have on average. (Texts with one id count as one: then there may be more keys than that, which are
 * taken to be as many of theirs as in the other buckets.) A key then stands for K / m keys, K being those there were and m those here;
 * a pair of two texts' or buckets' keys for the product of theirs; a pair of one text and bucket for
 * K (K - 1) / m (m - 1), since no key is paired with itself. */
#ifndef QK_STATS_KEY_WEIGHTS_H
#define QK_STATS_KEY_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/stats.h>

#include "stats/key_index.h"

/* What is known of all keys: how many each group of texts has. */
typedef struct qk__reservoir {
    int64_t most; /* keys of a text and bucket that are here */
    uint64_t mask;
    size_t num_groups;
    const uint64_t *label; /* of a group: an id's bits in mask */
    const int64_t *count;
} qk__reservoir;

/* Gives the keys of the index their weights; none where all there were are here. The buckets of the
 * index are those that keys were chosen by. QK_ERR_INCONSISTENT: they are no choice of them. */
QK_MUST_CHECK qk_status qk__reservoir_weigh(qk__key_index *index, const qk_block *keys,
                                            const qk__reservoir *reservoir, qk_error *err);

#endif
