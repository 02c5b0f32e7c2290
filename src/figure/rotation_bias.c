/* SPDX-License-Identifier: Apache-2.0 */
/* How fast keys gain score with their position, head by head: as histograms, and against the
 * separation of queries and keys. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "figure/catalog.h"
#include "figure/rotation_families.h"

/* ---- heads ------------------------------------------------------------------------------ */

/* Coordinates of all heads of some models, in order. */
typedef struct points {
    size_t count;
    double *x, *y;
} points;

static bool gather_points(qk__figure *figure, const qk__family *families, size_t count,
                          qk__pick_fn *pick, points *all)
{
    size_t num_heads = 0;
    for (size_t f = 0; f < count; f++)
        num_heads += families[f].num_heads;
    *all = (points){0, qk__figure_alloc(figure, num_heads, sizeof *all->x),
                    qk__figure_alloc(figure, num_heads, sizeof *all->y)};
    if (!all->x || !all->y)
        return false;
    for (size_t f = 0; f < count; f++)
        for (size_t m = 0; m < families[f].num_models; m++)
            for (size_t h = 0; h < families[f].models[m]->num_heads; h++) {
                qk__pair pair = pick(&families[f].models[m]->heads[h]);
                if (isnan(pair.y))
                    continue;
                all->x[all->count] = pair.x;
                all->y[all->count++] = pair.y;
            }
    return true;
}

static void free_points(points *all)
{
    free(all->x);
    free(all->y);
}

/* ---- histograms ------------------------------------------------------------------------- */

/* Beyond so many interquartile ranges from the quartiles a head is counted in words: one of
 * them would press all others into one bin. */
#define FENCE 15
enum { MIN_BINS = 8, MAX_BINS = 60, HISTOGRAM_HEIGHT = 190, SCATTER_HEIGHT = 240 };
/* A row of a model: pixels between rows, and how far the highest hill reaches up, in rows. */
enum { RIDGE = 26 };
#define RIDGE_REACH 1.7

/* Bins of a family, each [i width, (i+1) width) for i from first: zero is an edge. */
typedef struct bins {
    double low, high; /* values shown */
    double width, first;
    size_t count, beyond;
    double above_zero; /* share of heads */
    double highest;    /* density of any model */
} bins;

static qk__pair pick_bias(const qk__result_head *head)
{
    double bias = head->v.bias_strength;
    return (qk__pair){bias, isfinite(bias) ? bias : NAN};
}

bool qk__has_bias(const qk__subject *subject)
{
    return qk__has_pairs(subject->results, pick_bias);
}

static void find_range(const double *sorted, size_t count, bins *of)
{
    double quartile1 = sorted[(count - 1) / 4], quartile3 = sorted[count - 1 - (count - 1) / 4];
    double reach = quartile3 - quartile1;
    size_t first = 0, last = count - 1, positive = 0;
    while (reach > 0 && sorted[first] < quartile1 - FENCE * reach)
        first++;
    while (reach > 0 && sorted[last] > quartile3 + FENCE * reach)
        last--;
    of->low = sorted[first];
    of->high = sorted[last];
    of->beyond = first + (count - 1 - last);
    for (size_t i = 0; i < count; i++)
        positive += sorted[i] > 0;
    of->above_zero = (double)positive / (double)count;
}

/* Freedman and Diaconis' width for an average model of the family. */
static void find_bins(const double *sorted, size_t count, size_t num_models, bins *of)
{
    *of = (bins){0};
    find_range(sorted, count, of);
    double reach = sorted[count - 1 - (count - 1) / 4] - sorted[(count - 1) / 4];
    double span = of->high - of->low;
    if (span > 1e-9 * fmax(fabs(of->low), fabs(of->high))) {
        double width = 2 * reach / cbrt((double)count / (double)num_models);
        double wanted = width > 0 ? ceil(span / width) : MIN_BINS;
        of->width = span / fmin(MAX_BINS, fmax(MIN_BINS, wanted));
    } else { /* one value */
        of->width = of->high != 0 ? fabs(of->high) / 4 : 1;
    }
    of->first = floor(of->low / of->width);
    of->count = (size_t)(floor(of->high / of->width) - of->first) + 1;
}

static bool plan_bins(qk__figure *figure, const qk__family *family, bins *of)
{
    points all;
    bool ok = gather_points(figure, family, 1, pick_bias, &all);
    if (ok) {
        qk__sort(all.x, all.count);
        find_bins(all.x, all.count, family->num_models, of);
    }
    free_points(&all);
    return ok;
}

/* The outline of a model's histogram: left edge and density of each bin, from 0 to 0. Heads
 * beyond the range count: what is shown adds up to the share of the others. */
static void add_outline(qk__figure *figure, const qk__result_model *model, bins *of,
                        const qk__power *power)
{
    size_t counts[2 * MAX_BINS] = {0}, total = 0;
    for (size_t h = 0; h < model->num_heads; h++) {
        double bias = model->heads[h].v.bias_strength;
        total += isfinite(bias) != 0;
        if (!(bias >= of->low && bias <= of->high))
            continue;
        size_t bin = (size_t)(floor(bias / of->width) - of->first);
        counts[bin < of->count ? bin : of->count - 1]++;
    }
    double before = 0;
    for (size_t i = 0; i <= of->count; i++) {
        double edge = (of->first + (double)i) * of->width * power->factor;
        double density =
            i < of->count ? (double)counts[i] / ((double)total * of->width * power->factor) : 0;
        qk__figure_row(figure, edge, before);
        qk__figure_row(figure, edge, density);
        of->highest = fmax(of->highest, density);
        before = density;
    }
    qk__figure_end_block(figure);
}

/* The range across, and a line at 0. */
static void set_values(qk__figure *figure, const bins *of, const qk__power *power)
{
    double low = of->first * of->width * power->factor;
    double high = (of->first + (double)of->count) * of->width * power->factor;
    double span = high - low;
    if (low > 0 && low < 2 * span)
        low = 0;
    if (high < 0 && high > -2 * span)
        high = 0;
    qk__set_range(figure, 'x', low - 0.03 * span, high + 0.03 * span, 5);
    if (low <= 0 && high >= 0)
        qk__figure_vertical(figure, 0);
}

/* Rows from the top, each named on the left. */
static void set_rows(qk__figure *figure, const qk__family *family)
{
    qk__figure_print(figure, "set yrange [-0.2:%.9g]\nset ytics scale 0 (",
                     (double)family->num_models - 1 + RIDGE_REACH + 0.1);
    for (size_t m = 0; m < family->num_models; m++)
        qk__figure_print(figure, "%s%s %zu", m ? ", " : "",
                         qk__figure_tic(figure, family->models[m]->label),
                         family->num_models - 1 - m);
    qk__figure_print(figure, ") font small\nset grid y back\n");
}

/* "'97.4% of heads above 0, 1 beyond the range'" */
static void describe_heads(const bins *of, char out[96])
{
    char beyond[48] = "";
    if (of->beyond > 0)
        snprintf(beyond, sizeof beyond, ", %zu beyond the range", of->beyond);
    snprintf(out, 96, "'%.3g%% of heads above 0%s'", 100 * of->above_zero, beyond);
}

/* A hill per model: from the axis for a single one, else each from a line of its own. */
static void plot_hills(qk__figure *figure, const qk__family_panels *panels,
                       const qk__family *family, size_t first, const bins *of, bool ridges)
{
    double scale = !ridges ? 1 : of->highest > 0 ? RIDGE_REACH / of->highest : 0;
    qk__figure_print(figure, "plot ");
    for (size_t m = 0; m < family->num_models; m++) {
        char color[8];
        double base = ridges ? (double)(family->num_models - 1 - m) : 0;
        qk__model_color(figure, panels, family, m, color);
        qk__figure_print(figure,
                         "%sdata index %zu using 1:(%g+%.9g*$2) with filledcurves y=%g "
                         "fs transparent solid 0.3 noborder lc rgb '%s', "
                         "data index %zu using 1:(%g+%.9g*$2) with lines lt 1 lw 1.3 "
                         "lc rgb '%s'",
                         m ? ", " : "", first + m, base, scale, base, color, first + m, base,
                         scale, color);
    }
    qk__figure_print(figure, "\nunset arrow\nunset label\n");
}

static void draw_histogram(qk__figure *figure, const qk__family_panels *panels, size_t panel,
                           bins *of, const qk__power *power)
{
    const qk__family *family = &panels->families[panel];
    bool ridges = panels->results->num_models > 1;
    size_t first = figure->num_blocks;
    for (size_t m = 0; m < family->num_models; m++)
        add_outline(figure, family->models[m], of, power);
    char note[96], x_label[60];
    describe_heads(of, note);
    snprintf(x_label, sizeof x_label, "'Bias strength%s'", power->text);
    qk__put_family(figure, panels, panel,
                   &(qk__around){.note = note,
                                 .x_label = x_label,
                                 .y_label = ridges ? "Density of heads, a row per model"
                                                   : "Density of heads"});
    set_values(figure, of, power);
    if (ridges)
        set_rows(figure, family);
    else
        qk__set_range(figure, 'y', 0, 1.06 * of->highest, 5);
    plot_hills(figure, panels, family, first, of, ridges);
}

/* The legend of phases, under the heading; families have their names above the panels. */
static qk__legend plan_phases(const qk__figure *figure, const qk__results *results,
                              qk__entry entries[QK__MAX_ENTRIES])
{
    size_t count = results->checkpoints ? qk__series_entries(figure, results->phases,
                                                             results->num_phases, entries)
                                        : 0;
    return qk__plan_legend(figure, entries, count, figure->width - 40 * qk__em(figure));
}

static void draw_histograms(qk__figure *figure, qk__family_panels *panels, bins *all)
{
    const qk__results *results = panels->results;
    const double em = qk__em(figure);
    bool ridges = results->num_models > 1;
    double rows = (double)qk__most_models(panels) - 1 + RIDGE_REACH + 0.3, largest = 0;
    for (size_t f = 0; f < panels->count; f++)
        largest = fmax(largest, fmax(fabs(all[f].low), fabs(all[f].high)));
    qk__power power = qk__power_of(largest);
    qk__entry entries[QK__MAX_ENTRIES];
    if (panels->count == 1)
        qk__suit_width(figure, figure->width * 3.0 / 4);
    qk__set_heading(figure, results, NULL,
                    panels->count > 1 ? "Bias strength of heads by family"
                                      : "Bias strength of heads");
    qk__legend legend = plan_phases(figure, results, entries);
    qk__arrange_families(
        figure, ridges ? qk__text_width(figure, qk__longest_label(results)) + 42 * em : 66 * em,
        legend.height, ridges ? fmax(HISTOGRAM_HEIGHT, rows * RIDGE * em) : HISTOGRAM_HEIGHT,
        panels);
    qk__begin_panels(figure);
    qk__put_legend(figure, &legend, figure->width / 2.0, qk__heading_height(figure));
    for (size_t f = 0; f < panels->count; f++)
        draw_histogram(figure, panels, f, &all[f], &power);
    qk__end_panels(figure);
}

void qk__build_bias_histograms(qk__figure *figure, const qk__subject *subject)
{
    qk__family_panels panels;
    bins *all = NULL;
    bool ok = qk__gather_families(figure, subject->results, pick_bias, false, &panels) &&
              (all = qk__figure_alloc(figure, panels.count, sizeof *all));
    for (size_t f = 0; ok && f < panels.count; f++)
        ok = plan_bins(figure, &panels.families[f], &all[f]);
    if (ok)
        draw_histograms(figure, &panels, all);
    free(all);
    qk__free_families(&panels);
}

/* ---- against separation ----------------------------------------------------------------- */

static qk__pair pick_pair(const qk__result_head *head)
{
    qk__pair pair = {head->v.separation_strength, head->v.bias_strength};
    return isfinite(pair.x) && isfinite(pair.y) ? pair : (qk__pair){NAN, NAN};
}

bool qk__has_bias_pairs(const qk__subject *subject)
{
    return qk__has_pairs(subject->results, pick_pair);
}

/* Range of an axis, with a margin. */
static void set_range(qk__figure *figure, char axis, const double *values, size_t count,
                      double factor)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        low = fmin(low, values[i] * factor);
        high = fmax(high, values[i] * factor);
    }
    double margin = 0.05 * (high - low);
    qk__set_range(figure, axis, low - margin, high + margin, axis == 'x' ? 4 : 6);
}

/* "r = −0.65", or that there is none. */
static void describe_r(const points *all, char out[64])
{
    char value[QK__NUMBER_TEXT];
    double r = qk__fit_line(all->x, all->y, all->count).r;
    if (isfinite(r))
        snprintf(out, 64, "{/:Italic r} = %s", qk__number_text(value, "%.2f", r));
    else
        snprintf(out, 64, "no {/:Italic r}");
}

/* Rows: separation, bias, colour (half transparent), point type. Models take turns, so that
 * none covers the others. */
static size_t add_points(qk__figure *figure, const qk__family_panels *panels,
                         const qk__family *family, const qk__power *power)
{
    size_t most = 0;
    for (size_t m = 0; m < family->num_models; m++)
        if (family->models[m]->num_heads > most)
            most = family->models[m]->num_heads;
    for (size_t h = 0; h < most; h++)
        for (size_t m = 0; m < family->num_models; m++) {
            if (h >= family->models[m]->num_heads)
                continue;
            qk__pair pair = pick_pair(&family->models[m]->heads[h]);
            if (isnan(pair.y))
                continue;
            char color[8];
            qk__model_color(figure, panels, family, m, color);
            qk__figure_values(figure, pair.x, pair.y * power->factor);
            qk__figure_words(figure, "0x80%s %d", color + 1,
                             qk__model_point(panels, family, m));
            qk__figure_end_row(figure);
        }
    return qk__figure_end_block(figure);
}

/* The panels of one family, which share their ranges: *count of them from the first one. */
static const qk__family *same_family(const qk__family_panels *panels, size_t panel,
                                     size_t *count)
{
    size_t first = panel, end = panel;
    while (first > 0 && panels->families[first - 1].index == panels->families[panel].index)
        first--;
    while (end < panels->count && panels->families[end].index == panels->families[panel].index)
        end++;
    *count = end - first;
    return &panels->families[first];
}

static void draw_scatter(qk__figure *figure, const qk__family_panels *panels, size_t panel,
                         const qk__power *power)
{
    const qk__family *family = &panels->families[panel];
    points own = {0, NULL, NULL}, shared = {0, NULL, NULL};
    size_t count;
    const qk__family *same = same_family(panels, panel, &count);
    if (gather_points(figure, family, 1, pick_pair, &own) &&
        gather_points(figure, same, count, pick_pair, &shared)) {
        char r[64], note[70], y_label[60];
        describe_r(&own, r);
        snprintf(note, sizeof note, "'%s'", r);
        snprintf(y_label, sizeof y_label, "Bias strength%s", power->text);
        qk__put_family(figure, panels, panel,
                       &(qk__around){.note = note,
                                     .x_label = "'Separation strength'",
                                     .y_label = y_label});
        set_range(figure, 'x', shared.x, shared.count, 1);
        set_range(figure, 'y', shared.y, shared.count, power->factor);
        qk__figure_print(figure,
                         "plot data index %zu using 1:2:4:3 with points pt variable ps 0.4 "
                         "lc rgb variable\nunset label\n",
                         add_points(figure, panels, family, power));
    }
    free_points(&own);
    free_points(&shared);
}

/* With a panel per model: what the hues are, and r within each family. */
typedef struct hues {
    size_t count;
    qk__entry entries[QK__MAX_ENTRIES];
    char names[QK__MAX_ENTRIES][200];
} hues;

static void name_hues(qk__figure *figure, const qk__family_panels *panels, hues *of)
{
    const qk__results *results = panels->results;
    of->count = 0;
    if (panels->split && results->checkpoints)
        of->count =
            qk__series_entries(figure, results->phases, results->num_phases, of->entries);
    for (size_t f = 0, count; panels->split && !results->checkpoints && f < panels->count &&
                              of->count < QK__MAX_ENTRIES;
         f += count) {
        points all;
        const qk__family *same = same_family(panels, f, &count);
        char value[QK__NUMBER_TEXT] = "?", *name = of->names[of->count];
        if (gather_points(figure, same, count, pick_pair, &all))
            qk__number_text(value, "%.2f", qk__fit_line(all.x, all.y, all.count).r);
        free_points(&all);
        qk__shorten(results->families[same->index], 60, name, 180);
        snprintf(name + strlen(name), 20, " (r = %.12s)", value);
        of->entries[of->count++] = (qk__entry){name, NULL, 0};
        of->entries[of->count - 1].color = qk__series_color(figure->theme, same->index);
        of->entries[of->count - 1].point = qk__series_point(same->index);
    }
    for (size_t i = 0; results->checkpoints && i < of->count; i++)
        of->entries[i].point = qk__series_point((int)i);
}

static void draw_scatters(qk__figure *figure, qk__family_panels *panels, const points *all)
{
    const double em = qk__em(figure);
    double largest = 0;
    for (size_t i = 0; i < all->count; i++)
        largest = fmax(largest, fabs(all->y[i]));
    qk__power power = qk__power_of(largest);
    char r[64], heading[120];
    hues named;
    describe_r(all, r);
    snprintf(heading, sizeof heading, "Bias against separation%s%s%s",
             panels->count > 1 ? " (all heads, " : "", panels->count > 1 ? r : "",
             panels->count > 1 ? ")" : "");
    if (panels->count == 1)
        qk__suit_width(figure, figure->width * 3.0 / 5);
    qk__set_heading(figure, panels->results, NULL, heading);
    name_hues(figure, panels, &named);
    qk__legend legend =
        qk__plan_legend(figure, named.entries, named.count, figure->width - 40 * em);
    qk__arrange_families(figure, 66 * em, legend.height,
                         panels->split ? HISTOGRAM_HEIGHT : SCATTER_HEIGHT, panels);
    qk__begin_panels(figure);
    qk__put_legend(figure, &legend, figure->width / 2.0, qk__heading_height(figure));
    qk__figure_print(figure, "set xzeroaxis ls 103\n");
    for (size_t f = 0; f < panels->count; f++)
        draw_scatter(figure, panels, f, &power);
    qk__end_panels(figure);
}

void qk__build_bias_scatter(qk__figure *figure, const qk__subject *subject)
{
    qk__family_panels panels;
    points all = {0, NULL, NULL};
    if (qk__gather_families(figure, subject->results, pick_pair, true, &panels) &&
        gather_points(figure, panels.families, panels.count, pick_pair, &all))
        draw_scatters(figure, &panels, &all);
    free_points(&all);
    qk__free_families(&panels);
}
