/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that several figure families use: guide lines, palettes, legend entries,
 * shortened text, phases of training. */
#include "figure/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Characters below which a shortened name says nothing. */
enum { LEAST_NAME = 4 };

void qk__figure_vertical(qk__figure *figure, double x)
{
    qk__figure_print(
        figure, "set arrow from first %g, graph 0 to first %g, graph 1 nohead back ls 103\n", x,
        x);
}

void qk__figure_horizontal(qk__figure *figure, double y)
{
    qk__figure_print(
        figure, "set arrow from graph 0, first %g to graph 1, first %g nohead back ls 103\n", y,
        y);
}

void qk__figure_palette(qk__figure *figure, const qk__colormap *map, bool turned)
{
    qk__figure_print(figure, "set palette defined (");
    for (size_t i = 0; i < map->count; i++) {
        const unsigned char *c = map->rgb[turned ? map->count - 1 - i : i];
        qk__figure_print(figure, "%s%zu '#%02x%02x%02x'", i ? ", " : "", i, c[0], c[1], c[2]);
    }
    qk__figure_print(figure, ")\n");
}

void qk__figure_legend(qk__figure *figure, const char *style, const char *title)
{
    qk__figure_print(figure, ", NaN with %s title %s", style, title);
}

/* ---- of a study ------------------------------------------------------------------------- */

/* Of a character beside its size, and of titles beside the theme's size. */
#define CHARACTER_WIDTH 0.58
#define TITLE_TYPE      1.1

/* Places that the character beginning with this byte takes in a line: Chinese, Japanese and
 * Korean take two. */
static size_t columns_of(unsigned char lead)
{
    return (lead & 0xc0) == 0x80 ? 0 : (lead >= 0xe3 && lead <= 0xed) || lead >= 0xf0 ? 2 : 1;
}

size_t qk__count_columns(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += columns_of((unsigned char)*text);
    return count;
}

void qk__shorten(const char *text, size_t limit, char *out, size_t size)
{
    bool cut = qk__count_columns(text) > limit;
    size_t keep = cut ? limit - 1 : limit, length = 0, count = 0;
    for (; text[length] && length + 4 < size; length++) {
        count += columns_of((unsigned char)text[length]);
        if (count > keep)
            break;
        out[length] = text[length];
    }
    snprintf(out + length, size - length, "%s", cut ? "\xe2\x80\xa6" : "");
}

void qk__figure_panel_phases(qk__figure *figure, const qk__results *results, double width)
{
    if (!results->checkpoints || results->num_phases == 0)
        return;
    double step = fmax(0, width) / ((double)results->num_models + 0.2);
    double character = 0.8 * CHARACTER_WIDTH * figure->theme->font_size;
    for (size_t first = 0, end; first < results->num_models; first = end) {
        const qk__result_model *models = results->models;
        for (end = first + 1; end < results->num_models; end++)
            if (models[end].phase_index != models[first].phase_index)
                break;
        if (first > 0)
            qk__figure_vertical(figure, (double)first - 0.5);
        double room = floor((double)(end - first) * step / character - 0.5);
        if (room < LEAST_NAME)
            continue;
        char name[256];
        qk__shorten(models[first].phase, room < 60 ? (size_t)room : 60, name, sizeof name);
        qk__figure_print(figure,
                         "set label %s at first %g, graph 1 offset 0,0.6 center tc rgb '%s' "
                         "font sprintf(',%%g', 0.8*size)\n",
                         qk__figure_quote(figure, name), (double)(first + end - 1) / 2,
                         figure->theme->muted);
    }
    qk__figure_print(figure, "set title offset 0,0.9\n");
}
