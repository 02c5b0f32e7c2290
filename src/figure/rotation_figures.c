/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of the rotation model, model by model: correlations on the drift axis, shares of
 * variance, drift of keys beside that of queries, and by depth. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "figure/catalog.h"
#include "figure/panels.h"

/* ---- bars by model ---------------------------------------------------------------------- */

enum { BAR_HEIGHT = 290, BAR_ROOM = 120, LEAST_WIDTH = 520 };

/* Heading, legend, phases and axes around one plot of bars, one place per model. */
static void start_bars(qk__figure *figure, const qk__results *results, const char *heading,
                       const char *label, const qk__entry *entries, size_t num_entries)
{
    const double em = qk__em(figure), edge = 14 * em;
    qk__suit_width(
        figure,
        fmin(figure->width, fmax(LEAST_WIDTH, BAR_ROOM * (2.0 + (double)results->num_models))));
    double left = 70 * em;
    qk__model_axis axis = qk__plan_model_axis(figure, results, figure->width - left - edge);
    if (axis.reach > left) {
        left = axis.reach;
        axis = qk__plan_model_axis(figure, results, figure->width - left - edge);
    }
    qk__legend legend = qk__plan_legend(figure, entries, num_entries, axis.width);
    qk__set_heading(figure, results, NULL, heading);
    double legend_top = qk__heading_height(figure);
    double top = legend_top + (num_entries ? legend.height + 8 * em : 0) + 4 * em +
                 qk__phases_height(figure, results, axis.width);
    figure->height = (int)(top + BAR_HEIGHT + axis.height + 8 * em);
    qk__begin_panels(figure);
    qk__place place = {left, top, axis.width, BAR_HEIGHT};
    qk__put_panel(figure, &place);
    qk__label_panel(figure, &place, label);
    qk__set_model_axis(figure, &axis);
    qk__label_model_axis(figure, &axis, &place);
    qk__figure_panel_phases(figure, results, &place);
    qk__put_legend(figure, &legend, left + axis.width / 2, legend_top);
    qk__figure_print(figure, "set style fill solid 1 noborder\nset grid y back\n");
}

/* 02 */
static bool has_correlations(const qk__subject *subject)
{
    return qk__has_field(subject->results, "r_q_a") || qk__has_field(subject->results, "r_k_a");
}

static void build_correlations(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    for (size_t m = 0; m < results->num_models; m++) {
        qk__figure_row(figure, (double)m,
                       qk__figure_spread(figure, &results->models[m], "r_q_a", true).mean,
                       qk__figure_spread(figure, &results->models[m], "r_k_a", true).mean);
    }
    qk__figure_end_block(figure);
    const qk__entry entries[] = {{"queries", figure->theme->q, QK__AREA},
                                 {"keys", figure->theme->k, QK__AREA}};
    start_bars(figure, results, "Position correlation on the drift axis a",
               "Mean |{/:Italic r}| with position", entries, 2);
    qk__figure_horizontal(figure, 0.3);
    qk__figure_horizontal(figure, 0.7);
    qk__figure_print(figure, "unset grid\nset yrange [0:1]\n"
                             "set boxwidth 0.36\n"
                             "plot data using ($1-0.19):2 with boxes ls 101, "
                             "data using ($1+0.19):3 with boxes ls 102\n");
    qk__end_panels(figure);
}

/* 03 */
static bool has_shares(const qk__subject *subject)
{
    return qk__has_field(subject->results, "plane_var_fraction");
}

typedef struct shares {
    double a, b;
} shares;

/* Means over heads that have both axes: the rest is then the complement's. */
static shares mean_shares(const qk__result_model *model)
{
    qk__mean a = {0}, b = {0};
    for (size_t h = 0; h < model->num_heads; h++) {
        const qk__head_numbers *v = &model->heads[h].v;
        if (!isfinite(v->var_frac_a) || !isfinite(v->var_frac_b))
            continue;
        qk__mean_add(&a, v->var_frac_a);
        qk__mean_add(&b, v->var_frac_b);
    }
    return (shares){qk__mean_of(&a), qk__mean_of(&b)};
}

/* Stacked from the axis of interest up; what the plane leaves is grey. */
static void build_shares(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    for (size_t m = 0; m < results->num_models; m++) {
        shares mean = mean_shares(&results->models[m]);
        qk__figure_row(figure, (double)m, mean.a, mean.b, 1 - mean.a - mean.b);
    }
    qk__figure_end_block(figure);
    /* Two tints of a colour that no family and no phase has. */
    char tint[8];
    const qk__theme *theme = figure->theme;
    qk__mixed_color(theme->accent, theme->background, 0.5, tint);
    const qk__entry entries[] = {{"axis a (drift)", theme->accent, QK__AREA},
                                 {"axis b (separation)", tint, QK__AREA},
                                 {"complement", theme->grid, QK__AREA}};
    start_bars(figure, results, "Shares of variance in the plane (a, b) and its complement",
               "Mean share of variance", entries, 3);
    qk__figure_print(figure,
                     "set yrange [0:1]\n"
                     "plot data using 1:($2/2):(0.38):($2/2) with boxxyerror lc rgb '%s', "
                     "data using 1:($2+$3/2):(0.38):($3/2) with boxxyerror lc rgb '%s', "
                     "data using 1:(1-$4/2):(0.38):($4/2) with boxxyerror lc rgb '%s'\n",
                     theme->accent, tint, theme->grid);
    qk__end_panels(figure);
}

/* 05 */
static double slope_ratio(const qk__result_head *head)
{
    return fabs(head->v.alpha_k) / fabs(head->v.alpha_q); /* infinite or NaN: left out */
}

static bool has_ratios(const qk__subject *subject)
{
    const qk__results *results = subject->results;
    for (size_t m = 0; m < results->num_models; m++)
        for (size_t h = 0; h < results->models[m].num_heads; h++)
            if (isfinite(slope_ratio(&results->models[m].heads[h])))
                return true;
    return false;
}

static double median_ratio(qk__figure *figure, const qk__result_model *model)
{
    double *ratios = qk__figure_alloc(figure, model->num_heads + 1, sizeof *ratios);
    if (!ratios)
        return NAN;
    size_t count = 0;
    for (size_t h = 0; h < model->num_heads; h++)
        if (isfinite(slope_ratio(&model->heads[h])))
            ratios[count++] = slope_ratio(&model->heads[h]);
    double median = qk__median(ratios, count);
    free(ratios);
    return median;
}

static void build_ratios(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    double highest = 1;
    for (size_t m = 0; m < results->num_models; m++) {
        const qk__result_model *model = &results->models[m];
        double ratio = median_ratio(figure, model);
        highest = fmax(highest, ratio);
        qk__figure_values(figure, (double)m, ratio);
        qk__figure_words(figure, "0x%s",
                         qk__series_color(figure->theme, qk__color_group(results, model)) + 1);
        qk__figure_end_row(figure);
    }
    qk__figure_end_block(figure);
    const char *const *names;
    qk__entry entries[QK__MAX_ENTRIES];
    size_t count = qk__color_groups(results, &names);
    if (!results->checkpoints && (count < 2 || count == results->num_models))
        count = 0; /* colours tell nothing: there is one family, or each model is its own */
    count = qk__series_entries(figure, names, count, entries);
    start_bars(figure, results, "Drift of keys beside that of queries", "Median |α_k| / |α_q|",
               entries, count);
    qk__figure_print(figure,
                     "set yrange [0:%.9g]\n"
                     "set arrow from graph 0, first 1 to graph 1, first 1 nohead front ls 103\n"
                     "plot data using 1:2:(0.76):3 with boxes lc rgb variable\n",
                     1.08 * highest);
    qk__end_panels(figure);
}

/* ---- by depth --------------------------------------------------------------------------- */

/* Pixels of a row of cells, where there are few and many, and of all rows. */
enum { ROW = 26, LOW_ROW = 17, FEW_ROWS = 16, MOST_CELLS = 5000, LEAST_CELLS = 104 };

/* A map with its place and texts. */
static void draw_map(qk__figure *figure, const qk__depth_map *of, const qk__heatmap *map,
                     const qk__place *place, const char *title)
{
    const double em = qk__em(figure), middle = place->left + place->width / 2;
    qk__put_panel(figure, place);
    qk__put_text(figure, title, middle, place->top - 15 * em, false);
    qk__put_text(figure, qk__depth_label(of), middle, place->top + place->height + 42 * em,
                 false);
    qk__put_side_text(figure, qk__model_word(of->results), 14 * em, place);
    qk__figure_heatmap(figure, map);
    qk__figure_print(figure, "unset label\n");
}

static void draw_correlation_map(qk__figure *figure, const qk__depth_map *of,
                                 const qk__place *place)
{
    qk__heatmap map = of->heatmap;
    map.map = &qk__reds;
    map.low = 0;
    map.high = 1;
    map.cell_format = "%.2f";
    draw_map(figure, of, &map, place, "'|{/:Italic r}_k| on the drift axis a'");
}

/* Shows the values times a power of ten. */
static void draw_bias_map(qk__figure *figure, const qk__depth_map *of, const qk__place *place)
{
    qk__heatmap map = of->heatmap;
    double low = 0, high = 0;
    for (size_t i = 0; i < map.rows * map.columns; i++) {
        low = fmin(low, of->values[i]);
        high = fmax(high, of->values[i]);
    }
    qk__power power = qk__power_of(fmax(-low, high));
    for (size_t i = 0; i < map.rows * map.columns; i++)
        of->values[i] *= power.factor;
    map.low = low * power.factor; /* <= 0 <= high */
    map.high = low == high ? 1 : high * power.factor;
    map.map = &qk__ylorrd;
    map.negative = &qk__blues;
    map.cell_format = fmax(-low, high) * power.factor < 10 ? "%.2f" : "%.1f";
    char title[120];
    snprintf(title, sizeof title, "'Bias strength μ_q^a α_k%s%s'", power.text,
             low < 0 ? " (blue: negative)" : "");
    draw_map(figure, of, &map, place, title);
}

/* The place of the upper map; sets the figure's height for both, the lower one *down below. */
static qk__place place_maps(qk__figure *figure, const qk__results *results, double *down)
{
    const double em = qk__em(figure), above = 30 * em, below = 56 * em;
    double left = 34 * em + qk__text_width(figure, qk__longest_label(results)) / 0.75;
    double rows = (double)results->num_models;
    double cells = rows > FEW_ROWS ? fmax(rows * LOW_ROW, FEW_ROWS * ROW) : rows * ROW;
    /* gnuplot's colour scale and the gap before it are 0.075 of the plot's width. */
    qk__place place = {left, qk__heading_height(figure) + above,
                       (figure->width - left - 52 * em) / 1.075,
                       fmin(MOST_CELLS, fmax(LEAST_CELLS, cells * em))};
    *down = place.height + below + above;
    figure->height = (int)(place.top + *down + place.height + below);
    return place;
}

/* 06 */
static bool has_depths(const qk__subject *subject)
{
    return qk__has_field(subject->results, "r_k_a") &&
           qk__has_field(subject->results, "bias_strength");
}

static void build_depth_maps(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    qk__depth_map map;
    if (qk__start_depth_map(figure, results, &map)) {
        double down;
        qk__set_heading(figure, results, NULL, "Key drift and bias by depth");
        qk__place place = place_maps(figure, results, &down);
        qk__begin_panels(figure);
        qk__fill_depth_map(&map, "r_k_a", true);
        draw_correlation_map(figure, &map, &place);
        qk__fill_depth_map(&map, "bias_strength", false);
        place.top += down;
        draw_bias_map(figure, &map, &place);
        qk__end_panels(figure);
    }
    qk__free_depth_map(&map);
}

/* ---- the table -------------------------------------------------------------------------- */

static const qk__figure_kind KINDS[] = {
    {"rotation-02-drift-correlation", "Position correlation on the drift axis",
     "Mean |r| with position of queries and of keys along axis a, which carries all of their "
     "linear drift. Dashed lines at 0.3 and 0.7.",
     false, 1000, 420, has_correlations, build_correlations},
    {"rotation-03-variance-shares", "Shares of variance",
     "Mean share of the pooled variance along axis a (drift), axis b (separation of queries "
     "and keys) and in all other dimensions.",
     false, 1000, 420, has_shares, build_shares},
    {"rotation-04-bias-histograms", "Bias strength",
     "Densities over heads of the bias strength: how fast the score of a key grows with its "
     "position, whatever its content. A row per model. Right of the dashed line later keys "
     "gain "
     "(recency). Each panel has its own scale.",
     false, 1000, 320, qk__has_bias, qk__build_bias_histograms},
    {"rotation-05-slope-ratio", "Drift of keys beside that of queries",
     "Median over heads of the ratio of drift along axis a, keys to queries. Above the dashed "
     "line keys drift faster.",
     false, 1000, 420, has_ratios, build_ratios},
    {"rotation-06-layer-heatmaps", "Key drift and bias by depth",
     "Means in each tenth of the depth, or layer by layer where no model has ten: how well "
     "keys "
     "follow position along axis a, and the bias strength. Blue cells have a negative bias. "
     "Hatched: no layer there.",
     false, 1000, 700, has_depths, build_depth_maps},
    {"rotation-07-bias-vs-separation", "Bias against separation",
     "Every head by how far apart its queries and keys lie and by its bias strength, with "
     "Pearson r in each family; a trend over all families need not hold within any. Where a "
     "family has more than four models, each has a panel.",
     false, 1000, 360, qk__has_bias_pairs, qk__build_bias_scatter},
};

const qk__figure_family qk__rotation_figures = {"Rotation model", KINDS,
                                                sizeof KINDS / sizeof *KINDS};
