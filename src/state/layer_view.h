/* SPDX-License-Identifier: Apache-2.0 */
/* What a mapped file holds of a kind, for those who copy from it. */
#ifndef QK_STATE_LAYER_VIEW_H
#define QK_STATE_LAYER_VIEW_H

#include "state/layer_arrays.h"
#include "state/layer_moments.h"
#include "state/moment_set.h"

typedef struct qk__layer_view {
    qk__part_shape shape; /* num_heads 0: there is nothing of the kind */
    qk__layer_sizes sizes;
    uint64_t mask;
    int *heads;
    const int64_t *texts, *positions, *labels, *buckets; /* in the file */
    const void *data[QK__NUM_ARRAYS];
} qk__layer_view;

/* The moments of a group or of a bucket, where they lie: not to be written to. */
qk__moment_set qk__layer_view_group(const qk__layer_view *view, size_t group);
qk__moment_set qk__layer_view_bucket(const qk__layer_view *view, size_t bucket);

/* Whether what a set says of a head are numbers that rows give. */
QK_MUST_CHECK qk_status qk__check_set(const qk__set_shape *shape, const qk__moment_set *set,
                                      size_t head, qk_error *err);

#endif
