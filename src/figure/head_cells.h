/* SPDX-License-Identifier: Apache-2.0 */
/* The cells of head maps: which models a map shows, the value of each of their heads, and the
 * colour that stands for it. */
#ifndef QK_FIGURE_HEAD_CELLS_H
#define QK_FIGURE_HEAD_CELLS_H

#include "figure/panels.h"

/* Beyond so many panels a figure shows some of the models. */
enum { QK__MAX_PANELS = 12 };

/* What a map shows. */
typedef struct qk__map_kind {
    const char *field; /* NULL: the category */
    const char *title; /* markup, "... of every head" */
    const char *scale; /* markup, beside the colours */
    bool correlation;  /* colours reach to 1, and down to the smallest value below 0 */
    bool from_zero;    /* else from the smallest value */
    const qk__colormap *above, *below; /* of values from 0 up, and of negative ones */
} qk__map_kind;

/* Of one model; NaN: there is no such head, or it has no such number. */
typedef struct qk__head_grid {
    const qk__result_model *model;
    size_t layers, heads;
    double *values; /* [layers][heads] */
    size_t missing;
} qk__head_grid;

typedef struct qk__map_cells {
    const qk__map_kind *kind;
    size_t of, count; /* models with values, and those that are shown */
    qk__head_grid grids[QK__MAX_PANELS];
    size_t layers, heads; /* of the largest */
    size_t missing;
} qk__map_cells;

/* Which values the colours stand for; those beyond have the colour of the end. */
typedef struct qk__map_scale {
    double low, high;
    bool cut_low, cut_high;
    qk__power power;
} qk__map_scale;

bool qk__map_has_values(const qk__map_kind *kind, const qk__result_model *model);
/* All models with values, or the first, the last, and others evenly between them. */
void qk__choose_models(qk__figure *figure, const qk__results *results, qk__map_cells *all);

qk__map_scale qk__find_map_scale(qk__figure *figure, const qk__map_cells *all);
/* The colour of a cell, and whether a text in it is light. */
unsigned qk__map_color(const qk__figure *figure, const qk__map_kind *kind,
                       const qk__map_scale *s, double value, bool *dark);

#endif
