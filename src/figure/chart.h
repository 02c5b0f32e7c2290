/* SPDX-License-Identifier: Apache-2.0 */
/* A panel of a chart: its numbers (chart.c, which leads), drawn by charts.c. */
#ifndef QK_FIGURE_CHART_H
#define QK_FIGURE_CHART_H

#include "figure/catalog.h"
#include "figure/sheet.h"

typedef struct qk__chart {
    const qk__panel *panel;
    size_t count, width; /* series; columns of one in the data, the first in column 2 */
    size_t block;
    qk__range range; /* what the axis must hold */
    qk__power power;
} qk__chart;

size_t qk__count_series(const qk__panel *panel);
/* Models, layers, components or dimensions. */
size_t qk__count_places(const qk__subject *subject);
/* Whether there is any number of a panel. */
bool qk__has_numbers(const qk__subject *subject, const qk__panel *panel);
/* Writes the numbers: a row for each place. */
qk__chart qk__make_chart(qk__figure *figure, const qk__subject *subject,
                         const qk__panel *panel);
/* Sets the axis of the values, and the lines across. */
void qk__set_values(qk__figure *figure, const qk__chart *chart, const qk__place *place);

#endif
