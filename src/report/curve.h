/* SPDX-License-Identifier: Apache-2.0 */
/* A number over checkpoints of one training run, heads compared with themselves; heads that share keys
 * count once. */
#ifndef QK_REPORT_CURVE_H
#define QK_REPORT_CURVE_H

#include "report/claim_units.h"

typedef struct qk__curve {
    const qk__sample *of;
    size_t count;           /* checkpoints that have the number */
    size_t *points;         /* [count] the numbers of their models */
    size_t heads, groups;   /* that have the number at all checkpoints */
    double *means;          /* [count] over these heads */
    double *halves;         /* [count] of intervals; NaN: none */
    double *values;         /* [count][groups] */
    double *scratch;        /* [groups] */
    int *layer_of;          /* [groups] */
    qk__layer_mean *layers; /* scratch, [groups] */
    qk__test *tests; /* [count][count] of the change from one checkpoint to a later one */
    double
        *plain; /* [count][count] their p-values before Holm's correction, which makes ties */
} qk__curve;

/* The curve over checkpoints in order. count 0: nothing has the number, or memory ran out (then the work has failed).
 *
 * Heads differ among themselves more than over training, and what they keep is no uncertainty of a
 * change. So the interval of a checkpoint is Student's after each group's mean over checkpoints is
 * taken off, its standard error times sqrt(count / (count - 1)) (Cousineau 2005, Morey 2008). */
qk__curve qk__curve_of(qk__work *work, const qk__asked *asked);

/* The change from one checkpoint to another, over groups or over their layers: the wider interval. Its level is 95 % for
 * all pairs of checkpoints together (Bonferroni), as its p-value is: that of the most certain change contains 0 where p is
 * above 0.05. */
qk__estimate qk__curve_change(const qk__curve *curve, size_t from, size_t to);
/* The share of groups that rise from one checkpoint to another, less the share of those that fall. */
double qk__curve_lean(const qk__curve *curve, size_t from, size_t to);
/* The test of the change to a later checkpoint, over groups and their layers, corrected for the number of pairs of
 * checkpoints (Holm 1979). */
qk__test qk__curve_test(const qk__curve *curve, size_t from, size_t to);
/* The most certain test of all pairs. */
qk__test qk__curve_test_any(const qk__curve *curve, size_t *from, size_t *to);

/* Splits the curve where it turns: pivots[0] .. pivots[n] bound n legs. Each leg goes one way by more than chance
 * (qk__curve_test at most `level`), and the next leg turns back by more than chance. pivots has room for count.
 * Returns n. */
size_t qk__curve_legs(const qk__curve *curve, double level, size_t *pivots);

#endif
