/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of a layer's file: names, types and shapes (layer_file.h says what they mean). */
#ifndef QK_STATE_LAYER_ARRAYS_H
#define QK_STATE_LAYER_ARRAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QK__LAYER_FORMAT     "qkscope moments 2"
#define QK__ATTENTION_FORMAT "qkscope attention 1"
#define QK__LAYER_HASH       "xxh3_128" /* of the data, in the metadata */

/* In the order of the file. Those of groups and of buckets follow each other as the members of
 * qk__moment_set do. */
enum {
    QK__ARRAY_HEADS,
    QK__ARRAY_TEXTS,
    QK__ARRAY_POSITIONS,
    QK__ARRAY_MASK,
    QK__ARRAY_GROUP,
    QK__ARRAY_COUNT, /* to SUM_ABS: a set for each group */
    QK__ARRAY_MEAN_T,
    QK__ARRAY_SUM_TT,
    QK__ARRAY_MEAN,
    QK__ARRAY_SUM_XT,
    QK__ARRAY_SUM_XX,
    QK__ARRAY_SUM_ABS, /* only where lengths are kept */
    QK__ARRAY_BUCKET,  /* from here on only where buckets are kept */
    QK__ARRAY_BUCKET_COUNT,
    QK__NUM_ARRAYS = QK__ARRAY_BUCKET_COUNT + QK__ARRAY_SUM_XX - QK__ARRAY_COUNT + 1,
    QK__SET_ARRAYS = QK__ARRAY_SUM_ABS - QK__ARRAY_COUNT + 1,
};

typedef struct qk__layer_sizes {
    int64_t heads, groups, buckets, dim, pairs;
} qk__layer_sizes;

typedef struct qk__layer_array {
    char name[24];     /* with the part: "q.sum_xx" */
    const char *dtype; /* "F64" */
    int rank;
    int64_t shape[3];
} qk__layer_array;

struct qk__part_shape;

/* Whether a part of that shape has it. */
bool qk__layer_array_is_kept(int array, const struct qk__part_shape *shape);

/* Of a part of a layer; and what the names of its arrays begin with: "q.", "first.k.". */
qk__layer_array qk__layer_array_of(int array, int part, const qk__layer_sizes *sizes);
extern const char *const qk__layer_prefixes[];

#endif
