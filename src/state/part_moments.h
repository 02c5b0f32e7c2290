/* SPDX-License-Identifier: Apache-2.0 */
/* What a part holds, for reading and writing files of it. */
#ifndef QK_STATE_PART_MOMENTS_H
#define QK_STATE_PART_MOMENTS_H

#include "state/layer_moments.h"
#include "state/moment_set.h"

struct qk__part_moments {
    qk__part_shape shape; /* heads are its own */
    qk__set_shape group_shape, bucket_shape;
    uint64_t mask; /* the bits of an id that tell its group */
    qk__set_list groups, buckets;
    int64_t *texts;    /* [heads] */
    int64_t *position; /* [heads][2] least and largest; 0, -1 without rows */
};

#endif
