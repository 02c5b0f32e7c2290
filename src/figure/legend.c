/* SPDX-License-Identifier: Apache-2.0 */
/* Legends: entries in a grid, each a sample and a name; and what colours distinguish. */
#include <math.h>

#include "figure/panels.h"

/* Pixels of a row; characters of a name; pixels from a sample to its name, and of an entry without the name. */
enum { LEGEND_ROW = 17, MAX_NAME = 60, TO_NAME = 10, BESIDE = 34 };

qk__legend qk__plan_legend(const qk__figure *figure, const qk__entry *entries, size_t count,
                           bool markup, double width)
{
    const double em = qk__em(figure), beside = BESIDE * em;
    count = figure->no_legend ? 0 : count;
    qk__legend legend = {.count = count, .columns = 1, .entries = entries, .markup = markup};
    double room = fmin(width - beside, qk__text_width(figure, MAX_NAME)), longest = 0;
    legend.name_width = fmax(room, qk__text_width(figure, 4));
    for (size_t i = 0; i < count; i++) {
        char label[QK__LINE_SIZE];
        double name =
            markup ? qk__markup_width(figure, qk__in_symbols(figure, entries[i].name, label))
                   : qk__plain_width(figure, entries[i].name);
        longest = fmax(longest, name);
    }
    longest = fmin(longest, legend.name_width);
    legend.column_width = beside + longest;
    if (width > 2 * legend.column_width)
        legend.columns = (size_t)(width / legend.column_width);
    if (legend.columns > count || legend.columns == 0)
        legend.columns = count > 0 ? count : 1;
    size_t rows = (count + legend.columns - 1) / legend.columns;
    legend.columns =
        rows > 0 ? (count + rows - 1) / rows : 1; /* no row is much shorter than others */
    legend.height = (double)rows * LEGEND_ROW * em;
    return legend;
}

static void put_sample(qk__figure *figure, const qk__entry *entry, double x, double y)
{
    const double em = qk__em(figure);
    qk__canvas *canvas = &figure->canvas;
    const qk__pen line = {.stroke = entry->color, .width = 2, .opacity = entry->opacity};
    if (entry->sign == QK__AREA)
        qk__draw_rect(canvas, x - 6 * em, y - 5 * em, 12 * em, 10 * em,
                      (qk__pen){.fill = entry->color, .opacity = entry->opacity});
    else if (entry->sign == QK__LINE)
        qk__draw_line(canvas, x - 16 * em, y, x + 6 * em, y, line);
    else
        qk__draw_signs(canvas, (qk__sign)entry->sign, &(const double[2]){x, y}, 1, 4.2 * em,
                       entry->color, 0);
}

void qk__put_legend(qk__figure *figure, const qk__legend *legend, double x, double y)
{
    const double em = qk__em(figure);
    double left = x - ((double)legend->columns * legend->column_width - 24 * em) / 2;
    for (size_t i = 0; i < legend->count; i++) {
        const qk__entry *entry = &legend->entries[i];
        size_t row = i / legend->columns, column = i % legend->columns;
        double at = left + (double)column * legend->column_width;
        double down = y + ((double)row + 0.5) * LEGEND_ROW * em;
        put_sample(figure, entry, at, down);
        if (legend->markup)
            qk__put_markup(figure, entry->name, at + TO_NAME * em, down,
                           QK__RIGHT_OF | QK__SMALL_TYPE);
        else
            qk__put_text(figure, qk__brief(figure, entry->name, legend->name_width),
                         at + TO_NAME * em, down, QK__RIGHT_OF | QK__SMALL_TYPE);
    }
}

/* ---- what colours tell apart -------------------------------------------------------------- */

int qk__color_group(const qk__results *results, const qk__result_model *model)
{
    return results->checkpoints ? model->phase_index : model->family_index;
}

size_t qk__color_groups(const qk__results *results, const char *const **names)
{
    *names = results->checkpoints ? results->phases : results->families;
    return results->checkpoints ? results->num_phases : results->num_families;
}

size_t qk__series_entries(const qk__figure *figure, const char *const *names, size_t count,
                          qk__entry entries[QK__MAX_ENTRIES])
{
    size_t i = 0;
    for (; i < count && i < QK__MAX_ENTRIES; i++)
        entries[i] =
            (qk__entry){names[i], qk__series_color(figure->theme, (int)i), QK__AREA, 0};
    return i;
}
