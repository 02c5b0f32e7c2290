/* SPDX-License-Identifier: Apache-2.0 */
/* The heads that findings are about, and the numbers that they ask for, as columns of one SELECT. */
#ifndef QK_REPORT_SAMPLE_H
#define QK_REPORT_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tables/tables.h"

/* Heads by model, layer and query head. Heads with too few rows are left out: their numbers are mostly chance. */
typedef struct qk__sample {
    qk_columns *heads, *models, *components;
    size_t count;
    const int64_t *id, *layer, *q_head, *k_head;
    const double *depth;
    size_t num_models; /* in the order of the study */
    size_t *begin;     /* [num_models + 1] the first head of each model */
    const char *const *labels, *const *families, *const *phases; /* no element is NULL */
    bool checkpoints;                                            /* every model has a phase */
} qk__sample;

QK_MUST_CHECK qk_status qk__sample_read(qk__store *tables, qk__sample *sample, qk_error *err);
void qk__sample_free(qk__sample *sample);

/* The y or x ('y', 'x') of a question; NULL: no head has the number. */
const double *qk__sample_column(const qk__sample *sample, char axis, size_t question);

/* The head after the group of query heads that share their keys, and the head after the layer, that begin at `first`. */
size_t qk__group_end(const qk__sample *sample, size_t first);
size_t qk__layer_end(const qk__sample *sample, size_t first);
size_t qk__model_of(const qk__sample *sample, size_t head);

#endif
