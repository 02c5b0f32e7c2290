/* SPDX-License-Identifier: Apache-2.0 */
/* Densities of a number over heads: a panel for each family, in it a row for each model. */
#include <math.h>
#include <stdio.h>

#include "base/number.h"
#include "figure/families.h"

/* A head so many interquartile ranges beyond the quartiles is only counted in words: it would press all others into
 * one bin. */
#define FENCE 15
enum { MIN_BINS = 8, MAX_BINS = 60 };
/* A model's row: pixels between rows, and the height of the highest hill, in rows. */
enum { ROW = 26, NOTE = 20, LEAST_PLOT = 190 };
#define REACH 1.7

/* Bins of a family, each [i width, (i+1) width) for i from first: zero is an edge. */
typedef struct bins {
    double low, high; /* values shown */
    double width, first;
    size_t count, beyond;
    double above_zero; /* share of heads */
    double highest;    /* density of any model */
} bins;

/* ---- bins ------------------------------------------------------------------------------- */

/* Chooses the shown values, and Freedman and Diaconis' width for an average model of the family. */
static void find_bins(const double *sorted, size_t count, size_t num_models, bins *of)
{
    double quartile1 = sorted[(count - 1) / 4], quartile3 = sorted[count - 1 - (count - 1) / 4];
    double reach = quartile3 - quartile1;
    size_t first = 0, last = count - 1, positive = 0;
    while (reach > 0 && sorted[first] < quartile1 - FENCE * reach)
        first++;
    while (reach > 0 && sorted[last] > quartile3 + FENCE * reach)
        last--;
    for (size_t i = 0; i < count; i++)
        positive += sorted[i] > 0;
    *of = (bins){.low = sorted[first],
                 .high = sorted[last],
                 .beyond = first + (count - 1 - last),
                 .above_zero = (double)positive / (double)count};
    double span = of->high - of->low;
    if (span > 1e-9 * fmax(fabs(of->low), fabs(of->high))) {
        double width = 2 * reach / cbrt((double)count / (double)num_models);
        double wanted = width > 0 ? ceil(span / width) : MIN_BINS;
        of->width = span / fmin(MAX_BINS, fmax(MIN_BINS, wanted));
    } else { /* one value, in the middle of its bin */
        of->width = of->high != 0 ? fabs(of->high) / 1.5 : 1;
    }
    of->first = floor(of->low / of->width);
    of->count = (size_t)(floor(of->high / of->width) - of->first) + 1;
}

static bool plan_bins(qk__figure *figure, const qk__families *all, size_t panel, bins *of)
{
    const qk__family *family = &all->panels[panel];
    size_t count = 0;
    double *values = qk__figure_alloc(figure, all->subject->all.count + 1, sizeof *values);
    for (size_t m = 0; values && m < family->count; m++) {
        const qk__found rows = qk__rows_in(all, family->models[m]);
        for (size_t i = 0; i < rows.count; i++)
            values[count++] = qk__number_in(&rows, i, QK__FIRST_SERIES);
    }
    if (count == 0)
        return false;
    qk__sort(values, count);
    find_bins(values, count, family->count, of);
    return true;
}

/* The outline of a model's histogram: edges of bins and densities, from 0 to 0. */
typedef struct outline {
    size_t count;
    double x[2 * (2 * MAX_BINS + 1)], y[2 * (2 * MAX_BINS + 1)];
} outline;

/* Heads beyond the range count: the shown densities add up to the share of the others. */
static void find_outline(const qk__families *all, const qk__result_model *model, bins *of,
                         double factor, outline *out)
{
    size_t counts[2 * MAX_BINS] = {0};
    const qk__found rows = qk__rows_in(all, model);
    for (size_t i = 0; i < rows.count; i++) {
        double value = qk__number_in(&rows, i, QK__FIRST_SERIES);
        if (!(value >= of->low && value <= of->high))
            continue;
        size_t bin = (size_t)(floor(value / of->width) - of->first);
        counts[bin < of->count ? bin : of->count - 1]++;
    }
    double before = 0;
    out->count = 0;
    for (size_t i = 0; i <= of->count; i++) {
        double edge = (of->first + (double)i) * of->width * factor;
        double density =
            i < of->count ? (double)counts[i] / ((double)rows.count * of->width * factor) : 0;
        out->x[out->count] = out->x[out->count + 1] = edge;
        out->y[out->count] = before;
        out->y[out->count + 1] = density;
        out->count += 2;
        of->highest = fmax(of->highest, density);
        before = density;
    }
}

/* ---- panels ----------------------------------------------------------------------------- */

/* The shown range. */
static qk__axis hill_range(const bins *of, double factor)
{
    double low = of->first * of->width * factor;
    double high = (of->first + (double)of->count) * of->width * factor;
    double span = high - low;
    if (low > 0 && low < 2 * span)
        low = 0;
    if (high < 0 && high > -2 * span)
        high = 0;
    return qk__axis_between(low - 0.03 * span, high + 0.03 * span);
}

/* Rows from the top, each named on the left. */
static void draw_hill_rows(qk__figure *figure, const qk__families *all,
                           const qk__family *family, qk__plot *plot)
{
    const char **labels = qk__figure_alloc(figure, family->count + 1, sizeof *labels);
    plot->y = (qk__axis){-0.2, (double)family->count - 1 + REACH + 0.1, false};
    for (size_t m = 0; labels && m < family->count; m++)
        labels[family->count - 1 - m] =
            qk__model_label(figure, all->results, family->models[m]);
    if (labels)
        qk__put_labels(figure, plot, QK__LEFT, labels, family->count, 1,
                       (qk__tic_style){.grid = true});
}

/* A hill per model: from the axis for a single model, else each from its own line. */
static void put_hills(qk__figure *figure, const qk__families *all, const qk__family *family,
                      const bins *of, const outline *outlines, const qk__plot *plot, bool rows,
                      double factor)
{
    double scale = !rows ? 1 : of->highest > 0 ? REACH / of->highest : 0;
    for (size_t m = 0; m < family->count; m++) {
        outline hill = outlines[m];
        double base = rows ? (double)(family->count - 1 - m) : 0,
               floor_of[sizeof hill.y / sizeof *hill.y];
        char color[8];
        qk__model_color(figure, all, family, m, color);
        for (size_t i = 0; i < hill.count; i++) {
            qk__tell_point(figure, qk__figure_escape(figure, family->name),
                           qk__figure_escape(figure, family->models[m]->label),
                           hill.x[i] / factor, hill.y[i] * factor);
            hill.y[i] = base + scale * hill.y[i];
            floor_of[i] = base;
        }
        qk__draw_band(plot, hill.x, floor_of, hill.y, hill.count,
                      (qk__pen){.fill = color, .opacity = 0.3});
        qk__draw_curve(plot, hill.x, hill.y, hill.count,
                       (qk__pen){.stroke = color, .width = 1.3});
    }
}

static void put_hill_names(qk__figure *figure, const qk__families *all, const qk__sheet *sheet,
                           size_t panel, const bins *of, const qk__power *power)
{
    const double em = qk__em(figure);
    const qk__place place = qk__panel_place(sheet, panel);
    double middle = place.left + place.width / 2;
    char beyond[48] = "", note[96], label[QK__LINE_SIZE];
    if (of->beyond > 0)
        snprintf(beyond, sizeof beyond, ", %zu beyond the range", of->beyond);
    qk__print_plain(note, sizeof note, "%.3g%% of heads above 0%s", 100 * of->above_zero,
                    beyond);
    snprintf(label, sizeof label, "%s%s", qk__series_name(all->series), power->text);
    qk__put_name(figure, all->panels[panel].name, &place, NOTE * em);
    qk__put_markup(figure, note, middle, place.top - 10 * em, QK__NOTE);
    qk__put_markup(figure, label, middle, place.top + place.height + 37 * em, QK__CENTRED);
    if (qk__is_leftmost(sheet, panel))
        qk__put_markup(figure,
                       all->results->num_models > 1 ? "Density of heads, a row per model"
                                                    : "Density of heads",
                       14 * em, place.top + place.height / 2, QK__TURNED);
}

static void draw_hills(qk__figure *figure, const qk__families *all, const qk__sheet *sheet,
                       size_t panel, bins *of, const qk__power *power)
{
    const double em = qk__em(figure);
    const qk__family *family = &all->panels[panel];
    const qk__place place = qk__panel_place(sheet, panel);
    bool rows = all->results->num_models > 1;
    outline *outlines = qk__figure_alloc(figure, family->count, sizeof *outlines);
    for (size_t m = 0; outlines && m < family->count; m++)
        find_outline(all, family->models[m], of, power->factor, &outlines[m]);
    qk__plot plot = qk__figure_plot(figure, &place);
    put_hill_names(figure, all, sheet, panel, of, power);
    plot.x = hill_range(of, power->factor);
    qk__number_tics(&plot, QK__BELOW, 54 * em, 0, (qk__tic_style){.length = 4 * em});
    if (rows) {
        draw_hill_rows(figure, all, family, &plot);
    } else {
        plot.y = qk__axis_between(0, 1.06 * of->highest);
        qk__number_tics(&plot, QK__LEFT, 38 * em, 0, (qk__tic_style){.length = 4 * em});
    }
    qk__line_up(&plot, 0, qk__guide(figure));
    if (outlines)
        put_hills(figure, all, family, of, outlines, &plot, rows, power->factor);
    qk__draw_sides(&plot, 1u << QK__BELOW | 1u << QK__LEFT);
}

/* ---- the figure ------------------------------------------------------------------------- */

static qk__sheet plan_hills(qk__figure *figure, const qk__subject *subject,
                            const qk__families *all)
{
    bool rows = all->results->num_models > 1;
    size_t most = 0;
    double labels = qk__longest_label(figure, all->results) / qk__em(figure);
    for (size_t p = 0; p < all->count; p++)
        most = all->panels[p].count > most ? all->panels[p].count : most;
    double height = ((double)most - 1 + REACH + 0.3) * ROW;
    qk__sheet s = {.count = all->count,
                   .least = 200,
                   .left = rows ? labels + 42 : 66,
                   .right = 14,
                   .below = 66,
                   .width = 640,
                   .height =
                       rows ? fmax(subject->kind->height, height) : subject->kind->height};
    s.gap = s.left + 8;
    qk__set_heading(figure, all->results, NULL, subject->kind->heading);
    qk__lay_out(
        figure,
        &s); /* once for the width of panels, which the names beside them must not take */
    while (s.columns > 1 && s.first.width < LEAST_PLOT * qk__em(figure)) {
        s.most = s.columns - 1;
        qk__lay_out(figure, &s);
    }
    s.above = NOTE + QK__NAME_LINE * qk__most_name_lines(figure, all, s.first.width) + 4;
    return s;
}

void qk__build_hills(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    qk__families all;
    bins of[QK__MOST_FAMILIES];
    double largest = 0;
    if (!qk__gather_families(figure, subject, false, &all))
        return;
    for (size_t p = 0; p < all.count; p++) {
        if (!plan_bins(figure, &all, p, &of[p]))
            return;
        largest = fmax(largest, fmax(fabs(of[p].low), fabs(of[p].high)));
    }
    qk__power power = qk__power_for(qk__find_field(all.series[0].field), largest);
    qk__entry entries[QK__MAX_ENTRIES];
    qk__sheet sheet = plan_hills(figure, subject, &all);
    sheet.entries = entries; /* of phases; families have their names above the panels */
    if (results->checkpoints)
        sheet.num_entries =
            qk__series_entries(figure, results->phases, results->num_phases, entries);
    qk__begin_sheet(figure, &sheet);
    for (size_t p = 0; p < all.count; p++)
        draw_hills(figure, &all, &sheet, p, &of[p], &power);
}
