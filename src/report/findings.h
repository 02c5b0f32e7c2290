/* SPDX-License-Identifier: Apache-2.0 */
/* What the numbers say, in sentences: a claim, whether the data support it, and on what
 * evidence.
 *
 * Claims about models need models: with three or more models a unit is a model's mean over its
 * heads. With fewer, and for the last of a row of checkpoints, the claim is about those models
 * only, and a unit is a group of query heads that share their keys, since these are not
 * independent. Every claim that is tested has a p-value; the p-values of all findings are corrected
 * together, and the verdict follows the corrected one. */
#ifndef QK_REPORT_FINDINGS_H
#define QK_REPORT_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "report/work.h"
#include "results/results.h"

typedef enum qk__verdict {
    QK__SUPPORTED,   /* the corrected p-value is at most QK__LEVEL, on the claim's side */
    QK__OPPOSITE,    /* likewise, on the other side */
    QK__DIVIDED,     /* one thing in some families or models, another in others */
    QK__UNSUPPORTED, /* it is larger */
    QK__TOO_FEW,     /* too little to tell */
    QK__MEASURED,    /* a number, no claim */
    QK__NUM_VERDICTS,
} qk__verdict;

extern const char *const qk__verdict_names[QK__NUM_VERDICTS];  /* "not supported" */
extern const char *const qk__verdict_tokens[QK__NUM_VERDICTS]; /* "unsupported" */

enum { QK__NUM_SHOWN = 3 };

typedef struct qk__finding {
    const char *id;    /* "bias-recent" */
    const char *topic; /* "Rotation model" */
    qk__verdict verdict;
    char *claim;    /* one sentence, text (not markup) */
    char *evidence; /* lines of text */
    /* Of its test, the smallest one of several: as it is, and corrected together with those of all
     * other findings (significance.h). NaN: it has none. */
    double p, p_adjusted;
    /* Figures that show it, by the names of qk__figure_kind, the rest NULL. Of these results some may
     * not be drawn. */
    const char *figures[QK__NUM_SHOWN];
} qk__finding;

/* The p-values of all findings. They are gathered first; then all is said once more, with the
 * corrected ones. */
typedef struct qk__tests {
    size_t count, capacity, next;
    double *p; /* [2][capacity]: as they are, and corrected */
    bool corrected;
    double level; /* the largest p that holds, where all are corrected together */
} qk__tests;

typedef struct qk__score_choice {
    const char *metric, *column; /* as of qk__subject */
} qk__score_choice;

typedef struct qk__findings {
    size_t count, capacity;
    qk__finding *items;
    qk__tests tests;
    const qk__score_choice *scores; /* while they are derived */
    qk__work work;                  /* where it has failed, what follows does nothing */
} qk__findings;

/* All that the tables allow. */
QK_MUST_CHECK qk_status qk__findings_derive(const qk__results *results,
                                            const qk__score_choice *scores,
                                            qk__findings *findings, qk_error *err);
void qk__findings_free(qk__findings *findings);

/* Whether it says something that the figure of that name shows. */
bool qk__is_shown_by(const qk__finding *finding, const char *figure);

#endif
