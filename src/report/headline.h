/* SPDX-License-Identifier: Apache-2.0 */
/* The headline numbers: the columns of the summary table, per model and per family. */
#ifndef QK_REPORT_HEADLINE_H
#define QK_REPORT_HEADLINE_H

#include "results/results.h"
#include "tables/tables.h"

typedef struct qk__headline_column {
    const char *name;            /* of the CSV */
    const char *label;           /* markup */
    const char *note;            /* what it is, in a few words */
    const char *group;           /* the table it is shown in */
    const char *over_heads, *of; /* its SELECT: "avg" or "median", of what a head has */
    bool percent;                /* shown as a percentage */
} qk__headline_column;

enum { QK__NUM_HEADLINES = 35 };
extern const qk__headline_column qk__headline_columns[QK__NUM_HEADLINES];

/* A row: one model, or all heads of several models together. */
typedef struct qk__headline {
    const qk__result_model *model; /* NULL: of several models */
    const char *family;            /* NULL: of all models */
    size_t num_models, num_heads;
    double values[QK__NUM_HEADLINES]; /* NaN: no table has it */
    size_t counts[QK__NUM_HEADLINES]; /* heads that have the number */
} qk__headline;

typedef struct qk__headlines {
    size_t count;
    qk__headline *rows; /* models in order, then families in order, all of them at the end */
    bool present[QK__NUM_HEADLINES]; /* some row has the number */
} qk__headlines;

QK_MUST_CHECK qk_status qk__headlines_compute(const qk__results *results, qk__store *tables,
                                              qk__headlines *headlines, qk_error *err);
void qk__headlines_free(qk__headlines *headlines);

#endif
