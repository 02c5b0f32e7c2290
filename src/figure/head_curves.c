/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers by distance of a few heads, and what predicts them: mean scores, measured attention. */
#include <math.h>
#include <stdio.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

enum { COLUMNS = 3, PREDICTIONS = 2, REACH = 10 };
/* Columns of rows. */
enum { PANEL = 1, LAYER, Q_HEAD, FIT, X, MEASURED, LOW, HIGH, PREDICTED };

/* A curve as it is drawn: distance + 1, since 0 has no place on a logarithmic axis. */
typedef struct drawn_curve {
    size_t count;
    double *x, *measured, *low, *high, *predicted[PREDICTIONS];
    qk__range shown;
} drawn_curve;

/* Of predicted ratios the axis holds those at most REACH times beyond the measured ones. */
static void find_range(bool ratio, const drawn_curve *c, qk__range *shown)
{
    for (size_t b = 0; b < c->count; b++)
        if (!ratio || c->measured[b] > 0)
            qk__range_add(shown, c->measured[b]);
    if (ratio && shown->low > shown->high) /* none has a place on the axis */
        *shown = (qk__range){1, 1};
    const double low = ratio ? shown->low / REACH : -INFINITY;
    const double high = ratio ? shown->high * REACH : INFINITY;
    for (size_t i = 0; i < PREDICTIONS * c->count; i++) {
        double value = c->predicted[i % PREDICTIONS][i / PREDICTIONS];
        qk__range_add(shown, isfinite(value) ? fmin(fmax(value, low), high) : NAN);
    }
}

static bool find_curve(qk__figure *figure, bool ratio, const qk__found *rows, drawn_curve *c)
{
    const size_t n = rows->count;
    double *all = qk__figure_alloc(figure, (4 + PREDICTIONS) * n, sizeof *all);
    *c = (drawn_curve){.count = n, .shown = QK__NO_RANGE};
    if (!all)
        return false;
    double **const into[] = {&c->x,    &c->measured,     &c->low,
                             &c->high, &c->predicted[0], &c->predicted[1]};
    for (size_t k = 0; k < sizeof into / sizeof *into; k++) {
        *into[k] = all + k * n;
        for (size_t i = 0; i < n; i++)
            (*into[k])[i] = qk__number_in(rows, i, X + k);
    }
    find_range(ratio, c, &c->shown);
    return true;
}

static bool is_known(const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            return true;
    return false;
}

static void tell_curve(qk__figure *figure, const qk__panel *of, const drawn_curve *c,
                       const char *panel)
{
    for (size_t b = 0; b < c->count; b++)
        qk__tell_range(figure, panel, of->series[0].name, c->x[b], c->measured[b], c->low[b],
                       c->high[b]);
    for (size_t p = 0; p + 1 < qk__count_series(of); p++)
        for (size_t b = 0; b < c->count; b++)
            qk__tell_point(figure, panel, of->series[p + 1].name, c->x[b], c->predicted[p][b]);
}

static void draw_curve_axes(qk__figure *figure, bool ratio, const drawn_curve *c,
                            qk__plot *plot)
{
    const double margin = 0.06 * (c->shown.high - c->shown.low);
    plot->x = (qk__axis){0.8, 1.3 * fmax(c->x[c->count - 1], 2), true};
    plot->y = ratio ? (qk__axis){c->shown.low / 1.4, c->shown.high * 1.4, true}
                    : qk__axis_between(c->shown.low - margin, c->shown.high + margin);
    qk__draw_number_axes(figure, plot, 40, 36);
    if (ratio)
        qk__line_across(plot, 1, qk__guide(figure));
}

static const char *prediction_color(const qk__figure *figure, size_t p)
{
    return p == 0 ? figure->theme->highlight : figure->theme->accent;
}

static void put_curve(qk__figure *figure, const drawn_curve *c, const qk__plot *plot)
{
    qk__begin_marks(plot);
    if (is_known(c->low, c->count))
        qk__draw_whiskers(plot, c->x, c->low, c->high, c->count,
                          (qk__pen){.stroke = figure->theme->ink, .width = 1});
    for (size_t p = 0; p < PREDICTIONS; p++)
        if (is_known(c->predicted[p], c->count))
            qk__draw_curve(plot, c->x, c->predicted[p], c->count,
                           (qk__pen){.stroke = prediction_color(figure, p), .width = 2});
    qk__end_marks(plot);
    qk__draw_points(plot, c->x, c->measured, c->count, QK__DISC, 2.3 * qk__em(figure),
                    figure->theme->ink, 0);
}

static void draw_head(qk__figure *figure, const qk__panel *of, const qk__found *rows,
                      const qk__place *place, bool below)
{
    const double em = qk__em(figure), middle = place->left + place->width / 2;
    double fit = qk__number_in(rows, 0, FIT);
    drawn_curve c;
    char text[QK__NUMBER_TEXT];
    if (!find_curve(figure, of->ratio, rows, &c))
        return;
    const char *name =
        qk__figure_format(figure, "layer %.0f, head %.0f", qk__number_in(rows, 0, LAYER),
                          qk__number_in(rows, 0, Q_HEAD));
    qk__put_text(figure,
                 qk__figure_format(figure, "%s%s%s", name,
                                   isfinite(fit) ? ": <i>R</i>² = " : "",
                                   isfinite(fit) ? qk__number_text(text, "%.2f", fit) : ""),
                 middle, place->top - 12 * em, QK__CENTRED);
    if (below)
        qk__put_text(figure, "Distance + 1 (tokens)", middle,
                     place->top + place->height + 38 * em, QK__CENTRED);
    qk__plot plot = qk__figure_plot(figure, place);
    tell_curve(figure, of, &c, name);
    draw_curve_axes(figure, of->ratio, &c, &plot);
    put_curve(figure, &c, &plot);
}

/* Of what is measured, and of the predictions that there are. */
static size_t name_curves(const qk__figure *figure, const qk__subject *subject,
                          qk__entry entries[1 + PREDICTIONS])
{
    const qk__panel *of = &subject->kind->panels[0];
    size_t count = 0;
    entries[count++] = (qk__entry){of->series[0].name, figure->theme->ink, QK__DISC, 0};
    for (size_t p = 0; p + 1 < qk__count_series(of); p++) {
        bool known = false;
        for (size_t i = 0; i < subject->rows.count && !known; i++)
            known = isfinite(qk__number_in(&subject->rows, i, PREDICTED + p));
        entries[count] =
            (qk__entry){of->series[p + 1].name, prediction_color(figure, p), QK__LINE, 0};
        count += known;
    }
    return count;
}

void qk__build_head_curves(qk__figure *figure, const qk__subject *subject)
{
    const qk__panel *of = &subject->kind->panels[0];
    const qk__found *rows = &subject->rows;
    qk__entry entries[1 + PREDICTIONS];
    qk__sheet sheet = {.most = COLUMNS,
                       .least = 250,
                       .left = 70,
                       .gap = 62,
                       .right = 20,
                       .above = 28,
                       .height = subject->kind->height,
                       .below = 48,
                       .entries = entries,
                       .num_entries = name_curves(figure, subject, entries)};
    for (size_t i = 0; i < rows->count; i += qk__same_in(rows, i, PANEL).count)
        sheet.count++;
    qk__set_heading(figure, subject->results, subject->model, subject->kind->heading);
    qk__begin_sheet(figure, &sheet);
    for (size_t i = 0, panel = 0; i < rows->count; panel++) {
        const qk__found head = qk__same_in(rows, i, PANEL);
        qk__place place = qk__panel_place(&sheet, panel);
        if (qk__is_leftmost(&sheet, panel))
            qk__label_panel(figure, &place, of->y_label);
        draw_head(figure, of, &head, &place, qk__is_lowest(&sheet, panel));
        i += head.count;
    }
}
