/* SPDX-License-Identifier: Apache-2.0 */
/* Legends: entries in a grid, each a sample and a name; and what colours tell apart. */
#include <math.h>

#include "figure/panels.h"

/* Pixels of a row; characters of a name; pixels from a sample to its name, and of both without
 * the name. */
enum { LEGEND_ROW = 17, MAX_NAME = 60, TO_NAME = 10, BESIDE = 34 };

qk__legend qk__plan_legend(const qk__figure *figure, const qk__entry *entries, size_t count,
                           bool markup, double width)
{
    const double em = qk__em(figure), beside = BESIDE * em;
    count = figure->no_legend ? 0 : count;
    qk__legend legend = {
        .count = count, .columns = 1, .characters = 4, .entries = entries, .markup = markup};
    double room = (width - beside) / qk__text_width(figure, 1);
    if (room > 4)
        legend.characters = room < MAX_NAME ? (size_t)room : MAX_NAME;
    size_t longest = 1;
    for (size_t i = 0; i < count; i++) {
        char label[QK__LINE_SIZE];
        size_t characters = qk__count_columns(
            markup ? qk__in_symbols(figure, entries[i].name, label) : entries[i].name);
        longest = characters > longest ? characters : longest;
    }
    if (longest > legend.characters)
        longest = legend.characters;
    legend.column_width = beside + qk__text_width(figure, longest);
    if (width > 2 * legend.column_width)
        legend.columns = (size_t)(width / legend.column_width);
    if (legend.columns > count || legend.columns == 0)
        legend.columns = count > 0 ? count : 1;
    size_t rows = (count + legend.columns - 1) / legend.columns;
    legend.columns =
        rows > 0 ? (count + rows - 1) / rows : 1; /* no row much shorter than others */
    legend.height = (double)rows * LEGEND_ROW * em;
    return legend;
}

/* A sample is a label of its own: gnuplot moves the text of a label with a point up by half the
 * point. */
static void put_sample(qk__figure *figure, const qk__entry *entry, double x, double y)
{
    const double em = qk__em(figure), width = figure->width;
    if (entry->point == QK__LINE || entry->point == QK__DASHES)
        qk__figure_print(figure,
                         "set arrow from screen %.5f,%.5f to screen %.5f,%.5f nohead %s "
                         "lc rgb '%s'\n",
                         (x - 16 * em) / width, y, (x + 6 * em) / width, y,
                         entry->point == QK__LINE ? "lw 2" : "ls 103", entry->color);
    else
        qk__figure_print(
            figure, "set label '' at screen %.5f,%.5f point pt %d ps %g lc rgb '%s'\n",
            x / width, y, entry->point,
            entry->point == QK__AREA ? 1.2 : 0.9 * qk__point_size(entry->point), entry->color);
}

void qk__put_legend(qk__figure *figure, const qk__legend *legend, double x, double y)
{
    const double em = qk__em(figure);
    double left = x - ((double)legend->columns * legend->column_width - 24 * em) / 2;
    for (size_t i = 0; i < legend->count; i++) {
        const qk__entry *entry = &legend->entries[i];
        size_t row = i / legend->columns, column = i % legend->columns;
        double at = left + (double)column * legend->column_width;
        double down = 1 - (y + ((double)row + 0.5) * LEGEND_ROW * em) / figure->height;
        put_sample(figure, entry, at, down);
        const double x_text = at + TO_NAME * em, y_text = (1 - down) * figure->height;
        if (legend->markup)
            qk__put_markup(figure, entry->name, x_text, y_text, QK__RIGHT_OF | QK__SMALL_TYPE);
        else
            qk__put_text(figure, qk__brief(figure, entry->name, (int)legend->characters),
                         x_text, y_text, QK__RIGHT_OF | QK__SMALL_TYPE);
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
        entries[i] = (qk__entry){names[i], qk__series_color(figure->theme, (int)i), QK__AREA};
    return i;
}
