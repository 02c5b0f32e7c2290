/* SPDX-License-Identifier: Apache-2.0 */
/* Which heads a claim is about, and one number per unit: per model with three or more of them, else per
 * group of query heads that share their keys. */
#ifndef QK_REPORT_CLAIM_UNITS_H
#define QK_REPORT_CLAIM_UNITS_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/analysis.h>

#include "report/finding.h"
#include "results/results.h"
#include "stats/layer_model.h"

enum { QK__ENOUGH_MODELS = 3 /* for a claim about models */ };

/* Heads that a claim is about. */
typedef struct qk__scope {
    const qk__results *results;
    const qk__result_model *model; /* NULL: all, or those of family */
    const char *family;            /* NULL: any */
} qk__scope;

/* All models; the last one of a row of checkpoints. */
qk__scope qk__whole_scope(const qk__results *results);
/* As qk__each_model (results/results.h). */
const qk__result_model *qk__next_in_scope(const qk__scope *scope,
                                          const qk__result_model *before);
#define qk__each_in_scope(scope, model)                                                        \
    for (const qk__result_model *model = NULL; (model = qk__next_in_scope(scope, model));)

/* A number of a head; NaN: it has none. */
typedef double qk__head_number(const qk__result_head *head, const void *argument);

/* Fewer than QK_FEW_ROWS of a kind: its numbers are mostly chance, and no finding counts them. */
static inline bool qk__has_few_rows(const qk__result_head *head)
{
    return head->n_q < QK_FEW_ROWS || head->n_k < QK_FEW_ROWS;
}
/* As a run warns of (analysis.c). */
static inline bool qk__is_led_by_few_texts(const qk__result_head *head)
{
    return head->v.texts >= QK_FEW_TEXTS && head->v.effective_texts < head->v.texts &&
           isnan(head->v.category_probability);
}
/* NaN for a head of few rows. */
double qk__number_of(const qk__result_head *head, qk__head_number *number,
                     const void *argument);

qk__head_number qk__field_number; /* of a qk__field */
qk__head_number qk__field_size;   /* its size, whatever its sign */
qk__head_number qk__query_lead;   /* by how much |r_q| is above |r_k| */

/* The share of heads whose number is above `against`, less the share of those below: 1 where all are above, -1 where all
 * are below. NaN: no head has the number. */
double qk__lean(const qk__scope *scope, qk__head_number *number, const void *argument,
                double against);

/* Heads come by layer and query head, so those that share keys are neighbours: the first head after
 * the group that begins at `first`. */
size_t qk__group_end(const qk__result_model *model, size_t first);

/* One number per unit. */
typedef struct qk__units {
    size_t count;
    double *values;
    size_t num_groups;
    double *groups;    /* per group of heads that share keys, whatever the units are */
    qk__layers layers; /* of these groups */
    size_t heads;      /* that had a number */
    size_t models;     /* that had one */
    size_t positive;   /* heads with more than 0 */
    double mean;       /* over heads, as the tables of the page have it */
    bool of_models;    /* a unit is a model, else a group */
} qk__units;

/* Gathers them, in memory of the topic; count 0: nothing has the number, or memory ran out (then the
 * findings fail). */
qk__units qk__units_of(qk__findings *findings, const qk__scope *scope, qk__head_number *number,
                       const void *argument);

#endif
