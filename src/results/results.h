/* SPDX-License-Identifier: Apache-2.0 */
/* The models of a results folder in the order of the study, for what is drawn and written of them. Their numbers are
 * asked of the tables, in SQL. */
#ifndef QK_RESULTS_RESULTS_H
#define QK_RESULTS_RESULTS_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/common.h>
#include <qkscope/analysis.h>

#include "base/arena.h"
#include "tables/tables.h"

typedef struct qk__result_model {
    int64_t id;         /* models.model_id */
    const char *name;   /* the `model` column */
    const char *label;  /* what figures call it; the name without models.csv */
    const char *family; /* never NULL; the label where none is given */
    const char *phase;  /* "" = not a checkpoint */
    const char *slug;   /* of file names: qk__slugs (base/slug.h) of all names, in order */
    int family_index;   /* 0.. in order of appearance; picks the colour */
    int phase_index;    /* likewise; -1 without a phase */
    int last_layer;     /* of the model; where no file says it, the largest here */
    size_t num_heads;
} qk__result_model;

typedef struct qk__results {
    const char *title; /* of the study, "" = none */
    size_t num_models, num_heads;
    qk__result_model *models;
    qk_text_lengths *lengths; /* [num_models] of their texts */
    size_t num_families;
    const char **families;
    size_t num_phases;
    const char **phases;
    bool checkpoints; /* every model has a phase: rows and axes are training checkpoints */
    qk__arena memory; /* of all that */
} qk__results;

/* Of a folder that the tables have as "main". A comparison is QK_ERR_NOT_FOUND. */
QK_MUST_CHECK qk_status qk__results_read(qk__results **results, qk__store *tables,
                                         const char *folder, qk_error *err);
void qk__results_free(qk__results **results);

/* In the order of the study: qk__each_model (results, model) ... */
static inline const qk__result_model *qk__next_model(const qk__results *results,
                                                     const qk__result_model *before)
{
    size_t next = before ? (size_t)(before - results->models) + 1 : 0;
    return next < results->num_models ? &results->models[next] : NULL;
}
#define qk__each_model(results, model)                                                         \
    for (const qk__result_model *model = NULL; (model = qk__next_model(results, model));)

#endif
