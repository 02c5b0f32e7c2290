/* SPDX-License-Identifier: Apache-2.0 */
/* Maps: cells in rows and columns, coloured by a scale. Several maps stand side by side, with the bar of a shared
 * scale below them, or each with its own bar beside it. */
#ifndef QK_FIGURE_MAPS_H
#define QK_FIGURE_MAPS_H

#include "figure/scale.h"
#include "figure/sheet.h"

/* With more panels than this a figure shows only some models. */
enum { QK__MAX_PANELS = 12, QK__MOST_MAPS = 144 };

typedef struct qk__map {
    size_t rows, columns;
    double *values;    /* [rows][columns], row 0 at the top; NaN = hatched */
    double *pairs;     /* [rows][columns], or NULL: the pairs behind each cell */
    double enough;     /* least pairs of a cell that is not hatched */
    const char *title; /* markup; NULL = none */
    const char *name;  /* plain, or markup whose whole the figure knows; NULL = none */
    const char *const *row_labels;    /* [rows] markup; NULL = numbers */
    const char *const *column_labels; /* [columns] */
    /* above 0: width of a cell; axes begin at 0, rows without labels are counted from below */
    double unit;
    /* [rows][columns] what the value is from, told in place of column and row; NULL: these */
    double (*from)[2];
    const char *format; /* of values in cells, where there is room; NULL = none */
    const char *bar;    /* what the scale shows, markup; NULL = nothing */
    double line;        /* where a dashed line crosses; 0: none */
    qk__scale scale;
    bool missing, texts, image; /* found while maps are drawn */
} qk__map;

typedef struct qk__maps {
    qk__sheet sheet; /* gaps leave room for bars */
    size_t count;
    qk__map maps[QK__MOST_MAPS];
    bool one_scale;                /* the scale of the first map, in one bar below all */
    const char *x_label, *y_label; /* markup */
    const char *hatched;           /* what places without a value are, said below */
    /* rows are its models: phases of training stand apart; NULL: no */
    const qk__results *parted;
} qk__maps;

/* Makes the rows and columns of a map, all without values. False without memory: the figure has failed. */
bool qk__start_map(qk__figure *figure, qk__map *map, size_t rows, size_t columns);
/* Lays the sheet out, and draws the whole figure. The heading must be set. */
void qk__draw_maps(qk__figure *figure, qk__maps *all);

#endif
