/* SPDX-License-Identifier: Apache-2.0 */
/* The moments that a capture keeps in place of all rows (docs/formats.md#moments), and sums of attention, a file for
 * each layer. run_states.h has what a run does with them. */
#ifndef QK_ANALYSIS_STATES_H
#define QK_ANALYSIS_STATES_H

#include <pthread.h>

#include "base/file.h"
#include "state/layer_file.h"

/* A layer's file, opened by the first job that reads one of its heads. */
typedef struct qk__state_layer {
    int layer;
    char *path;
    bool tried, listed; /* listed: among the run's inputs */
    qk__layer_file *file;
    qk_status status; /* of opening it */
    qk_error error;
} qk__state_layer;

/* All zeros: the capture keeps all rows, and moments are not used. */
typedef struct qk__states {
    /* ascending: `count` layers with moments, then those with attention */
    qk__state_layer *layers;
    size_t count, files; /* files: all layers */
    bool has_rows;       /* a reservoir */
    pthread_mutex_t lock;
} qk__states;

void qk__states_close(qk__states *states);

/* QK_ERR_NOT_FOUND where this file of moments is missing. */
QK_MUST_CHECK qk_status qk__states_find(const char *path, qk_error *err);

/* QK_ERR_INCONSISTENT where these rows and their dimension do not fit the sums. */
QK_MUST_CHECK qk_status qk__states_fit(const qk_head *head, int64_t rows, size_t dim,
                                       int64_t summed, size_t of, qk_error *err);

/* What a layer's file knows of a head: as much as capture.json lists, and at least a row. */
QK_MUST_CHECK qk_status qk__states_head(const qk__layer_file *file, const qk_head *head,
                                        qk__head_state **state, qk_error *err);

#endif
