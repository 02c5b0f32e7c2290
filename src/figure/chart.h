/* SPDX-License-Identifier: Apache-2.0 */
/* A panel of a chart: its numbers (chart.c, which leads), drawn by charts.c. */
#ifndef QK_FIGURE_CHART_H
#define QK_FIGURE_CHART_H

#include "figure/catalog.h"
#include "figure/sheet.h"

/* The statistics over the heads of a place: columns of the rows (ask_heads.c). */
enum { QK__VALUE, QK__VALUE_LOW, QK__VALUE_HIGH, QK__VALUE_MEDIAN, QK__NUM_VALUES };

typedef struct qk__chart {
    const qk__panel *panel;
    size_t count, rows;                             /* series; places with heads */
    double *place;                                  /* [rows] */
    double *values[QK__MAX_SERIES][QK__NUM_VALUES]; /* [rows], in the units of the tables */
    bool interval;                                  /* low and high are there */
    qk__range range;                                /* the values that the axis must include */
    qk__power power;
} qk__chart;

/* The number of models, layers, components or dimensions. */
size_t qk__count_places(const qk__subject *subject);
/* Whether a panel has any number. */
bool qk__has_numbers(const qk__subject *subject, const qk__panel *panel);
/* The numbers of a panel, which are also told. names: of the places; NULL: their numbers. */
qk__chart qk__make_chart(qk__figure *figure, const qk__subject *subject, const qk__panel *panel,
                         const char *const *names);
/* The axis of the values. */
qk__axis qk__value_axis(const qk__chart *chart);

#endif
