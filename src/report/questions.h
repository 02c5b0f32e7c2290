/* SPDX-License-Identifier: Apache-2.0 */
/* The questions that findings answer: a row each, with SQL expressions over the numbers of heads. */
#ifndef QK_REPORT_QUESTIONS_H
#define QK_REPORT_QUESTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "report/finding.h"

typedef enum qk__question_kind {
    /* Of y, beside the bound `against`: */
    QK__MEAN,   /* its mean */
    QK__SIGNED, /* its mean, for whole numbers, which are tested by their signs */
    QK__SHARE,  /* the share of heads in which y is above the bound, beside one half */
    QK__FIRST,  /* the lead of component 0 over every other component */
    /* y of one group of heads less y of the other: x is 1 and 0 there, NULL for a head in no group. */
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
    bool both_ways;    /* `lower` is as expected as `higher` */
    bool by_family;    /* it is asked in each family */
    const char *y, *x; /* SQL; x NULL: there is none */
    double against;
    const char *what;        /* what y is; for a series the noun of its claim */
    const char *more, *less; /* names of the heads of both groups */
    const char *higher, *lower, *either, *too_few;
    const char *note; /* another line of evidence; NULL: none */
    const char *figures[QK__NUM_SHOWN];
} qk__question;

extern const qk__question qk__questions[];
extern const size_t qk__num_questions;

#endif
