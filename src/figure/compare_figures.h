/* SPDX-License-Identifier: Apache-2.0 */
/* Which numbers the figures of two models show, and what they are called there. */
#ifndef QK_FIGURE_COMPARE_FIGURES_H
#define QK_FIGURE_COMPARE_FIGURES_H

#include "figure/ask.h"
#include "figure/figure.h"

enum { QK__MOST_COMPARED = 6 };

/* Columns of the SELECT of these figures (figures.def): rows of one metric after the other, each a head that has it in a
 * and b. supported: 1 or 0; NaN: not tested. last: layer and query head of all heads that are in both. */
enum {
    QK__COMPARED_PLACE = 1,
    QK__COMPARED_METRIC,
    QK__COMPARED_LAYER,
    QK__COMPARED_HEAD,
    QK__COMPARED_A,
    QK__COMPARED_B,
    QK__COMPARED_DIFFERENCE,
    QK__COMPARED_SUPPORTED,
    QK__COMPARED_LAST_LAYER,
    QK__COMPARED_LAST_HEAD,
};

/* The rows of each metric; returns how many. */
size_t qk__compared_metrics(const qk__found *rows, qk__found of[QK__MOST_COMPARED]);
/* The label of a metric, cut to that width in pixels, and more: markup. */
const char *qk__compared_title(qk__figure *figure, const qk__found *rows, double width,
                               const char *more);

#endif
