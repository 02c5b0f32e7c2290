/* SPDX-License-Identifier: Apache-2.0 */
/* Plasticity along the context by query bucket, a line for each head and one for their mean. */
#include <math.h>
#include <stdio.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

/* Columns of rows; the first says how many heads there are, and the curve that is the mean has a number above those of
 * all heads. */
enum { CURVE = 1, HEADS, LAYER, Q_HEAD, POSITION = 6, PLASTICITY };
enum { FEW_BUCKETS = 20 };
#define MEAN 4398046511104.0

static void put_curve(qk__figure *figure, const qk__found *rows, const qk__plot *plot,
                      const char *name, qk__pen pen)
{
    double *x = qk__figure_alloc(figure, rows->count + 1, sizeof *x);
    double *y = qk__figure_alloc(figure, rows->count + 1, sizeof *y);
    if (!x || !y)
        return;
    for (size_t i = 0; i < rows->count; i++) {
        x[i] = qk__number_in(rows, i, POSITION);
        y[i] = qk__number_in(rows, i, PLASTICITY);
        qk__tell_point(figure, NULL, name, x[i], y[i]);
    }
    qk__draw_curve(plot, x, y, rows->count, pen);
    if (pen.stroke == figure->theme->k && rows->count <= FEW_BUCKETS)
        qk__draw_points(plot, x, y, rows->count, QK__DISC, 2.4 * qk__em(figure), pen.stroke, 0);
}

/* Those of heads, then the mean. */
static void put_curves(qk__figure *figure, const qk__found *rows, const qk__plot *plot,
                       double opacity)
{
    const qk__pen faint = {.stroke = figure->theme->muted, .width = 0.7, .opacity = opacity};
    size_t i = 0;
    qk__begin_pen(&figure->canvas, faint);
    while (i < rows->count && qk__number_in(rows, i, CURVE) != MEAN) {
        const qk__found curve = qk__same_in(rows, i, CURVE);
        put_curve(figure, &curve, plot,
                  qk__figure_format(figure, "layer %.0f, head %.0f",
                                    qk__number_in(&curve, 0, LAYER),
                                    qk__number_in(&curve, 0, Q_HEAD)),
                  faint);
        i += curve.count;
    }
    qk__end_pen(&figure->canvas);
    const qk__found mean = {rows->of, rows->first + i, rows->count - i};
    put_curve(figure, &mean, plot, "mean", (qk__pen){.stroke = figure->theme->k, .width = 2.5});
}

/* From 0, unless there are positions on its other side. */
static qk__axis position_range(const qk__found *rows)
{
    qk__range shown = {0, 0};
    for (size_t i = 0; i < rows->count; i++)
        qk__range_add(&shown, qk__number_in(rows, i, POSITION));
    return qk__axis_between(shown.low, shown.high);
}

/* Curves of heads. */
static size_t count_curves(const qk__found *rows)
{
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i += qk__same_in(rows, i, CURVE).count)
        count += qk__number_in(rows, i, CURVE) != MEAN;
    return count;
}

void qk__build_profiles(qk__figure *figure, const qk__subject *subject)
{
    const qk__theme *theme = figure->theme;
    const qk__found curves = {subject->rows.of, subject->rows.first + 1,
                              subject->rows.count - 1},
                    *rows = &curves;
    const size_t drawn = count_curves(rows),
                 all = (size_t)qk__number_in(&subject->rows, 0, HEADS);
    double opacity = fmin(0.7, fmax(0.2, 3 / sqrt((double)drawn)));
    char heads[64];
    if (drawn < all)
        snprintf(heads, sizeof heads, "%zu of %zu heads", drawn, all);
    else
        snprintf(heads, sizeof heads, "single heads (%zu)", all);
    const qk__entry entries[] = {{heads, theme->muted, QK__LINE, opacity},
                                 {"mean over all heads", theme->k, QK__LINE, 0}};
    qk__sheet sheet = {.count = 1,
                       .left = 84,
                       .right = 24,
                       .above = 8,
                       .height = subject->kind->height,
                       .square = true,
                       .below = 54,
                       .entries = entries,
                       .num_entries = 2};
    qk__set_heading(figure, subject->results, subject->model, subject->kind->heading);
    qk__begin_sheet(figure, &sheet);
    const double em = qk__em(figure);
    qk__plot plot = qk__figure_plot(figure, &sheet.first);
    qk__put_axis_names(figure, "Position of the query (tokens)", "Attention plasticity",
                       &sheet);
    plot.x = position_range(rows);
    qk__number_tics(&plot, QK__BELOW, 70 * em, 0,
                    (qk__tic_style){.length = 4 * em, .grid = true, .format = "%.0f"});
    qk__number_tics(&plot, QK__LEFT, 40 * em, 0.2,
                    (qk__tic_style){.length = 4 * em, .grid = true});
    qk__begin_marks(&plot);
    put_curves(figure, rows, &plot, opacity);
    qk__end_marks(&plot);
    qk__draw_sides(&plot, 1u << QK__BELOW | 1u << QK__LEFT);
}
