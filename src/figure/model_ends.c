/* SPDX-License-Identifier: Apache-2.0 */
/* Two means of each model, in a row of its own, with a line from the first to the second; the mean of a third
 * number is printed on the right. */
#include <math.h>
#include <stdio.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

/* Rows at most, their height, and with a name above the line; how transparent the line is, as gnuplot has
 * it. */
enum { MAX_MODELS = 100, ROW = 24, NAMED_ROW = 40, LINE_ALPHA = 0x80 };

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

/* Rows: row, first, second. Sets the range across. */
static void add_ends(qk__figure *figure, const qk__subject *subject, const qk__place *place)
{
    size_t row = 0;
    qk__range shown = QK__NO_RANGE;
    qk__each_model (subject->results, model) {
        if (!has_both(subject, model))
            continue;
        double first = mean_of(subject, model, 0), second = mean_of(subject, model, 1);
        qk__figure_row(figure, (double)(row++), first, second);
        qk__range_add(&shown, first);
        qk__range_add(&shown, second);
    }
    qk__figure_end_block(figure);
    double margin = 0.08 * (shown.high - shown.low);
    qk__set_range(figure, 'x', shown.low - margin, shown.high + margin,
                  (int)fmax(1, place->width / (60 * qk__em(figure))));
}

/* Models on the left, numbers on the right. */
static void set_end_rows(qk__figure *figure, const qk__subject *subject, bool numbers)
{
    size_t row = 0;
    qk__figure_print(figure, "set %s scale 0 (", numbers ? "y2tics" : "ytics");
    qk__each_model (subject->results, model) {
        char text[QK__NUMBER_TEXT];
        if (!has_both(subject, model))
            continue;
        double value = numbers ? mean_of(subject, model, 2) : 0;
        qk__figure_print(figure, row ? ", " : "");
        if (numbers && isfinite(value))
            qk__figure_print(figure, "'%s' %zu", qk__number_text(text, "%.3f", value), row);
        else
            qk__figure_print(figure, "%s %zu",
                             numbers ? "'–'" : qk__figure_tic(figure, model->label), row);
        row++;
    }
    qk__figure_print(figure, ") font small\n");
}

/* Where names beside the plot would take its room: each above its line. */
static void put_end_names(qk__figure *figure, const qk__subject *subject)
{
    int row = 0;
    qk__figure_print(figure, "unset ytics\n");
    qk__each_model (subject->results, model)
        if (has_both(subject, model))
            qk__figure_print(figure,
                             "set label %s at graph 0, first %.2f left offset 0,mid tc rgb "
                             "'%s' font small\n",
                             qk__figure_quote(figure, model->label), row++ - 0.42,
                             figure->theme->ink);
}

void qk__build_ends(qk__figure *figure, const qk__subject *subject)
{
    const qk__panel *panel = &subject->kind->panels[0];
    const qk__theme *theme = figure->theme;
    const double em = qk__em(figure), rows = (double)count_rows(subject);
    char line[10], drop[QK__LINE_SIZE];
    snprintf(line, sizeof line, "#%02x%.6s", LINE_ALPHA, theme->accent + 1);
    const qk__entry entries[] = {{panel->series[0].name, theme->q, 7},
                                 {panel->series[1].name, theme->k, 5},
                                 {panel->series[2].name, line, QK__LINE}};
    double labels = qk__text_width(figure, qk__longest_label(subject->results)) / em;
    const bool above = figure->millimetres > 0 && labels * em > 0.3 * figure->width;
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
    qk__put_panel(figure, &sheet.first);
    qk__put_axis_names(figure, panel->title, above ? "" : "Model", &sheet);
    qk__figure_print(figure,
                     "set yrange [%.1f:-0.6]\nset y2range [%.1f:-0.6]\n"
                     "set label '%s' at graph 1, graph 1 offset 1.2,0.8 tc rgb '%s' "
                     "font small\n",
                     rows - 0.4, rows - 0.4,
                     qk__in_symbols(figure, panel->series[2].name, drop), theme->muted);
    add_ends(figure, subject, &sheet.first);
    set_end_rows(figure, subject, true);
    if (above)
        put_end_names(figure, subject);
    else
        set_end_rows(figure, subject, false);
    qk__figure_print(figure,
                     "set border 1\nset grid x back\n"
                     "plot data using 2:1:($3-$2):(0) with vectors nohead lw 3 lc rgb '%s', "
                     "data using 2:1 with points ls 101 ps 1.1, "
                     "data using 3:1 with points ls 102 ps 1.1\n",
                     line);
    qk__end_sheet(figure);
}
