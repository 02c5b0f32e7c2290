/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a model on their way into the spool: which are kept, one layer at a time. */
#ifndef QK_RECORDER_LAYER_ROWS_H
#define QK_RECORDER_LAYER_ROWS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/recording.h"

/* A position that is kept, and its row in the spool. */
typedef struct qk__kept_row {
    int64_t position;
    int64_t row;
} qk__kept_row;

typedef struct qk__kept_list {
    qk__kept_row *rows; /* by position */
    size_t count;
} qk__kept_list;

/* Queries or keys of the layer that is being run. */
typedef struct qk__part_rows {
    qk__kept_list *sequences; /* [num_sequences] */
    int *heads;
    size_t num_heads;
    int *files;                  /* [QK__STAGES][num_heads], -1 = not open */
    int64_t rows;                /* kept, over all sequences */
    int64_t written[QK__STAGES]; /* rows of any head */
} qk__part_rows;

typedef struct qk__layer_rows {
    const qk__recording *r;
    const qk_sequence *sequences;
    const int64_t *ids; /* of the texts behind them */
    size_t count;
    int64_t *rows;        /* kept so far, [num_layers][2] */
    pthread_mutex_t lock; /* of what follows */
    int layer;            /* that parts belong to; -1 = none */
    qk__part_rows parts[2];
} qk__layer_rows;

/* `kept`, [num_layers][2] and zero, is filled in as layers end. Pointers are not copied. */
QK_MUST_CHECK qk_status qk__layer_rows_init(qk__layer_rows *rows, const qk__recording *r,
                                            const qk_sequence *sequences, const int64_t *ids,
                                            size_t count, int64_t *kept, qk_error *err);

/* A qk_prefill_sink whose user is a qk__layer_rows. */
qk_status qk__layer_rows_take(void *user, const qk_prefill_block *block, qk_error *err);

/* After the last layer: did every row come that was chosen? */
QK_MUST_CHECK qk_status qk__layer_rows_end(qk__layer_rows *rows, qk_error *err);
void qk__layer_rows_free(qk__layer_rows *rows);

#endif
