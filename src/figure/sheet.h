/* SPDX-License-Identifier: Apache-2.0 */
/* Where the panels of a figure stand, in rows and columns below its heading, with one legend for all. No other file
 * places panels. */
#ifndef QK_FIGURE_SHEET_H
#define QK_FIGURE_SHEET_H

#include "figure/panels.h"

/* Lengths are pixels at type of 13. */
typedef struct qk__sheet {
    size_t count;
    size_t most;             /* columns at most; 0: what suits that many panels */
    double least;            /* of a column: a page of given width has fewer columns */
    double left, gap, right; /* before the first panel, between two, behind the last */
    double width; /* of a panel on a free page; 0: an equal share for `most` columns */
    double above, height, below; /* of each panel: names, the plot, tics and labels */
    bool square;                 /* on a page of given width no higher than wide */
    double head, foot;           /* free before the first row, and at the end */
    const qk__entry *entries;    /* of the legend, between the heading and the panels */
    size_t num_entries;
    bool markup;        /* its names are ours */
    const double *less; /* [rows] by how much `above` is less in each row; NULL: in none */
    /* what qk__lay_out finds; it may be called again */
    double page;
    size_t columns, rows;
    qk__place first;
    double across, down, em;
    qk__legend legend;
} qk__sheet;

/* Finds the places and sets the figure's size. The heading must be set. */
void qk__lay_out(qk__figure *figure, qk__sheet *sheet);
/* Lays out, then draws heading and legend. */
void qk__begin_sheet(qk__figure *figure, qk__sheet *sheet);

qk__place qk__panel_place(const qk__sheet *sheet, size_t panel);
bool qk__is_leftmost(const qk__sheet *sheet, size_t panel);
bool qk__is_lowest(const qk__sheet *sheet, size_t panel);

/* The names of the axes of a single panel, markup. */
void qk__put_axis_names(qk__figure *figure, const char *x, const char *y,
                        const qk__sheet *sheet);

/* A name from outside above a panel, in as many lines as it needs (three at most), the last line so far above it; and
 * the number of lines in a panel of that width. */
#define QK__NAME_LINE 15.0
size_t qk__name_lines(const qk__figure *figure, const char *name, double width);
void qk__put_name(qk__figure *figure, const char *name, const qk__place *place, double above);

#endif
