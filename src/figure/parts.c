/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that several figure families use: label axes, guide lines, palettes, legend entries. */
#include <string.h>

#include "figure/figure.h"

/* Beyond these, labels beside each other would run into one another. */
enum { MAX_LEVEL_LABELS = 12, MAX_LEVEL_CHARACTERS = 70 };

void qk__figure_label_axis(qk__figure *figure, const char *const *labels, size_t count)
{
    size_t characters = 0;
    for (size_t i = 0; i < count; i++)
        characters += strlen(labels[i]) + 2;
    bool turned = count > MAX_LEVEL_LABELS || characters > MAX_LEVEL_CHARACTERS;
    qk__figure_print(figure, "set xrange [-0.6:%.1f]\nset xtics scale 0 %s (",
                     (double)count - 0.4, turned ? "rotate by 40 right" : "norotate");
    for (size_t i = 0; i < count; i++)
        qk__figure_print(figure, "%s%s %zu", i ? ", " : "", qk__figure_tic(figure, labels[i]),
                         i);
    qk__figure_print(figure, ")\n");
}

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
