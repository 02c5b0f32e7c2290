/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of one head in the order in which pairs are met: example, bucket, position, row. */
#ifndef QK_STATS_KEY_INDEX_H
#define QK_STATS_KEY_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/stats.h>

/* Depends only on the rows, not on which group is left out: one index serves all query heads of a key head and all
 * repetitions, from several threads at once. */
typedef struct qk__key_index {
    size_t rows, num_examples;
    uint32_t *row;    /* [rows] row of the sample */
    int64_t *bucket;  /* [rows] of that row */
    double *position; /* [rows] */
    size_t *start;    /* [num_examples + 1] an example's first place */

    /* Where the keys are a choice of all keys (key_weights.c), else NULL. [rows] each: */
    double *chosen_of; /* keys of that text and bucket that there were */
    double *weight;    /* number of keys that it stands for */
    /* the weight of a pair of one text and bucket, over the product of the keys' weights */
    double *alike;
} qk__key_index;

/* The weight of a pair of keys, at two places of one example. */
static inline double qk__pair_weight(const qk__key_index *index, size_t a, size_t b)
{
    double weight = index->weight[a] * index->weight[b];
    return index->bucket[a] == index->bucket[b] ? weight * index->alike[a] : weight;
}

/* The place after the keys of one bucket that begin at i; their text ends at `end`. */
size_t qk__key_index_bucket_end(const qk__key_index *index, size_t i, size_t end);

/* Makes room for chosen_of, weight and alike of `rows` keys; false: no memory. */
bool qk__key_index_allocate_weights(qk__key_index *index, size_t rows);

/* weight and alike of the keys that are in the index, from chosen_of. */
void qk__key_index_set_weights(qk__key_index *index);

/* From all rows of `keys`; its left_out is ignored. */
QK_MUST_CHECK qk_status qk__key_index_create(qk__key_index **index, const qk_block *keys,
                                             qk_error *err);

/* The sign, 1 or -1, that the original tool gives the first coordinate: that of the mean over
 * buckets of their mean keys. All rows count. It gives the other coordinates signs as well, but
 * these change no number: only the coordinate that the drift is reflected onto matters. */
QK_MUST_CHECK qk_status qk__key_sign(const qk_block *keys, int *sign, qk_error *err);

/* The same without the rows that `keys` leaves out. */
QK_MUST_CHECK qk_status qk__key_index_select(qk__key_index **selected,
                                             const qk__key_index *index, const qk_block *keys,
                                             qk_error *err);
void qk__key_index_free(qk__key_index **index);

#endif
