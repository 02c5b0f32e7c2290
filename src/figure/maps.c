/* SPDX-License-Identifier: Apache-2.0 */
/* Draws maps. Cells are boxes rather than an image, so that an SVG keeps them sharp, unless there
 * are very many. A cell without a value is hatched: white or the first colour of the scale would
 * look like a small number. */
#include "figure/maps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pixels: of a text in a cell, of a tic's number; of bars. */
enum {
    TEXT_WIDTH = 30,
    TEXT_HEIGHT = 14,
    ROW_TIC = 13,
    BAR_STEPS = 128,
    BAR = 12, /* across */
    UP_TIC = 28,
    ACROSS_TIC = 40,
    BAR_BELOW = 46,   /* what a bar below takes, and the line that says what is hatched */
    LABEL_BELOW = 46, /* tics and a label */
    HATCHED_LINE = 22,
    LEAST_EDGED = 5,   /* a row of cells with edges */
    MANY_CELLS = 6000, /* more of them are an image in an SVG */
};

bool qk__start_map(qk__figure *figure, qk__map *map, size_t rows, size_t columns)
{
    map->rows = rows;
    map->columns = columns;
    map->values = qk__figure_alloc(figure, rows * columns + 1, sizeof *map->values);
    for (size_t i = 0; map->values && i < rows * columns; i++)
        map->values[i] = NAN;
    return map->values != NULL;
}

/* ---- cells ------------------------------------------------------------------------------ */

/* Grey with hatches, as no colour of a ramp is. */
static void hatch(qk__figure *figure, const char *where)
{
    qk__figure_print(figure,
                     "set object rectangle from %s behind fs solid noborder fc rgb '%s'\n"
                     "set object rectangle from %s behind fs transparent pattern 4 noborder fc "
                     "rgb '%s'\n",
                     where, figure->theme->grid, where, figure->theme->muted);
}

static double largest_in_map(const qk__map *map)
{
    double most = 0;
    for (size_t i = 0; i < map->rows * map->columns; i++)
        most = isfinite(map->values[i]) ? fmax(most, fabs(map->values[i])) : most;
    return most;
}

/* Rows: column, row, value, colour; with pairs, these; with texts, their colour and the text. Where values
 * are from elsewhere that comes first, and column and row last. */
static void add_cells(qk__figure *figure, qk__map *map)
{
    char text[QK__NUMBER_TEXT];
    const double factor = map->scale.power.factor;
    const char *format = map->format;
    if (map->texts && strcmp(format, "%.2f") == 0 && largest_in_map(map) * factor >= 10)
        format = "%.1f";
    for (size_t i = 0; i < map->rows * map->columns; i++) {
        if (!isfinite(map->values[i])) {
            map->missing++;
            continue;
        }
        bool dark;
        unsigned color = qk__scale_color(&map->scale, map->values[i], &dark);
        const size_t row = i / map->columns, column = i % map->columns;
        const double cell[2] = {(double)column, (double)row};
        qk__figure_add_values(figure, map->from ? map->from[i] : cell, 2);
        qk__figure_value(figure, map->values[i]);
        qk__figure_words(figure, "0x%06x ", color);
        if (map->from)
            qk__figure_add_values(figure, cell, 2);
        if (map->pairs)
            qk__figure_value(figure, map->pairs[i]);
        if (map->texts)
            qk__figure_words(figure, "%s %s", dark ? "0xfefefe" : "0x101010",
                             qk__number_text(text, format, factor * map->values[i]));
        qk__figure_end_row(figure);
    }
    map->block = qk__figure_end_block(figure);
}

static bool is_unsure(const qk__map *map, size_t i)
{
    return map->pairs && map->pairs[i] > 0 && map->pairs[i] < map->enough;
}

static void plot_cells(qk__figure *figure, const qk__map *map)
{
    if (map->missing && map->pairs)
        qk__figure_print(figure,
                         "set object rectangle from graph 0,0 to graph 1,1 behind fs solid "
                         "noborder fc rgb '%s'\n",
                         figure->theme->box);
    else if (map->missing)
        hatch(figure, "graph 0,0 to graph 1,1");
    for (size_t i = 0; map->pairs && i < map->rows * map->columns; i++)
        if (is_unsure(map, i)) {
            const size_t row = i / map->columns, column = i % map->columns;
            const double x = (double)column, y = (double)row;
            char cell[120];
            snprintf(cell, sizeof cell, "first %.1f,%.1f to first %.1f,%.1f", x - 0.5, y - 0.5,
                     x + 0.5, y + 0.5);
            hatch(figure, cell);
        }
    char where[48] = "1:2"; /* numbers of other cells are in the file all the same */
    if (map->pairs)
        snprintf(where, sizeof where, "($5 < %.0f ? NaN : $1):2", map->enough);
    else if (map->from)
        snprintf(where, sizeof where, "5:6");
    /* categories beside each other are told apart by a gap, numbers by their colours */
    const double columns = (double)map->columns, rows = (double)map->rows;
    bool apart = map->scale.categories && figure->panel_height >= LEAST_EDGED * rows;
    double gap = apart ? 0.5 * qk__em(figure) : 0;
    qk__figure_print(figure,
                     "plot data index %zu using %s:(%.4g):(%.4g):4 with boxxyerror fs solid "
                     "%s lc rgb variable",
                     map->block, where, 0.5 - gap * columns / figure->panel_width,
                     0.5 - gap * rows / figure->panel_height,
                     apart ? "noborder" : "border lw 0.3");
    if (map->texts)
        qk__figure_print(figure,
                         ", data index %zu using 1:2:6:5 with labels tc rgb variable offset "
                         "0,mid font small",
                         map->block);
    qk__figure_print(figure, "\nunset object\n");
}

/* ---- axes ------------------------------------------------------------------------------- */

/* Labels, or numbers, as many as there is room for. Those across are turned where a label is wider
 * than its cell and all of them say something. */
static void set_cell_labels(qk__figure *figure, char axis, const char *const *labels,
                            size_t count, double length)
{
    size_t longest = 2;
    for (size_t i = 0; i < count; i++)
        longest = labels && strlen(labels[i]) > longest ? strlen(labels[i]) : longest;
    double least = ROW_TIC * qk__em(figure), width = qk__text_width(figure, longest + 1);
    bool turned = axis == 'x' && longest > 6 && width * (double)count > length;
    if (axis == 'x' && !turned)
        least = width;
    size_t step = qk__tic_step(count, length, least);
    qk__figure_print(figure, "set %ctics scale 0 %s (", axis,
                     axis == 'y' ? ""
                     : turned    ? "rotate by 90 right"
                                 : "norotate");
    for (size_t i = 0; i < count; i += step) {
        qk__figure_print(figure, i ? ", " : "");
        if (labels)
            qk__figure_print(figure, "%s %zu", qk__figure_tic(figure, labels[i]), i);
        else
            qk__figure_print(figure, "'%zu' %zu", i, i);
    }
    qk__figure_print(figure, ") font small\n");
}

/* From 0, a tic every so many cells, that number a power of two. */
static void set_edges(qk__figure *figure, char axis, size_t count, double unit, double length)
{
    size_t every = 1;
    while ((double)count / (double)every >
           fmax(1, length / ((axis == 'x' ? 60 : 40) * qk__em(figure))))
        every *= 2;
    qk__figure_print(figure, "set %ctics scale 0.5 norotate (", axis);
    for (size_t i = 0; i <= count; i += every)
        qk__figure_print(figure, "%s'%.0f' %g", i ? ", " : "", (double)i * unit,
                         (double)i - 0.5);
    qk__figure_print(figure, ") font small\n");
}

static void set_ranges(qk__figure *figure, const qk__map *map)
{
    const bool counted = map->unit > 0 && !map->row_labels;
    double right = (double)map->columns - 0.5, end = (double)map->rows - 0.5;
    qk__figure_print(figure, "set xrange [-0.5:%.1f]\nset yrange [%.1f:%.1f]\n", right,
                     counted ? -0.5 : end, counted ? end : -0.5);
}

static void set_map_axes(qk__figure *figure, const qk__map *map, const qk__place *place)
{
    set_ranges(figure, map);
    if (map->unit > 0)
        set_edges(figure, 'x', map->columns, map->unit, place->width);
    else
        set_cell_labels(figure, 'x', map->column_labels, map->columns, place->width);
    if (map->unit > 0 && !map->row_labels)
        set_edges(figure, 'y', map->rows, map->unit, place->height);
    else
        set_cell_labels(figure, 'y', map->row_labels, map->rows, place->height);
}

/* Gaps between the phases, in the colour of the page. */
static void part_rows(qk__figure *figure, const qk__results *results)
{
    for (size_t m = 1; results->checkpoints && m < results->num_models; m++)
        if (results->models[m].phase_index != results->models[m - 1].phase_index)
            qk__figure_print(figure,
                             "set arrow from graph 0, first %.1f to graph 1, first %.1f nohead "
                             "front lt 1 lw 2.5 lc rgb '%s'\n",
                             (double)m - 0.5, (double)m - 0.5, figure->theme->background);
}

/* ---- panels ----------------------------------------------------------------------------- */

static void put_map_labels(qk__figure *figure, const qk__maps *all, size_t i,
                           const qk__place *place)
{
    const double em = qk__em(figure), middle = place->left + place->width / 2;
    const qk__map *map = &all->maps[i];
    if (map->title)
        qk__put_text(figure, map->title, middle, place->top - 12 * em,
                     all->count > 3 ? QK__SMALL_TYPE : QK__CENTRED);
    if (map->name)
        qk__put_text(figure,
                     qk__brief(figure, map->name,
                               (int)fmin(40, place->width / qk__text_width(figure, 1))),
                     middle, place->top - 11 * em, QK__SMALL_TYPE);
    if (qk__is_lowest(&all->sheet, i))
        qk__put_markup(figure, all->x_label, middle,
                       place->top + place->height + fmax(38, all->sheet.below - 16) * em,
                       QK__CENTRED);
    if (qk__is_leftmost(&all->sheet, i))
        qk__put_markup(figure, all->y_label, 14 * em, place->top + place->height / 2,
                       QK__CENTRED | QK__TURNED);
}

static void draw_map(qk__figure *figure, const qk__maps *all, size_t i, bool raster)
{
    const qk__map *map = &all->maps[i];
    const qk__place place = qk__panel_place(&all->sheet, i);
    qk__put_panel(figure, &place);
    set_map_axes(figure, map, &place);
    put_map_labels(figure, all, i, &place);
    if (all->parted)
        part_rows(figure, all->parted);
    if (map->line > 0)
        qk__figure_print(figure,
                         "set arrow from first %g, graph 0 to first %g, graph 1 nohead front "
                         "dt 2 lw 1.5 lc rgb '%s'\n",
                         map->line, map->line, figure->theme->muted);
    if (raster)
        qk__figure_print(figure, "if (raster) { plot NaN } else {\n");
    plot_cells(figure, map);
    qk__figure_print(figure, "%sunset label\nunset arrow\n", raster ? "}\n" : "");
}

/* So many cells that an SVG has them as an image, which is drawn first; a PDF packs boxes well. */
static void add_cell_image(qk__figure *figure, const qk__maps *all)
{
    qk__figure_begin_raster(figure, false);
    for (size_t i = 0; i < all->count; i++) {
        const qk__place place = qk__panel_place(&all->sheet, i);
        qk__put_panel(figure, &place);
        set_ranges(figure, &all->maps[i]);
        plot_cells(figure, &all->maps[i]);
    }
    qk__figure_end_raster(figure);
}

/* ---- what the colours mean -------------------------------------------------------------- */

static double bar_value(const qk__scale *s, double step)
{
    double share = step / BAR_STEPS;
    return s->logarithmic ? s->low * pow(s->high / s->low, share)
                          : s->low + (s->high - s->low) * share;
}

/* Rows: from, the end of the scale, colour. A box reaches to the end, under those that follow: no
 * seams. */
static size_t add_bar(qk__figure *figure, const qk__scale *s)
{
    const double factor = s->power.factor;
    bool dark;
    for (int i = 0; i < BAR_STEPS; i++) {
        qk__figure_values(figure, factor * bar_value(s, i), factor * s->high);
        qk__figure_words(figure, "0x%06x", qk__scale_color(s, bar_value(s, i + 0.5), &dark));
        qk__figure_end_row(figure);
    }
    return qk__figure_end_block(figure);
}

/* At most six parts, each of `least` pixels. */
static double bar_step(const qk__scale *s, double length, double least)
{
    return qk__round_step(1.4 * s->power.factor * (s->high - s->low) /
                          fmax(1, fmin(6, length / least)));
}

/* Characters of the longest tic. */
static size_t longest_tic(const qk__scale *s, double length)
{
    const double factor = s->power.factor, step = bar_step(s, length, UP_TIC);
    size_t longest = 0;
    for (double k = ceil(factor * s->low / step); k * step <= factor * s->high; k++) {
        size_t count = (size_t)snprintf(NULL, 0, "%g", k * step);
        longest = count > longest ? count : longest;
    }
    return s->logarithmic ? 5 : longest;
}

static void plot_bar(qk__figure *figure, const qk__map *map, const qk__place *place,
                     bool upright)
{
    const double em = qk__em(figure), factor = map->scale.power.factor;
    const double low = factor * map->scale.low, high = factor * map->scale.high;
    double length = upright ? place->height : place->width;
    double step = bar_step(&map->scale, length / em, upright ? UP_TIC : ACROSS_TIC);
    size_t block = add_bar(figure, &map->scale);
    qk__put_panel(figure, place);
    if (map->scale.logarithmic) {
        qk__figure_print(figure, "set logscale %s\n", upright ? "yy2" : "x");
        step = 10;
    }
    qk__figure_print(figure,
                     "unset xtics\nunset ytics\nset %srange [%.9g:%.9g]\n"
                     "set %srange [0:1]\nset %stics scale 0.4 %.9g tc rgb '%s' font small\n",
                     upright ? "y" : "x", low, high, upright ? "x" : "y", upright ? "y2" : "x",
                     step, figure->theme->ink);
    if (upright)
        qk__figure_print(figure,
                         "set y2tics offset 0,mid\nset y2range [%.9g:%.9g]\n"
                         "plot data index %zu using (0.5):(($1+$2)/2):(0.5):"
                         "(($2-$1)/2):3",
                         low, high, block);
    else
        qk__figure_print(
            figure, "plot data index %zu using (($1+$2)/2):(0.5):(($2-$1)/2):(0.5):3", block);
    qk__figure_print(figure,
                     " with boxxyerror fs solid noborder lc rgb variable\n"
                     "unset y2tics\nunset label\n%s",
                     map->scale.logarithmic ? "unset logscale\n" : "");
}

/* Beside its panel, its name behind the numbers. */
static void draw_own_bar(qk__figure *figure, const qk__map *map, const qk__place *of)
{
    const double em = qk__em(figure);
    const qk__place place = {of->left + of->width + 12 * em, of->top, BAR * em, of->height};
    if (map->bar)
        qk__put_markup(
            figure, map->bar,
            fmin(figure->width - 10 * em,
                 place.left + (BAR + 22) * em +
                     qk__text_width(figure, longest_tic(&map->scale, of->height / em))),
            place.top + place.height / 2, QK__CENTRED | QK__TURNED | QK__SMALL_TYPE);
    plot_bar(figure, map, &place, true);
}

/* Below all panels, its name to the left of it. */
static void draw_shared_bar(qk__figure *figure, const qk__map *map, double top)
{
    const double em = qk__em(figure);
    char name[QK__LINE_SIZE], bar[QK__LINE_SIZE];
    snprintf(name, sizeof name, "%s%s%s", qk__in_symbols(figure, map->bar, bar),
             map->scale.power.text, map->scale.cut ? ", 98 % of heads" : "");
    double width = fmin(300 * em, 0.5 * figure->width);
    double left = fmax((figure->width - width) / 2 + 40 * em,
                       qk__text_width(figure, qk__count_columns(name)) + 20 * em);
    width = fmax(40 * em, fmin(width, figure->width - left - 20 * em));
    const qk__place place = {left, top, width, BAR * em};
    qk__put_markup(figure, name, place.left - 12 * em, top + 0.5 * BAR * em,
                   QK__LEFT_OF | QK__SMALL_TYPE);
    plot_bar(figure, map, &place, false);
}

/* A hatched box and what it means, in the last line of the figure. */
static void tell_hatched(qk__figure *figure, const char *why)
{
    const double em = qk__em(figure), y = figure->height - 14 * em;
    double x = figure->width / 2.0 - fmax(70 * em, qk__text_width(figure, strlen(why)) / 2);
    char where[120];
    snprintf(where, sizeof where, "screen %.5f,%.5f to screen %.5f,%.5f", x / figure->width,
             1 - (y + 6 * em) / figure->height, (x + 14 * em) / figure->width,
             1 - (y - 6 * em) / figure->height);
    hatch(figure, where);
    qk__put_markup(figure, why, x + 22 * em, y, QK__RIGHT_OF | QK__SMALL_TYPE);
}

/* ---- the figure ------------------------------------------------------------------------- */

/* Which cells have texts, and what lies around the panels. */
static void plan_maps(qk__figure *figure, qk__maps *all)
{
    const double em = qk__em(figure);
    bool missing = false;
    for (size_t m = 0; m < all->count; m++)
        for (size_t i = 0; i < all->maps[m].rows * all->maps[m].columns; i++)
            missing |= !isfinite(all->maps[m].values[i]);
    if (!missing)
        all->hatched = NULL;
    bool bar = all->one_scale && !all->maps[0].scale.categories;
    all->sheet.count = all->count;
    all->sheet.foot += all->sheet.below < LABEL_BELOW ? LABEL_BELOW - all->sheet.below : 0;
    all->sheet.foot += (bar ? BAR_BELOW : 6) + (all->hatched ? HATCHED_LINE : 0);
    qk__lay_out(figure, &all->sheet);
    for (size_t m = 0; m < all->count; m++) {
        qk__map *map = &all->maps[m];
        map->texts = map->format && !map->scale.categories && map->rows > 0 &&
                     all->sheet.first.width >= (strcmp(map->format, "%.0f") == 0 ? 0.6 : 1) *
                                                   TEXT_WIDTH * em * (double)map->columns &&
                     all->sheet.first.height >= TEXT_HEIGHT * em * (double)map->rows;
    }
}

void qk__draw_maps(qk__figure *figure, qk__maps *all)
{
    const double em = qk__em(figure);
    size_t cells = 0;
    plan_maps(figure, all);
    for (size_t i = 0; i < all->count; i++) {
        add_cells(figure, &all->maps[i]);
        cells += all->maps[i].rows * all->maps[i].columns - all->maps[i].missing;
    }
    bool raster = cells > MANY_CELLS;
    if (raster)
        add_cell_image(figure, all);
    qk__begin_sheet(figure, &all->sheet);
    qk__figure_print(figure, "set border 15 lw 0.5\nset tics scale 0.3\n");
    if (all->hatched)
        tell_hatched(figure, all->hatched);
    for (size_t i = 0; i < all->count; i++)
        draw_map(figure, all, i, raster);
    if (all->one_scale && !all->maps[0].scale.categories)
        draw_shared_bar(figure, &all->maps[0],
                        all->sheet.first.top - all->sheet.above * em +
                            (double)all->sheet.rows * all->sheet.down +
                            (8 + fmax(0, LABEL_BELOW - all->sheet.below)) * em);
    for (size_t i = 0; !all->one_scale && i < all->count; i++) {
        const qk__place place = qk__panel_place(&all->sheet, i);
        draw_own_bar(figure, &all->maps[i], &place);
    }
    qk__end_sheet(figure);
}
