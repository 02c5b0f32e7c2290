/* SPDX-License-Identifier: Apache-2.0 */
/* Which numbers the figures of two models show, and what they are called there. */
#ifndef QK_FIGURE_COMPARE_FIGURES_H
#define QK_FIGURE_COMPARE_FIGURES_H

#include "figure/figure.h"
#include "results/comparison.h"

enum { QK__MOST_COMPARED = 6 };

/* Those that both have, at least one; returns how many. */
size_t qk__compared_metrics(const qk__comparison *c,
                            const qk__compared_metric *chosen[QK__MOST_COMPARED]);
/* The label of a number, cut to that width in pixels, and more: markup. */
const char *qk__compared_title(qk__figure *figure, const qk__compared_metric *metric,
                               double width, const char *more);

#endif
