/* SPDX-License-Identifier: Apache-2.0 */
/* The questions that findings answer: a row each, of expressions in SQL over the numbers of heads. */
#ifndef QK_REPORT_QUESTIONS_H
#define QK_REPORT_QUESTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "report/finding.h"

typedef enum qk__question_kind {
    /* Of y, beside the bound `against`: */
    QK__MEAN,   /* its mean */
    QK__SIGNED, /* likewise, of whole numbers, which are tested by their signs */
    QK__SHARE,  /* the share of heads in which it is above the bound, beside one half */
    QK__FIRST,  /* the lead of component 0 over every other one */
    /* Two groups of heads, y of the one less y of the other: x is 1 and 0 there, NULL for a head without a group. */
    QK__GROUPS,
    QK__RELATION, /* the correlation of x and y over heads */
    /* A change of y along a series: */
    QK__DEPTH,    /* of layers */
    QK__TRAINING, /* of checkpoints */
    QK__NUM_QUESTION_KINDS,
} qk__question_kind;

typedef struct qk__question {
    const char *id, *topic;
    qk__question_kind kind;
    bool both_ways;    /* `lower` is no less expected than `higher` */
    bool by_family;    /* it is asked in each family */
    const char *y, *x; /* SQL; x NULL: there is none */
    double against;
    const char *what;        /* what y is; of a series the noun of its claim */
    const char *more, *less; /* of groups: what their heads are called */
    const char *higher, *lower, *either, *too_few;
    const char *note; /* a further line of evidence; NULL: none */
    const char *figures[QK__NUM_SHOWN];
} qk__question;

extern const qk__question qk__questions[];
extern const size_t qk__num_questions;

#endif
