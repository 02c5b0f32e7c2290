/* SPDX-License-Identifier: Apache-2.0 */
/* Attention plasticity in the first and last fifth of the context: over checkpoints with the
 * bias strength below, and by model. */
#include <math.h>
#include <stdio.h>

#include "figure/panels.h"
#include "figure/catalog.h"

/* How transparent an area and a line between two values are, as gnuplot has it: what lies below,
 * like the lines between phases, is seen. */
enum { AREA_ALPHA = 0xcc, LINE_ALPHA = 0x80 };

static double model_mean(const qk__result_model *model, const char *name)
{
    return qk__mean_over_heads(model, qk__find_field(name));
}

static bool has_ends(const qk__result_model *model)
{
    bool first = false, last = false;
    for (size_t h = 0; h < model->num_heads; h++) {
        first |= isfinite(model->heads[h].v.ap_first_20pct);
        last |= isfinite(model->heads[h].v.ap_last_20pct);
    }
    return first && last;
}

static size_t count_models(const qk__results *results)
{
    size_t count = 0;
    for (size_t m = 0; m < results->num_models; m++)
        count += has_ends(&results->models[m]);
    return count;
}

/* ---- 04: over checkpoints --------------------------------------------------------------- */

bool qk__has_trajectory(const qk__subject *subject)
{
    return subject->results->checkpoints && count_models(subject->results) >= 2;
}

/* checkpoint, first, last; a checkpoint without them interrupts the lines. */
static void add_ends(qk__figure *figure, const qk__results *results, double range[2])
{
    range[0] = INFINITY;
    range[1] = -INFINITY;
    for (size_t m = 0; m < results->num_models; m++) {
        const qk__result_model *model = &results->models[m];
        double first = model_mean(model, "ap_first_20pct");
        double last = model_mean(model, "ap_last_20pct");
        range[0] = fmin(range[0], fmin(first, last));
        range[1] = fmax(range[1], fmax(first, last));
        qk__figure_row(figure, (double)m, first, last);
    }
    qk__figure_end_block(figure);
    double margin = fmax(0.08 * (range[1] - range[0]), 0.01);
    bool above = range[0] >= 0, below = range[1] <= 1; /* as plasticity is */
    range[0] = above ? fmax(0, range[0] - margin) : range[0] - margin;
    range[1] = below ? fmin(1, range[1] + margin) : range[1] + margin;
}

/* The range has 0 in it. Returns the power of ten the values are shown by. */
static qk__power add_biases(qk__figure *figure, const qk__results *results, double range[2])
{
    range[0] = range[1] = 0;
    for (size_t m = 0; m < results->num_models; m++) {
        double bias = model_mean(&results->models[m], "bias_strength");
        range[0] = fmin(range[0], 1.05 * bias);
        range[1] = fmax(range[1], 1.05 * bias);
        qk__figure_row(figure, (double)m, bias);
    }
    qk__figure_end_block(figure);
    return qk__power_of(fmax(range[1], -range[0]));
}

/* Of the area or the line between two values, in the plot and in the legend. */
static const char *drop_color(const qk__figure *figure, unsigned alpha, char out[10])
{
    snprintf(out, 10, "#%02x%.6s", alpha, figure->theme->accent + 1);
    return out;
}

static void plot_ends(qk__figure *figure, const qk__place *place, const qk__results *results,
                      const double range[2])
{
    char drop[10];
    drop_color(figure, AREA_ALPHA, drop);
    qk__put_panel(figure, place);
    qk__figure_panel_phases(figure, results, place);
    qk__label_panel(figure, place, "Attention plasticity");
    qk__set_range(figure, 'y', range[0], range[1], 6);
    qk__figure_print(figure,
                     "set grid y back\nunset key\n"
                     "plot data index 0 using 1:2:3 with filledcurves lc rgb '%s', "
                     "data index 0 using 1:2 with linespoints ls 101, "
                     "data index 0 using 1:3 with linespoints ls 102\n"
                     "unset label\nunset arrow\n",
                     drop);
}

static void plot_biases(qk__figure *figure, const qk__place *place, const qk__results *results,
                        const double range[2], const qk__power *power)
{
    char label[60];
    snprintf(label, sizeof label, "Bias%s", power->text);
    qk__put_panel(figure, place);
    qk__part_phases(figure, results);
    qk__label_panel(figure, place, label);
    qk__set_range(figure, 'y', power->factor * range[0], power->factor * range[1], 3);
    qk__figure_print(figure,
                     "set xzeroaxis lt 1 lc rgb '%s'\n"
                     "set boxwidth 0.6\nplot data index 1 using 1:(%.9g*$2) with boxes "
                     "lc rgb '%s'\n",
                     figure->theme->muted, power->factor, figure->theme->muted);
}

static void draw_trajectory(qk__figure *figure, const qk__results *results,
                            const qk__model_axis *axis, const qk__place *upper,
                            const qk__place *lower)
{
    double range[2], bias_range[2];
    add_ends(figure, results, range);
    qk__figure_print(figure, "set style fill solid 1 noborder\n");
    qk__set_model_axis(figure, axis);
    qk__label_model_axis(figure, axis, lower ? lower : upper);
    if (lower) /* labels below the lower plot alone */
        qk__figure_print(figure, "set format x ''\nunset xtics\n");
    plot_ends(figure, upper, results, range);
    if (!lower)
        return;
    qk__power power = add_biases(figure, results, bias_range);
    qk__set_model_axis(figure, axis);
    plot_biases(figure, lower, results, bias_range, &power);
}

void qk__build_trajectory(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    const qk__theme *theme = figure->theme;
    const double em = qk__em(figure), right = 20 * em;
    char drop[10];
    drop_color(figure, AREA_ALPHA, drop);
    const qk__entry entries[] = {{"AP, first 20 %", theme->q, 7},
                                 {"AP, last 20 %", theme->k, 5},
                                 {"AP drop", drop, QK__AREA},
                                 {"bias strength", theme->muted, QK__AREA}};
    bool has_bias = qk__has_field(results, "bias_strength");
    double left = 84 * em;
    qk__set_heading(figure, results, NULL, "Attention plasticity in training");
    qk__model_axis axis = qk__plan_model_axis(figure, results, figure->width - left - right);
    left = fmax(left, axis.reach + 8 * em);
    axis = qk__plan_model_axis(figure, results, figure->width - left - right);
    qk__place upper = {left, 0, figure->width - left - right, 280 * em};
    upper.top =
        qk__heading_height(figure) + 6 * em + qk__phases_height(figure, results, upper.width);
    qk__place lower = {left, upper.top + upper.height + 16 * em, upper.width, 110 * em};
    const qk__place *last = has_bias ? &lower : &upper;
    qk__legend legend = qk__plan_legend(figure, entries, has_bias ? 4 : 3, upper.width);
    double legend_top = last->top + last->height + axis.height + 6 * em;
    figure->height = (int)ceil(legend_top + legend.height + 8 * em);
    qk__begin_panels(figure);
    qk__put_legend(figure, &legend, left + upper.width / 2, legend_top);
    draw_trajectory(figure, results, &axis, &upper, has_bias ? &lower : NULL);
    qk__end_panels(figure);
}

/* ---- 06: by model ----------------------------------------------------------------------- */

enum { MAX_MODELS = 100 };

bool qk__has_ap_by_model(const qk__subject *subject)
{
    size_t count = count_models(subject->results);
    return !subject->results->checkpoints && count >= 2 && count <= MAX_MODELS;
}

/* row, first, last */
static void add_models(qk__figure *figure, const qk__results *results)
{
    size_t row = 0;
    for (size_t m = 0; m < results->num_models; m++) {
        const qk__result_model *model = &results->models[m];
        if (!has_ends(model))
            continue;
        qk__figure_row(figure, (double)(row++), model_mean(model, "ap_first_20pct"),
                       model_mean(model, "ap_last_20pct"));
    }
    qk__figure_end_block(figure);
}

/* Models on the left, drops on the right. */
static void set_rows(qk__figure *figure, const qk__results *results, bool drops)
{
    size_t row = 0;
    qk__figure_print(figure, "set %s scale 0 (", drops ? "y2tics" : "ytics");
    for (size_t m = 0; m < results->num_models; m++) {
        const qk__result_model *model = &results->models[m];
        if (!has_ends(model))
            continue;
        double drop = drops ? model_mean(model, "ap_drop") : 0;
        qk__figure_print(figure, row ? ", " : "");
        char text[QK__NUMBER_TEXT];
        if (drops && isfinite(drop))
            qk__figure_print(figure, "'%s' %zu", qk__number_text(text, "%.3f", drop), row);
        else
            qk__figure_print(figure, "%s %zu",
                             drops ? "'–'" : qk__figure_tic(figure, model->label), row);
        row++;
    }
    qk__figure_print(figure, ") font small\n");
}

/* On a narrow page gnuplot's own tics would run into each other. */
static void set_few_tics(qk__figure *figure, const qk__results *results, double width)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t m = 0; m < results->num_models; m++) {
        const qk__result_model *model = &results->models[m];
        if (!has_ends(model))
            continue;
        double first = model_mean(model, "ap_first_20pct");
        double last = model_mean(model, "ap_last_20pct");
        low = fmin(low, fmin(first, last));
        high = fmax(high, fmax(first, last));
    }
    double margin = 0.08 * (high - low);
    qk__set_range(figure, 'x', low - margin, high + margin,
                  (int)fmax(1, width / (60 * qk__em(figure))));
}

void qk__build_ap_by_model(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    const qk__theme *theme = figure->theme;
    const double em = qk__em(figure);
    char drop[10];
    const qk__entry entries[] = {{"first 20 % of the context", theme->q, 7},
                                 {"last 20 %", theme->k, 5},
                                 {"drop", drop_color(figure, LINE_ALPHA, drop), QK__LINE}};
    size_t count = count_models(results);
    double left = qk__text_width(figure, qk__longest_label(results)) + 46 * em;
    qk__set_heading(figure, results, NULL, "Attention plasticity by model");
    qk__place place = {left, qk__heading_height(figure) + 22 * em,
                       figure->width - left - 84 * em, (double)count * 24 * em};
    qk__legend legend = qk__plan_legend(figure, entries, 3, place.width);
    double legend_top = place.top + place.height + 58 * em;
    figure->height = (int)ceil(legend_top + legend.height + 8 * em);

    qk__begin_panels(figure);
    qk__put_panel(figure, &place);
    qk__put_side_text(figure, "Model", 14 * em, &place);
    qk__put_legend(figure, &legend, left + place.width / 2, legend_top);
    qk__figure_print(figure,
                     "set yrange [%.1f:-0.6]\nset y2range [%.1f:-0.6]\n"
                     "set xtics font small\n"
                     "set label 'drop' at graph 1, graph 1 offset 1.2,0.8 tc rgb '%s' "
                     "font small\n",
                     (double)count - 0.4, (double)count - 0.4, theme->muted);
    add_models(figure, results);
    set_rows(figure, results, false);
    set_rows(figure, results, true);
    if (figure->millimetres > 0)
        set_few_tics(figure, results, place.width);
    qk__figure_print(figure,
                     "set border 1\nset grid x back\nset xlabel 'Attention plasticity'\n"
                     "plot data using 2:1:($3-$2):(0) with vectors nohead lw 3 lc rgb '%s', "
                     "data using 2:1 with points ls 101 ps 1.1, "
                     "data using 3:1 with points ls 102 ps 1.1\n",
                     drop);
    qk__end_panels(figure);
}
