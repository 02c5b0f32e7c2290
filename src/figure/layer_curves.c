/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of one model by layer: a curve of their means in a band of their quartiles, for
 * queries and keys beside each other. Where a study has one model this says what bars by model
 * cannot. */
#include <math.h>
#include <stdio.h>

#include "figure/catalog.h"
#include "figure/panels.h"

/* A number of heads, as a curve. */
typedef struct curve {
    const char *field; /* NULL: there is no second curve */
    bool magnitude;
    const char *name; /* plain, in the legend of its panel */
} curve;

typedef enum colors { QUERIES_AND_KEYS, AXES, ALONE } colors;

typedef struct panel_kind {
    const char *title; /* markup; the power of ten follows */
    curve curves[2];
    colors of;
    bool share; /* has no power of ten */
} panel_kind;

static const panel_kind PANELS[] = {
    {"Correlation with position on PC0",
     {{"r_q", false, "queries"}, {"r_k", false, "keys"}},
     QUERIES_AND_KEYS,
     true},
    {"Correlation on the drift axis a, |{/:Italic r}|",
     {{"r_q_a", true, "queries"}, {"r_k_a", true, "keys"}},
     QUERIES_AND_KEYS,
     true},
    {"Drift along a, |α|",
     {{"alpha_q", true, "queries"}, {"alpha_k", true, "keys"}},
     QUERIES_AND_KEYS,
     false},
    {"Share of variance",
     {{"var_frac_a", false, "axis a (drift)"}, {"var_frac_b", false, "axis b (separation)"}},
     AXES,
     true},
    {"Bias strength μ_q^a α_k",
     {{"bias_strength", false, ""}, {NULL, false, NULL}},
     ALONE,
     false},
    {"Attention plasticity",
     {{"ap_first_20pct", false, "first 20 % of the context"},
      {"ap_last_20pct", false, "last 20 %"}},
     QUERIES_AND_KEYS,
     true},
};
enum { NUM_PANELS = sizeof PANELS / sizeof *PANELS, PANEL_HEIGHT = 150 };

static bool has_panel(const qk__results *results, const panel_kind *kind)
{
    return qk__has_field(results, kind->curves[0].field) ||
           (kind->curves[1].field && qk__has_field(results, kind->curves[1].field));
}

bool qk__has_layer_curves(const qk__subject *subject)
{
    const qk__results *results = subject->results;
    if (results->num_models != 1 || results->models[0].num_heads == 0)
        return false;
    const qk__result_model *model = &results->models[0];
    if (model->heads[0].layer == model->heads[model->num_heads - 1].layer)
        return false; /* one layer makes no curve */
    for (size_t i = 0; i < NUM_PANELS; i++)
        if (has_panel(results, &PANELS[i]))
            return true;
    return false;
}

/* ---- numbers ---------------------------------------------------------------------------- */

/* Rows: layer, mean and quartiles of the heads; a layer without heads is left out. Widens
 * range. */
static size_t add_curve(qk__figure *figure, const qk__result_model *model, const curve *of,
                        double factor, double range[2])
{
    for (size_t first = 0, end; first < model->num_heads; first = end) {
        for (end = first + 1; end < model->num_heads; end++)
            if (model->heads[end].layer != model->heads[first].layer)
                break;
        qk__result_model layer = *model;
        layer.heads = &model->heads[first];
        layer.num_heads = end - first;
        qk__spread spread = qk__figure_spread(figure, &layer, of->field, of->magnitude);
        if (spread.count == 0)
            continue;
        qk__figure_row(figure, model->heads[first].layer, factor * spread.mean,
                       factor * spread.quartile1, factor * spread.quartile3);
        range[0] = fmin(range[0], factor * fmin(spread.quartile1, spread.mean));
        range[1] = fmax(range[1], factor * fmax(spread.quartile3, spread.mean));
    }
    return qk__figure_end_block(figure);
}

/* The largest number a panel shows, to choose its power of ten. */
static double largest_of(qk__figure *figure, const qk__result_model *model,
                         const panel_kind *kind)
{
    double largest = 0;
    for (int c = 0; c < 2 && kind->curves[c].field; c++) {
        qk__spread all = qk__figure_spread(figure, model, kind->curves[c].field, true);
        if (all.count > 0)
            largest = fmax(largest, all.quartile3);
    }
    return largest;
}

/* ---- panels ----------------------------------------------------------------------------- */

static const char *color_of(const qk__theme *theme, colors of, int index)
{
    if (of == ALONE)
        return theme->accent;
    if (of == AXES)
        return qk__series_color(theme, index == 0);
    return index == 0 ? theme->q : theme->k;
}

static void list_names(const qk__figure *figure, const panel_kind *kind, qk__entry entries[2])
{
    for (int c = 0; c < 2; c++)
        entries[c] =
            (qk__entry){kind->curves[c].name, color_of(figure->theme, kind->of, c), QK__AREA};
}

static double names_height(const qk__figure *figure, const panel_kind *kind, double width)
{
    qk__entry entries[2];
    if (kind->of == ALONE)
        return 0;
    list_names(figure, kind, entries);
    return qk__plan_legend(figure, entries, 2, width).height;
}

static void put_names(qk__figure *figure, const panel_kind *kind, const qk__place *place)
{
    qk__entry entries[2];
    if (kind->of == ALONE)
        return;
    list_names(figure, kind, entries);
    qk__legend legend = qk__plan_legend(figure, entries, 2, place->width);
    qk__put_legend(figure, &legend, place->left + place->width / 2,
                   place->top - 4 * qk__em(figure) - legend.height);
}

static void plot_curves(qk__figure *figure, const panel_kind *kind, const size_t blocks[2])
{
    const char *separator = "plot ";
    for (int pass = 0; pass < 2; pass++)
        for (int c = 0; c < 2 && kind->curves[c].field; c++) {
            const char *color = color_of(figure->theme, kind->of, c);
            if (pass == 0)
                qk__figure_print(
                    figure,
                    "%sdata index %zu using 1:3:4 with filledcurves fs transparent "
                    "solid 0.18 noborder lc rgb '%s'",
                    separator, blocks[c], color);
            else
                qk__figure_print(figure,
                                 "%sdata index %zu using 1:2 with linespoints lt 1 lw 1.8 pt 7 "
                                 "ps 0.5 lc rgb '%s'",
                                 separator, blocks[c], color);
            separator = ", ";
        }
    qk__figure_print(figure, "\nunset label\n");
}

static void draw_panel(qk__figure *figure, const qk__result_model *model,
                       const panel_kind *kind, const qk__place *place, double above)
{
    double largest = largest_of(figure, model, kind), range[2] = {0, 0};
    qk__power power = qk__power_of(kind->share ? 1 : largest);
    size_t blocks[2] = {0, 0};
    for (int c = 0; c < 2 && kind->curves[c].field; c++)
        blocks[c] = add_curve(figure, model, &kind->curves[c], power.factor, range);
    char title[120];
    snprintf(title, sizeof title, "'%s%s'", kind->title, power.text);
    double room = 0.06 * (range[1] - range[0]);
    qk__put_panel(figure, place);
    qk__put_text(figure, title, place->left + place->width / 2,
                 place->top - above + 12 * qk__em(figure), false);
    put_names(figure, kind, place);
    qk__set_range(figure, 'y', range[0] - (range[0] < 0 ? room : 0), range[1] + room, 5);
    plot_curves(figure, kind, blocks);
}

void qk__build_layer_curves(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    const qk__result_model *model = &results->models[0];
    const double em = qk__em(figure), below = 26 * em;
    const double left = 52 * em, gap = 62 * em, edge = 18 * em;
    size_t columns = qk__fit_columns(figure, 2, 220), shown = 0;
    const panel_kind *kinds[NUM_PANELS];
    for (size_t i = 0; i < NUM_PANELS; i++)
        if (has_panel(results, &PANELS[i]))
            kinds[shown++] = &PANELS[i];
    columns = columns < shown ? columns : shown;
    size_t rows = (shown + columns - 1) / columns;
    double width = (figure->width - left - edge + gap) / (double)columns - gap;
    double above = 28 * em;
    for (size_t i = 0; i < shown; i++)
        above = fmax(above, 28 * em + names_height(figure, kinds[i], width));
    double down = PANEL_HEIGHT * em + above + below;
    qk__set_heading(figure, results, NULL, "Means and quartiles of the heads of each layer");
    figure->height = (int)ceil(qk__heading_height(figure) + (double)rows * down + 24 * em);
    qk__begin_panels(figure);
    qk__figure_print(figure,
                     "set grid y back\nset xzeroaxis lt 1 lw 0.8 lc rgb '%s'\n"
                     "set xrange [-0.5:%d.5]\nset xtics font small\n",
                     figure->theme->muted, model->last_layer);
    qk__put_text(figure, "'Layer'", left + ((double)columns * (width + gap) - gap) / 2,
                 figure->height - 13 * em, false);
    for (size_t i = 0; i < shown; i++) {
        size_t row = i / columns, column = i % columns;
        const qk__place place = {left + (double)column * (width + gap),
                                 qk__heading_height(figure) + above + (double)row * down, width,
                                 PANEL_HEIGHT * em};
        draw_panel(figure, model, kinds[i], &place, above);
    }
    qk__end_panels(figure);
}
