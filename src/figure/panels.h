/* SPDX-License-Identifier: Apache-2.0 */
/* Several plots in one figure: their places, axes of models, powers of ten (panels.c, which leads), and legends
 * (legend.c). Lengths are nominal pixels, from the top left. */
#ifndef QK_FIGURE_PANELS_H
#define QK_FIGURE_PANELS_H

#include "figure/figure.h"
#include "figure/heading.h"
#include "figure/figure_text.h"
#include "figure/scale.h"
#include "results/results.h"

/* The place of a plot, without its axes. */
typedef struct qk__place {
    double left, top, width, height;
} qk__place;

/* On a page of given width (--width): at most so many columns, each at least that many pixels wide at type of 13; else
 * the columns that were asked for. */
size_t qk__fit_columns(const qk__figure *figure, size_t columns, double least);
/* Sets the width that suits what is drawn, unless the page's width is given. */
void qk__suit_width(qk__figure *figure, double width);
/* A plot in that place, with axis numbers in small type. */
qk__plot qk__figure_plot(qk__figure *figure, const qk__place *place);
/* A label up the left side of a panel, markup. */
void qk__label_panel(qk__figure *figure, const qk__place *place, const char *label);
/* The word for the models of a study, markup: "Model" or "Training checkpoint". */
const char *qk__model_word(const qk__results *results);

/* The x axis of a plot of that width over the models in order. */
typedef struct qk__model_axis {
    const qk__results *results;
    double width;
    bool turned;
    size_t step;   /* between labels that are shown */
    double height; /* of the labels, and of the axis */
    double reach;  /* of a turned label, to the left of its place */
} qk__model_axis;
qk__model_axis qk__plan_model_axis(qk__figure *figure, const qk__results *results,
                                   double width);
/* The range of the plot; and the labels below it. */
qk__axis qk__model_range(const qk__results *results);
void qk__draw_model_axis(qk__figure *figure, const qk__model_axis *axis, const qk__plot *plot);

/* Labels (markup) at 0, 1, ..., only every step-th. */
void qk__put_labels(qk__figure *figure, const qk__plot *plot, qk__edge edge,
                    const char *const *labels, size_t count, size_t step, qk__tic_style style);
/* The step between tics for so many places on an axis of that length, each tic at least `least` pixels. */
size_t qk__tic_step(size_t count, double length, double least);

/* What the axis shows, below its labels. */
void qk__label_model_axis(qk__figure *figure, const qk__model_axis *axis,
                          const qk__place *place);

/* Over an axis of checkpoints (all models in order at 0, 1, ...): dashed lines between phases, and their names above
 * the plot, in lines as wide as the phase; left out where only a few letters fit. Nothing where the models are no
 * checkpoints. */
void qk__name_phases(qk__figure *figure, const qk__results *results, const qk__place *place);
/* The height of these names above a plot of that width. */
double qk__phases_height(const qk__figure *figure, const qk__results *results, double width);
/* The dashed lines. */
void qk__part_phases(const qk__plot *plot, const qk__results *results);

/* A legend in as many columns as fit a width. */
typedef struct qk__entry {
    const char *name;
    const char *color;
    int sign;       /* a qk__sign, or one of those below */
    double opacity; /* 0: opaque */
} qk__entry;
enum { QK__AREA = -1, QK__LINE = -2, QK__MAX_ENTRIES = 64 };

typedef struct qk__legend {
    size_t count, columns;
    double name_width, column_width, height; /* name_width: at most */
    const qk__entry *entries;
    bool markup; /* names are ours */
} qk__legend;
qk__legend qk__plan_legend(const qk__figure *figure, const qk__entry *entries, size_t count,
                           bool markup, double width);
/* Centred about x, top at y. */
void qk__put_legend(qk__figure *figure, const qk__legend *legend, double x, double y);

/* What colours distinguish: phases of checkpoints, else families. */
int qk__color_group(const qk__results *results, const qk__result_model *model);
size_t qk__color_groups(const qk__results *results, const char *const **names);

/* Areas in the series colours, for at most QK__MAX_ENTRIES names; returns how many. */
size_t qk__series_entries(const qk__figure *figure, const char *const *names, size_t count,
                          qk__entry entries[QK__MAX_ENTRIES]);

/* An empty range is widened. */
qk__axis qk__axis_between(double low, double high);
/* Lines and numbers of both axes, at the left and below; about so many pixels apart, at type of 13. */
void qk__draw_number_axes(const qk__figure *figure, const qk__plot *plot, double across,
                          double up);
/* A line at a boundary: dashed, muted. */
qk__pen qk__guide(const qk__figure *figure);
/* The line at 0. */
qk__pen qk__zero_line(const qk__figure *figure);

/* The name of a column, cut to a width in pixels, and more, markup: above a panel. */
const char *qk__metric_title(qk__figure *figure, const char *column, double width,
                             const char *more);

#endif
