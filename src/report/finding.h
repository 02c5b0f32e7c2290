/* SPDX-License-Identifier: Apache-2.0 */
/* One finding, and what all of them are gathered in. findings.h says what they are about. */
#ifndef QK_REPORT_FINDING_H
#define QK_REPORT_FINDING_H

#include <stdbool.h>
#include <stddef.h>

#include "report/work.h"

typedef enum qk__verdict {
    QK__SUPPORTED,   /* the corrected p-value is at most QK__LEVEL, on the claim's side */
    QK__OPPOSITE,    /* likewise, on the other side */
    QK__DIVIDED,     /* one thing in some families or models, another in others */
    QK__UNSUPPORTED, /* it is larger */
    QK__TOO_FEW,     /* too little to tell */
    QK__NUM_VERDICTS,
} qk__verdict;

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
    /* How large what holds is, 0 to 1, the smallest one of several: of numbers of heads the share of heads on that
     * side less the share on the other, of a relation |r|. NaN: nothing holds. */
    double effect;
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
    qk__work work; /* where it has failed, what follows does nothing */
} qk__findings;

#endif
