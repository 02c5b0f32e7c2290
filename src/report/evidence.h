/* SPDX-License-Identifier: Apache-2.0 */
/* What the findings share: which heads a claim is about, its units, phrases, and questions that
 * several ask alike.
 *
 *     evidence.c   all of this
 *     findings_pca.c, findings_rotation.c, findings_plasticity.c, findings_depth.c,
 *     findings_stages.c, findings_training.c
 *                           the findings of a topic; findings.c calls them */
#ifndef QK_REPORT_EVIDENCE_H
#define QK_REPORT_EVIDENCE_H

#include <stdbool.h>

#include <qkscope/analysis.h>

#include "report/estimate.h"
#include "report/findings.h"
#include "report/page.h"

/* Heads that a claim is about. */
typedef struct qk__scope {
    const qk__results *results;
    const qk__result_model *model; /* NULL: all, or those of family */
    const char *family;            /* NULL: any */
} qk__scope;

/* All models; the last one of a row of checkpoints. */
qk__scope qk__whole_scope(const qk__results *results);
bool qk__in_scope(const qk__scope *scope, const qk__result_model *model);

/* A number of a head; NaN: it has none. */
typedef double qk__head_number(const qk__result_head *head, const void *argument);

/* Fewer than QK_FEW_ROWS of a kind: its numbers are mostly chance, and no finding counts them.
 * */
static inline bool qk__has_few_rows(const qk__result_head *head)
{
    return head->n_q < QK_FEW_ROWS || head->n_k < QK_FEW_ROWS;
}

double qk__field_number(const qk__result_head *head, const void *field); /* a qk__field */

/* One number per unit. */
typedef struct qk__units {
    size_t count;
    double *values;
    size_t heads;    /* that had a number */
    size_t models;   /* that had one */
    size_t positive; /* heads with more than 0 */
    double mean;     /* over heads */
    bool of_models;  /* a unit is a model, else a group of heads that share keys */
} qk__units;

/* Gathers them; count 0: nothing has the number, or memory ran out (then the findings
 * fail). */
qk__units qk__units_of(qk__findings *findings, const qk__scope *scope, qk__head_number *number,
                       const void *argument);
void qk__units_free(qk__units *units);

/* " across 11 models", " in NAME", " in these 2 models", " at the last checkpoint, NAME". */
typedef struct qk__phrase {
    char text[400];
} qk__phrase;
qk__phrase qk__where(const qk__scope *scope, const qk__units *units);
/* "11 models (3,239 heads)", "10 groups of heads that share keys (20 heads)". */
qk__phrase qk__how_many(const qk__units *units);
/* "95 % interval 0.12 to 0.31"; "no interval" without one. */
qk__phrase qk__interval(const qk__estimate *estimate, int digits);
qk__phrase qk__interval_percent(const qk__estimate *estimate);

/* "at most 8 keys of each bucket and text", as the captures of a scope hold; "" where they have all
 * rows. */
qk__phrase qk__held_keys(const qk__scope *scope);

/* Adds to a finding about plasticity what the choice of keys adds to it, where there was one. */
void qk__tell_held_keys(qk__findings *findings, const qk__scope *scope);

/* What an estimate says of "more than against". */
qk__verdict qk__judge(const qk__estimate *estimate, double against);

/* Adds a finding; sentences follow with qk__claim and qk__evidence (one line each call).
 * qk__finding_verdict is for one whose evidence comes first. */
void qk__finding_begin(qk__findings *findings, const char *id, const char *topic,
                       qk__verdict verdict);
void qk__finding_verdict(qk__findings *findings, qk__verdict verdict);
void qk__claim(qk__findings *findings, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void qk__evidence(qk__findings *findings, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- questions -------------------------------------------------------------------------- */

/* Whether a mean over units lies above or below a number, and what is said then. */
typedef struct qk__question {
    const char *id, *topic;
    const char *field;       /* the mean is of this column; NULL: of `number` */
    qk__head_number *number; /* takes no argument but `component` */
    size_t component;
    bool share; /* of the share of heads whose column is above `above` */
    double above, against;
    /* Claims by what the interval says; '@' becomes the place that qk__where names. */
    const char *higher, *lower, *either, *too_few;
} qk__question;

typedef struct qk__answer {
    size_t heads, positive; /* as of qk__units */
    qk__estimate estimate;  /* of the mean */
    qk__phrase how_many;    /* qk__how_many */
} qk__answer;

/* Begins the finding and makes its claim; evidence follows. False: no head has the number, and
 * nothing is said. */
bool qk__ask(qk__findings *findings, const qk__scope *scope, const qk__question *question,
             qk__answer *answer);

/* ---- families of findings --------------------------------------------------------------- */

void qk__findings_pca(qk__findings *findings, const qk__results *results);
void qk__findings_rotation(qk__findings *findings, const qk__results *results);
void qk__findings_plasticity(qk__findings *findings, const qk__results *results,
                             const qk__score_choice *scores);
void qk__findings_depth(qk__findings *findings, const qk__results *results);
void qk__findings_stages(qk__findings *findings, const qk__results *results);
void qk__findings_training(qk__findings *findings, const qk__results *results);

#endif
