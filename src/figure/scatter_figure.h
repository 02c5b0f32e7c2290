/* SPDX-License-Identifier: Apache-2.0 */
/* Panels of points coloured by token position: queries blue, keys red, or one text among grey (scatter_figure.c, which
 * leads). Or panels of strips. */
#ifndef QK_FIGURE_SCATTER_FIGURE_H
#define QK_FIGURE_SCATTER_FIGURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "figure/position_scale.h"

/* One row of a capture on two axes. */
typedef struct qk__point {
    double x, y;
    int64_t position;
    bool is_key;
    bool is_background; /* drawn grey, below the others */
    int32_t token;      /* a number of the caller's; not drawn */
} qk__point;

/* Rows of attention of one text. Neighbouring keys share a column, which shows the largest of their weights. */
enum { QK__STRIPS = 12, QK__STRIP_COLUMNS = 400 };
typedef struct qk__strips {
    size_t rows, columns;
    int64_t width;           /* keys of a column */
    int64_t row[QK__STRIPS]; /* positions; and as text: */
    const char *labels[QK__STRIPS];
    char texts[QK__STRIPS][24];
    double *weight; /* [rows][columns]; NaN: the row sees none of these keys */
    double (
        *from)[2]; /* [rows][columns] position of the key with that weight, and of the row */
} qk__strips;

typedef struct qk__scatter_panel {
    const char *title;    /* markup */
    const char *notes[2]; /* markup, lines between title and points; NULL = none */
    const char *box;      /* markup, lines in a box over the points, each with '\n' behind it;
                             NULL = none */
    const qk__point *points;
    size_t count;
    const qk__strips *strips; /* in place of points */
} qk__scatter_panel;

typedef struct qk__scatter {
    const char *title;             /* from outside; NULL = none */
    const char *subtitle;          /* markup; NULL = none */
    const char *x_label, *y_label; /* markup; of all panels */
    int columns;                   /* filled row by row */
    size_t num_panels;
    const qk__scatter_panel *panels;
    qk__position_span q, k; /* shared by all panels */
    bool zero_lines;        /* through 0 each way, which is always on the axes then */
    bool one_text; /* all but the background in viridis, one bar for queries and keys */
} qk__scatter;

/* Describes the whole figure and sets its size. Points are drawn in their order, later ones over earlier ones. */
void qk__figure_scatter(qk__figure *figure, const qk__scatter *scatter);
/* The edges of a panel. */
typedef struct qk__scatter_axes {
    double x_low, x_high, y_low, y_high;
} qk__scatter_axes;
qk__scatter_axes qk__panel_axes(const qk__scatter *scatter, const qk__scatter_panel *panel);
/* The same for panels that are strips (strip_figure.c). */
void qk__figure_strips(qk__figure *figure, const qk__scatter *scatter);

#endif
