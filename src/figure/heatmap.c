/* SPDX-License-Identifier: Apache-2.0 */
/* Heatmaps: coloured cells with their values, rows from the top. Cells are boxes rather than an
 * image, so that an SVG keeps them sharp and needs no picture inside. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "figure/figure.h"

enum { MAX_LABELS = 100 };

static void find_range(const qk__heatmap *map, double *low, double *high)
{
    *low = map->low;
    *high = map->high;
    if (*low < *high)
        return;
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < map->rows * map->columns; i++)
        if (isfinite(map->values[i])) {
            *low = fmin(*low, map->values[i]);
            *high = fmax(*high, map->values[i]);
        }
    if (!(*low <= *high))
        *low = *high = 0;
    double scale = fmax(fabs(*low), fabs(*high));
    if (*high - *low <= 1e-6 * scale) { /* one value, or none: any range that holds it */
        *low -= fmax(1e-3 * scale, 0.5);
        *high += fmax(1e-3 * scale, 0.5);
    }
}

static void set_labels(qk__figure *figure, const char *axis, const char *const *labels,
                       size_t count, const char *options)
{
    size_t step = (count + MAX_LABELS - 1) / MAX_LABELS;
    qk__figure_print(figure, "set %stics scale 0 %s (", axis, options);
    for (size_t i = 0; i < count; i += step) {
        qk__figure_print(figure, i ? ", " : "");
        if (labels)
            qk__figure_print(figure, "%s %zu", qk__figure_tic(figure, labels[i]), i);
        else
            qk__figure_print(figure, "'%zu' %zu", i, i);
    }
    qk__figure_print(figure, ")\n");
}

static void set_text(qk__figure *figure, const char *what, const char *text)
{
    if (text && *text)
        qk__figure_print(figure, "set %s %s\n", what, text);
    else
        qk__figure_print(figure, "unset %s\n", what);
}

/* What rounds to zero has no sign. */
static void add_cell_text(qk__figure *figure, const char *format, double value)
{
    char text[64];
    snprintf(text, sizeof text, format, value);
    qk__figure_words(figure, "%s", text + (text[0] == '-' && strtod(text, NULL) == 0));
}

/* x y value colour-of-text text */
static size_t add_cells(qk__figure *figure, const qk__heatmap *map, double low, double high)
{
    for (size_t row = 0; row < map->rows; row++)
        for (size_t column = 0; column < map->columns; column++) {
            double value = map->values[row * map->columns + column];
            if (!isfinite(value))
                continue;
            unsigned char rgb[3];
            qk__colormap_at(map->map, (value - low) / (high - low), rgb);
            qk__figure_values(figure, (double)column, (double)row, value);
            if (map->cell_format) {
                qk__figure_words(figure, qk__is_dark(rgb) ? "0xfefefe " : "0x101010 ");
                add_cell_text(figure, map->cell_format, value);
            }
            qk__figure_end_row(figure);
        }
    return qk__figure_end_block(figure);
}

void qk__figure_heatmap(qk__figure *figure, const qk__heatmap *map)
{
    double low, high;
    find_range(map, &low, &high);
    size_t block = add_cells(figure, map, low, high);
    double right = fmax((double)map->columns, 1) - 0.5, top = fmax((double)map->rows, 1) - 0.5;
    qk__figure_palette(figure, map->map, false);
    qk__figure_print(figure, "set cbrange [%.9g:%.9g]\nset colorbox\nset cbtics scale 0.4\n",
                     low, high);
    qk__figure_print(figure, "set border 0\nset xrange [-0.5:%.1f]\nset yrange [%.1f:%.1f]\n",
                     right, map->bottom_up ? -0.5 : top, map->bottom_up ? top : -0.5);
    set_labels(figure, "x", map->column_labels, map->columns, "norotate");
    set_labels(figure, "y", map->row_labels, map->rows, "");
    set_text(figure, "title", map->title);
    set_text(figure, "xlabel", map->x_label);
    set_text(figure, "ylabel", map->y_label);
    set_text(figure, "cblabel", map->scale_label);
    qk__figure_print(figure,
                     "plot data index %zu using 1:2:(0.5):(0.5):3 with boxxyerror fs solid "
                     "border lw 0.3 lc palette",
                     block);
    if (map->cell_format)
        qk__figure_print(figure,
                         ", data index %zu using 1:2:5:4 with labels tc rgb variable "
                         "font sprintf(',%%g', 0.8*size)",
                         block);
    qk__figure_print(figure, "\n");
}
