/* SPDX-License-Identifier: Apache-2.0 */
/* Two means of each model, in a row of its own, with a line from the first to the second; the mean of a third
 * number is printed on the right. */
#include <math.h>
#include <stdio.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

/* Rows at most, their height, and with a name above the line; opacity of the line. */
enum { MAX_MODELS = 100, ROW = 24, NAMED_ROW = 40 };
#define LINE 0.5

static double mean_of(const qk__subject *subject, const qk__result_model *model, size_t series)
{
    return qk__mean_over_heads(model,
                               qk__find_field(subject->kind->panels[0].series[series].field));
}

static bool has_both(const qk__subject *subject, const qk__result_model *model)
{
    return isfinite(mean_of(subject, model, 0)) && isfinite(mean_of(subject, model, 1));
}

static size_t count_rows(const qk__subject *subject)
{
    size_t count = 0;
    qk__each_model (subject->results, model)
        count += has_both(subject, model);
    return count;
}

bool qk__has_ends(const qk__subject *subject)
{
    size_t count = count_rows(subject);
    return !subject->results->checkpoints && count >= 2 && count <= MAX_MODELS;
}

/* The means of the models that have them, in the order of the rows. */
typedef struct ends {
    size_t count;
    const char *names[MAX_MODELS], *drops[MAX_MODELS], *whole[MAX_MODELS];
    double first[MAX_MODELS], second[MAX_MODELS], row[MAX_MODELS];
    qk__range shown;
} ends;

static void find_ends(qk__figure *figure, const qk__subject *subject, ends *e)
{
    char text[QK__NUMBER_TEXT];
    const qk__chart_series *series = subject->kind->panels[0].series;
    e->count = 0;
    e->shown = QK__NO_RANGE;
    qk__each_model (subject->results, model) {
        if (!has_both(subject, model) || e->count == MAX_MODELS)
            continue;
        const size_t i = e->count++;
        const double drop = mean_of(subject, model, 2);
        e->row[i] = (double)i;
        e->first[i] = mean_of(subject, model, 0);
        e->second[i] = mean_of(subject, model, 1);
        e->names[i] = qk__model_label(figure, subject->results, model);
        e->whole[i] = model->label;
        e->drops[i] = isfinite(drop)
                          ? qk__figure_format(figure, "%s", qk__number_text(text, "%.3f", drop))
                          : "–";
        qk__range_add(&e->shown, e->first[i]);
        qk__range_add(&e->shown, e->second[i]);
        const double numbers[] = {e->first[i], e->second[i], drop};
        for (int s = 0; s < 3; s++)
            qk__tell(figure, &(qk__told){.series = series[s].field,
                                         .y_name = qk__figure_escape(figure, model->label),
                                         .x = numbers[s],
                                         .low = NAN,
                                         .high = NAN,
                                         .value = NAN});
    }
}

/* Models on the left, or where names beside the plot would take its room each above its line; drops on the
 * right. */
static void put_end_names(qk__figure *figure, const ends *e, const qk__plot *plot, bool above)
{
    qk__put_labels(figure, plot, QK__RIGHT, e->drops, e->count, 1,
                   (qk__tic_style){.length = 0});
    if (!above)
        qk__put_labels(figure, plot, QK__LEFT, e->names, e->count, 1,
                       (qk__tic_style){.length = 0});
    for (size_t i = 0; above && i < e->count; i++)
        qk__put_text(figure, qk__brief(figure, e->whole[i], plot->width), plot->left,
                     qk__at_y(plot, e->row[i] - 0.42), QK__RIGHT_OF | QK__SMALL_TYPE);
}

void qk__build_ends(qk__figure *figure, const qk__subject *subject)
{
    const qk__panel *panel = &subject->kind->panels[0];
    const qk__theme *theme = figure->theme;
    const double em = qk__em(figure), rows = (double)count_rows(subject);
    char drop[QK__LINE_SIZE];
    ends *e = qk__figure_alloc(figure, 1, sizeof *e);
    const qk__entry entries[] = {{panel->series[0].name, theme->q, QK__DISC, 0},
                                 {panel->series[1].name, theme->k, QK__SQUARE, 0},
                                 {panel->series[2].name, theme->accent, QK__LINE, LINE}};
    if (!e)
        return;
    double labels = qk__longest_label(figure, subject->results) / em;
    const bool above = figure->millimetres > 0 && labels * em > 0.25 * figure->width;
    qk__sheet sheet = {.count = 1,
                       .left = above ? 20 : labels + 46,
                       .right = 84,
                       .above = 22,
                       .height = rows * (above ? NAMED_ROW : ROW),
                       .below = 54,
                       .entries = entries,
                       .num_entries = 3,
                       .markup = true};
    qk__set_heading(figure, subject->results, NULL, subject->kind->heading);
    qk__begin_sheet(figure, &sheet);
    find_ends(figure, subject, e);
    qk__plot plot = qk__figure_plot(figure, &sheet.first);
    double margin = 0.08 * (e->shown.high - e->shown.low);
    plot.x = qk__axis_between(e->shown.low - margin, e->shown.high + margin);
    plot.y = (qk__axis){rows - 0.4, -0.6, false};
    qk__put_axis_names(figure, panel->title, above ? "" : "Model", &sheet);
    qk__put_text(figure, qk__in_symbols(figure, panel->series[2].name, drop),
                 plot.left + plot.width + 20 * em, plot.top - 10 * em, QK__NOTE);
    qk__number_tics(&plot, QK__BELOW, 60 * em, 0,
                    (qk__tic_style){.length = 4 * em, .grid = true});
    put_end_names(figure, e, &plot, above);
    qk__draw_sides(&plot, 1u << QK__BELOW);
    for (size_t i = 0; i < e->count; i++)
        qk__draw_line(plot.canvas, qk__at_x(&plot, e->first[i]), qk__at_y(&plot, e->row[i]),
                      qk__at_x(&plot, e->second[i]), qk__at_y(&plot, e->row[i]),
                      (qk__pen){.stroke = theme->accent, .width = 3, .opacity = LINE});
    qk__draw_points(&plot, e->first, e->row, e->count, QK__DISC, 4.6 * em, theme->q, 0);
    qk__draw_points(&plot, e->second, e->row, e->count, QK__SQUARE, 4.6 * em, theme->k, 0);
}
