/* SPDX-License-Identifier: Apache-2.0 */
/* The rotation model over training checkpoints: four of its numbers, and what the bias is made
 * of. */
#include <math.h>
#include <stdio.h>

#include "figure/catalog.h"
#include "figure/panels.h"

/* Beyond so many checkpoints, panels stand below one another. */
enum {
    MAX_BESIDE = 24,
    MAX_THREE_BESIDE = 12,

    PANEL_HEIGHT = 190,
    MAX_LEGEND = 14
};

typedef struct metric {
    const char *title; /* markup; the power of ten follows */
    const char *field;
    bool magnitude;
    bool share; /* has no power of ten */
    bool to_one;
} metric;

typedef struct sheet {
    const char *heading;
    size_t num_metrics;
    const metric *metrics;
    size_t columns;
    bool quartiles; /* whiskers and medians on the bars */
} sheet;

/* ---- numbers ---------------------------------------------------------------------------- */

/* What the axis of a metric must hold. */
typedef struct extent {
    size_t count; /* models with numbers */
    double low, high;
} extent;

static extent extent_of(qk__figure *figure, const sheet *of, size_t index,
                        const qk__results *results)
{
    extent all = {0, 0, 0};
    for (size_t m = 0; m < results->num_models; m++) {
        qk__spread spread =
            qk__figure_spread(figure, &results->models[m], of->metrics[index].field,
                              of->metrics[index].magnitude);
        if (spread.count == 0)
            continue;
        all.count++;
        all.low = fmin(all.low, spread.mean);
        all.high = fmax(all.high, spread.mean);
        if (of->quartiles) {
            all.low = fmin(all.low, spread.quartile1);
            all.high = fmax(all.high, spread.quartile3);
        }
    }
    return all;
}

/* Rows: place, mean, quartiles, median, colour. */
static size_t add_bars(qk__figure *figure, const metric *of, const qk__results *results,
                       double factor)
{
    for (size_t m = 0; m < results->num_models; m++) {
        const qk__result_model *model = &results->models[m];
        qk__spread spread = qk__figure_spread(figure, model, of->field, of->magnitude);
        if (spread.count == 0)
            continue;
        qk__figure_values(figure, (double)m, factor * spread.mean, factor * spread.quartile1,
                          factor * spread.quartile3, factor * spread.median);
        qk__figure_words(figure, "0x%s",
                         qk__series_color(figure->theme, model->phase_index) + 1);
        qk__figure_end_row(figure);
    }
    return qk__figure_end_block(figure);
}

/* ---- panels ----------------------------------------------------------------------------- */

static void draw_bars(qk__figure *figure, const sheet *of, size_t index,
                      const qk__results *results, const qk__place *place)
{
    const metric *shown = &of->metrics[index];
    extent all = extent_of(figure, of, index, results);
    qk__power power = qk__power_of(shown->share ? 1 : fmax(-all.low, all.high));
    double low = all.low * power.factor, high = all.high * power.factor;
    if (shown->to_one)
        high = fmax(1, high);
    if (low == high)
        high = 1;
    double margin = 0.06 * (high - low);
    size_t block = add_bars(figure, shown, results, power.factor);
    qk__figure_print(figure,
                     "set yrange [%.9g:%.9g]\n"
                     "set xzeroaxis lt 1 lw 0.8 lc rgb '%s'\n",
                     low < 0 ? low - margin : 0,
                     high > 0 ? high + (shown->to_one ? 0 : margin) : margin,
                     figure->theme->muted);
    char title[120];
    snprintf(title, sizeof title, "'%s%s'", shown->title, power.text);
    qk__put_panel(figure, place);
    qk__put_text(figure, title, place->left + place->width / 2,
                 place->top - 15 * qk__em(figure), false);
    qk__part_phases(figure, results);
    if (all.count == 0) {
        qk__figure_print(figure,
                         "set label 'no numbers' at graph 0.5,0.5 center tc rgb '%s'\nplot NaN",
                         figure->theme->muted);
        return;
    }
    qk__figure_print(
        figure, "plot data index %zu using 1:2:(0.76):6 with boxes lc rgb variable", block);
    if (of->quartiles)
        qk__figure_print(figure,
                         /* yerrorbars would leave a gap around the point */
                         ", data index %zu using 1:3:(0):($4-$3) with vectors nohead lw 1.2 "
                         "lc rgb '%s', data index %zu using 1:5 with points pt 7 ps %g "
                         "lc rgb '%s'",
                         block, figure->theme->ink, block,
                         results->num_models > MAX_BESIDE ? 0.3 : 0.45, figure->theme->ink);
}

/* What the bars and their marks are, and the phases' colours. */
static size_t list_entries(const qk__figure *figure, const qk__results *results,
                           const sheet *of, qk__entry entries[QK__MAX_ENTRIES + 2])
{
    size_t count = qk__series_entries(figure, results->phases, results->num_phases, entries);
    if (of->quartiles) {
        entries[count++] = (qk__entry){"quartiles", figure->theme->ink, QK__LINE};
        entries[count++] = (qk__entry){"median", figure->theme->ink, 7};
    }
    return count;
}

/* Panels of a sheet: the first, and from one to the next. */
typedef struct layout {
    size_t columns;
    qk__place first;
    double right, down;
} layout;

static void draw_sheet(qk__figure *figure, const qk__results *results, const sheet *of,
                       const qk__model_axis *axis, const layout *at)
{
    for (size_t i = 0; i < of->num_metrics; i++) {
        size_t row = i / at->columns, column = i % at->columns;
        qk__place place = at->first;
        place.left += (double)column * at->right;
        place.top += (double)row * at->down;
        if (column == 0)
            qk__put_side_text(figure, "Mean over heads", 12 * qk__em(figure), &place);
        qk__label_model_axis(figure, axis, &place);
        draw_bars(figure, of, i, results, &place);
        qk__figure_print(figure, "\nunset label\nunset arrow\n");
    }
}

static void build_sheet(qk__figure *figure, const qk__results *results, const sheet *of)
{
    const double em = qk__em(figure), beside = 62 * em, above = 28 * em, edge = 14 * em;
    size_t columns = qk__fit_columns(figure, of->columns, 250);
    double right = (figure->width - edge) / (double)columns, left = beside;
    qk__model_axis axis = qk__plan_model_axis(figure, results, right - left);
    if (axis.reach > left) {
        left = fmin(axis.reach, right / 2);
        axis = qk__plan_model_axis(figure, results, right - left);
    }
    qk__entry entries[QK__MAX_ENTRIES + 2];
    size_t count = list_entries(figure, results, of, entries);
    qk__legend legend = qk__plan_legend(figure, entries, count, figure->width - 2 * edge);
    qk__set_heading(figure, results, NULL, of->heading);
    double top = qk__heading_height(figure) + legend.height + above + 4 * em;
    layout at = {columns,
                 {left, top, axis.width, PANEL_HEIGHT},
                 right,
                 PANEL_HEIGHT + axis.height + above + 8 * em};
    size_t rows = (of->num_metrics + columns - 1) / columns;
    figure->height = (int)(top - above + (double)rows * at.down);
    qk__begin_panels(figure);
    qk__figure_print(figure, "set style fill solid 1 noborder\nset grid y back\n");
    qk__set_model_axis(figure, &axis);
    qk__put_legend(figure, &legend, figure->width / 2.0, qk__heading_height(figure));
    draw_sheet(figure, results, of, &axis, &at);
    qk__end_panels(figure);
}

/* ---- the figures ------------------------------------------------------------------------ */

static bool has_any(const qk__results *results, const metric *metrics, size_t count)
{
    if (!results->checkpoints || results->num_models < 2)
        return false;
    for (size_t i = 0; i < count; i++)
        if (qk__has_field(results, metrics[i].field))
            return true;
    return false;
}

static const metric METRICS[] = {
    {"|{/:Italic r}_k| on axis a", "r_k_a", true, true, true},
    {"Separation strength", "separation_strength", false, true, false},
    {"Bias strength", "bias_strength", false, false, false},
    {"Share of variance in the plane (a, b)", "plane_var_fraction", false, true, false},
};
enum { NUM_METRICS = sizeof METRICS / sizeof *METRICS };

/* 09 */
static bool has_metrics(const qk__subject *subject)
{
    return has_any(subject->results, METRICS, NUM_METRICS);
}

static void build_metrics(qk__figure *figure, const qk__subject *subject)
{
    size_t columns = subject->results->num_models > MAX_BESIDE ? 1 : 2;
    build_sheet(figure, subject->results,
                &(sheet){"Rotation model over training", NUM_METRICS, METRICS, columns, true});
}

static const metric FACTORS[] = {
    {"Mean of queries on axis a, μ_q^a", "mu_q_a", false, false, false},
    {"Drift of keys, α_k", "alpha_k", false, false, false},
    {"Bias strength μ_q^a α_k", "bias_strength", false, false, false},
};
enum { NUM_FACTORS = sizeof FACTORS / sizeof *FACTORS };

/* 10 */
static bool has_factors(const qk__subject *subject)
{
    return has_any(subject->results, FACTORS, NUM_FACTORS);
}

static void build_factors(qk__figure *figure, const qk__subject *subject)
{
    size_t columns = subject->results->num_models > MAX_THREE_BESIDE ? 1 : 3;
    build_sheet(figure, subject->results,
                &(sheet){"What the bias is made of", NUM_FACTORS, FACTORS, columns, false});
}

static const qk__figure_kind KINDS[] = {
    {"rotation-09-training-metrics", "Rotation model over training",
     "Means over heads at each checkpoint, coloured by phase; whiskers from the first to the "
     "third quartile, a dot at the median.",
     false, 1000, 700, has_metrics, build_metrics},
    {"rotation-10-bias-decomposition", "What the bias is made of",
     "Means over heads at each checkpoint: where queries lie on the drift axis, how fast keys "
     "move along it, and the bias strength, head by head the product of both.",
     false, 1000, 360, has_factors, build_factors},
};

const qk__figure_family qk__rotation_training = {"Rotation model over training", KINDS,
                                                 sizeof KINDS / sizeof *KINDS};
