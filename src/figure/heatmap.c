/* SPDX-License-Identifier: Apache-2.0 */
/* Heatmaps: coloured cells with their values, rows from the top. Cells are boxes rather than an
 * image, so that an SVG keeps them sharp and needs no picture inside. A cell without a value is
 * hatched: white or the first colour of the scale would look like a small number. */
#include <math.h>
#include <string.h>

#include "figure/figure.h"

enum {
    MAX_LABELS = 100,
    NUM_SIGNED = 201,
    MAX_TICS = 6,
    TIC_HEIGHT = 22,
    LABEL_WIDTH = 34,
    CELL = 28,
    SHORT_LABEL = 6,
    CHARACTER = 8
};

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

/* Whether columns have less room than that, on a page whose width is given. */
static bool is_narrow(const qk__figure *figure, size_t columns, double least)
{
    return figure->millimetres > 0 && figure->panel_width > 0 &&
           figure->panel_width < (double)columns * least * figure->theme->font_size / 13;
}

static void set_labels(qk__figure *figure, const char *axis, const char *const *labels,
                       size_t count, const char *options)
{
    size_t step = (count + MAX_LABELS - 1) / MAX_LABELS;
    size_t longest = 0;
    for (size_t i = 0; labels && i < count; i++)
        longest = strlen(labels[i]) > longest ? strlen(labels[i]) : longest;
    if (axis[0] == 'x' && longest > SHORT_LABEL &&
        is_narrow(figure, count, CHARACTER * (double)longest))
        options = "rotate by 90 right";
    else if (axis[0] == 'x' && is_narrow(figure, count, LABEL_WIDTH))
        step = (size_t)ceil((double)count * LABEL_WIDTH * figure->theme->font_size / 13 /
                            figure->panel_width);
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

/* A ramp over *low to *high in which negative values have the other ramp's colours, as deep as
 * positive ones of that size, and none of its palest: -0.01 is seen to be below 0. The range is
 * widened to have 0 at one of its colours: between two of them, colours of both signs would mix.
 */
static void fill_signed(const qk__heatmap *map, double *low, double *high,
                        unsigned char rgb[NUM_SIGNED][3])
{
    const int last = NUM_SIGNED - 1;
    *high = fmax(*high, 0);
    int zero = (int)fmin(last, ceil(last * -*low / (*high - *low)));
    double step = zero > 0 ? -*low / zero : 0;
    if (zero < last)
        step = fmax(step, *high / (last - zero));
    *low = -zero * step;
    *high = (last - zero) * step;
    double largest = step * (zero > last - zero ? zero : last - zero);
    for (int i = 0; i < NUM_SIGNED; i++) {
        double size = fabs((i - zero) * step) / largest;
        if (i < zero)
            qk__colormap_at(map->negative, 0.2 + 0.8 * size, rgb[i]);
        else
            qk__colormap_at(map->map, size, rgb[i]);
    }
}

/* x y value colour-of-text text */
static size_t add_cells(qk__figure *figure, const qk__heatmap *map, const qk__colormap *colors,
                        double low, double high)
{
    char text[QK__NUMBER_TEXT];
    for (size_t row = 0; row < map->rows; row++)
        for (size_t column = 0; column < map->columns; column++) {
            double value = map->values[row * map->columns + column];
            if (!isfinite(value))
                continue;
            unsigned char rgb[3];
            qk__colormap_at(colors, (value - low) / (high - low), rgb);
            qk__figure_values(figure, (double)column, (double)row, value);
            if (map->cell_format) {
                qk__figure_words(figure, qk__is_dark(rgb) ? "0xfefefe " : "0x101010 ");
                qk__figure_words(figure, "%s", qk__number_text(text, map->cell_format, value));
            }
            qk__figure_end_row(figure);
        }
    return qk__figure_end_block(figure);
}

bool qk__heatmap_has_gaps(const qk__heatmap *map)
{
    for (size_t i = 0; i < map->rows * map->columns; i++)
        if (!isfinite(map->values[i]))
            return true;
    return false;
}

static void plot_gaps(qk__figure *figure, const qk__heatmap *map)
{
    if (!qk__heatmap_has_gaps(map))
        return;
    for (size_t row = 0; row < map->rows; row++)
        for (size_t column = 0; column < map->columns; column++)
            if (!isfinite(map->values[row * map->columns + column]))
                qk__figure_row(figure, (double)column, (double)row);
    size_t block = qk__figure_end_block(figure);
    qk__figure_print(figure,
                     ", data index %zu using 1:2:(0.5):(0.5) with boxxyerror fs solid noborder "
                     "lc rgb '%s', data index %zu using 1:2:(0.5):(0.5) with boxxyerror "
                     "fs transparent pattern 4 noborder lc rgb '%s'",
                     block, figure->theme->grid, block, figure->theme->muted);
}

/* Between tics of the scale: round, and with room for their numbers. */
static double tic_step(const qk__figure *figure, double range)
{
    double height = figure->panel_height > 0 ? figure->panel_height : figure->height / 2.0;
    double room = height / (TIC_HEIGHT * figure->theme->font_size / 13);
    double least = range / fmax(1, fmin(MAX_TICS, room)), step = qk__round_step(least);
    while (step < 0.99 * least)
        step = qk__round_step(2.1 * step);
    return step;
}

static void set_scale(qk__figure *figure, const qk__heatmap *map, const qk__colormap *colors,
                      double low, double high)
{
    qk__figure_palette(figure, colors, false);
    qk__figure_print(figure,
                     "set cbrange [%.9g:%.9g]\nset colorbox\n"
                     "set cbtics scale 0.4 %.9g offset 0,mid\n",
                     low, high, tic_step(figure, high - low));
    set_text(figure, "cblabel", map->scale_label);
    qk__figure_print(figure, "set cblabel offset 0.8,0\n");
}

void qk__figure_heatmap(qk__figure *figure, const qk__heatmap *map)
{
    double low, high;
    unsigned char rgb[NUM_SIGNED][3];
    qk__colormap both = {"signed", NUM_SIGNED, (const unsigned char(*)[3])rgb};
    find_range(map, &low, &high);
    bool has_negative = map->negative && low < 0;
    if (has_negative)
        fill_signed(map, &low, &high, rgb);
    const qk__colormap *colors = has_negative ? &both : map->map;
    size_t block = add_cells(figure, map, colors, low, high);
    double right = fmax((double)map->columns, 1) - 0.5, top = fmax((double)map->rows, 1) - 0.5;
    set_scale(figure, map, colors, low, high);
    qk__figure_print(figure, "set border 0\nset xrange [-0.5:%.1f]\nset yrange [%.1f:-0.5]\n",
                     right, top);
    set_labels(figure, "x", map->column_labels, map->columns, "norotate");
    set_labels(figure, "y", map->row_labels, map->rows, "");
    set_text(figure, "title", map->title);
    set_text(figure, "xlabel", map->x_label);
    set_text(figure, "ylabel", map->y_label);
    qk__figure_print(figure,
                     "plot data index %zu using 1:2:(0.5):(0.5):3 with boxxyerror fs solid "
                     "border lw 0.3 lc palette",
                     block);
    plot_gaps(figure, map);
    if (map->cell_format && !is_narrow(figure, map->columns, CELL))
        qk__figure_print(figure,
                         ", data index %zu using 1:2:5:4 with labels tc rgb variable "
                         "offset 0,mid font sprintf(',%%g', 0.8*size)",
                         block);
    qk__figure_print(figure, "\n");
}
