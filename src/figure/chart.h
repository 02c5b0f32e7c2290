/* SPDX-License-Identifier: Apache-2.0 */
/* A panel of a chart: its numbers (chart.c, which leads), drawn by charts.c. */
#ifndef QK_FIGURE_CHART_H
#define QK_FIGURE_CHART_H

#include "figure/catalog.h"
#include "figure/sheet.h"

/* What is taken over the heads of a place: columns of the rows (ask_heads.c). */
enum { QK__VALUE, QK__VALUE_LOW, QK__VALUE_HIGH, QK__VALUE_MEDIAN, QK__NUM_VALUES };

typedef struct qk__chart {
    const qk__panel *panel;
    size_t count, rows;                             /* series; places with heads */
    double *place;                                  /* [rows] */
    double *values[QK__MAX_SERIES][QK__NUM_VALUES]; /* [rows], in the units of the tables */
    bool interval;                                  /* there are low and high */
    qk__range range;                                /* what the axis must hold */
    qk__power power;
} qk__chart;

/* Models, layers, components or dimensions. */
size_t qk__count_places(const qk__subject *subject);
/* Whether there is any number of a panel. */
bool qk__has_numbers(const qk__subject *subject, const qk__panel *panel);
/* Its numbers, which are told, too. names: of the places; NULL: their numbers. */
qk__chart qk__make_chart(qk__figure *figure, const qk__subject *subject, const qk__panel *panel,
                         const char *const *names);
/* The axis of the values. */
qk__axis qk__value_axis(const qk__chart *chart);

#endif
