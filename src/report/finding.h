/* SPDX-License-Identifier: Apache-2.0 */
/* A finding, and the list of all findings. findings.h says what they are about. */
#ifndef QK_REPORT_FINDING_H
#define QK_REPORT_FINDING_H

#include <stdbool.h>
#include <stddef.h>

#include "report/work.h"

typedef enum qk__verdict {
    QK__SUPPORTED,   /* the corrected p-value is at most QK__LEVEL, on the claim's side */
    QK__OPPOSITE,    /* the same, on the other side */
    QK__DIVIDED,     /* different verdicts in families or models */
    QK__UNSUPPORTED, /* the corrected p-value is larger */
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
    /* The smallest p-value of its tests: as it is, and corrected together with the tests of all findings
     * (stats/significance.h). NaN: it has no test. */
    double p, p_adjusted;
    /* The smallest effect, 0 to 1, of the tests that hold: for numbers of heads the share of heads on that side
     * less the share on the other, for a relation |r|. NaN: no test holds. */
    double effect;
    /* Figures that show it, by the names of qk__figure_kind, the rest NULL. Some may not be drawn for these
     * results. */
    const char *figures[QK__NUM_SHOWN];
} qk__finding;

/* The p-values of all findings. They are gathered first; then all is said again with the corrected ones. */
typedef struct qk__tests {
    size_t count, capacity, next;
    double *p; /* [2][capacity]: as they are, and corrected */
    bool corrected;
    double level; /* the largest p that holds when all are corrected together */
} qk__tests;

typedef struct qk__score_choice {
    const char *metric, *column; /* as in qk__subject */
} qk__score_choice;

typedef struct qk__findings {
    size_t count, capacity;
    qk__finding *items;
    qk__tests tests;
    qk__work work; /* after it has failed, nothing more is done */
} qk__findings;

#endif
