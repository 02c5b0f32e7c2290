/* SPDX-License-Identifier: Apache-2.0 */
/* What a chunk holds, for the part that it is folded into. */
#ifndef QK_STATE_CHUNK_MOMENTS_H
#define QK_STATE_CHUNK_MOMENTS_H

#include "state/layer_moments.h"
#include "state/moment_set.h"
#include "stats/pilot_sums.h"

/* Neighbouring rows in one bucket; without buckets all rows. */
typedef struct qk__chunk_run {
    int64_t bucket;
    size_t rows;
} qk__chunk_run;

struct qk__chunk_moments {
    const qk__gram_kernel *kernel;
    qk__set_shape shape; /* of what it holds */
    bool by_bucket;
    int64_t first_position, last_position;
    qk__moment_set whole; /* all rows */
    size_t num_runs;
    size_t first_run, all_runs; /* of the text, where it was summed elsewhere */
    qk__chunk_run run[QK__CHUNK_ROWS];
    qk__moment_set of_run[QK__CHUNK_ROWS]; /* the diagonals; where by bucket */
    double *sets;                          /* their arrays */
    size_t sets_size;

    /* while one head is summed; columns are filled up to whole panels */
    qk__tile tile;
    double *gram;
    double *runs; /* [num_runs][3][columns]: sums of x, x t and x^2 */
    double *work; /* memory of these */
    size_t work_size;
    double t[QK__CHUNK_ROWS], base_t; /* positions about base_t */
    uint32_t index[QK__CHUNK_ROWS];   /* 0, 1, 2 ... */
};

/* Places the arrays of its shape and runs. */
QK_MUST_CHECK qk_status qk__chunk_place_sets(qk__chunk_moments *chunk, qk_error *err);

#endif
