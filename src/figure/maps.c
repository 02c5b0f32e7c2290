/* SPDX-License-Identifier: Apache-2.0 */
/* Draws maps. Cells are boxes, which an SVG keeps sharp, or an image where there are very many. A cell without a value
 * is hatched: white, or the first colour of the scale, would look like a small number. */
#include "figure/maps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw/png.h"

/* Pixels: of a text in a cell, of a tic's number; of bars. */
enum {
    TEXT_WIDTH = 30,
    TEXT_HEIGHT = 14,
    ROW_TIC = 13,
    BAR_STEPS = 128,
    BAR = 12,       /* across */
    BAR_DIGITS = 4, /* of its numbers, about */
    UP_TIC = 28,
    ACROSS_TIC = 40,
    BAR_BELOW = 46,   /* height of a bar below, with the line that says what is hatched */
    LABEL_BELOW = 46, /* tics and a label */
    HATCHED_LINE = 22,
    LEAST_EDGED = 5,   /* a row of cells with edges */
    MANY_CELLS = 4000, /* more cells are an image */
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

static double largest_in_map(const qk__map *map)
{
    double most = 0;
    for (size_t i = 0; i < map->rows * map->columns; i++)
        most = isfinite(map->values[i]) ? fmax(most, fabs(map->values[i])) : most;
    return most;
}

static bool is_unsure(const qk__map *map, size_t i)
{
    return map->pairs && map->pairs[i] > 0 && map->pairs[i] < map->enough;
}

/* The whole of a label that was cut. */
static const char *whole_label(const qk__figure *figure, const char *markup)
{
    const char *whole = markup ? qk__whole_of(figure, markup) : NULL;
    return whole ? whole : markup;
}

/* Tells where a cell is: by its label, by what it is from, or by its distance along the axis. */
static void tell_cell(qk__figure *figure, const qk__map *map, size_t i)
{
    const size_t row = i / map->columns, column = i % map->columns;
    const double unit = map->unit > 0 ? map->unit : 1;
    const qk__told told = {.panel = whole_label(figure, map->title ? map->title : map->name),
                           .x_name = map->column_labels && !map->from
                                         ? whole_label(figure, map->column_labels[column])
                                         : NULL,
                           .y_name = map->row_labels && !map->from
                                         ? whole_label(figure, map->row_labels[row])
                                         : NULL,
                           .x = map->from ? map->from[i][0] : (double)column * unit,
                           .y = map->from ? map->from[i][1] : (double)row * unit,
                           .low = NAN,
                           .high = NAN,
                           .value = map->values[i]};
    if (isfinite(map->values[i]))
        qk__tell(figure, &told);
}

/* Row 0 is at the top, unless rows are counted from below. */
static bool from_below(const qk__map *map)
{
    return map->unit > 0 && !map->row_labels;
}

static void fill_cell(qk__figure *figure, const qk__map *map, const qk__plot *plot, size_t i,
                      double gap)
{
    const size_t row = i / map->columns;
    const double x = (double)(i - row * map->columns), y = (double)row;
    const double width = plot->width / (double)map->columns;
    const double height = plot->height / (double)map->rows;
    const double left = qk__at_x(plot, x - 0.5),
                 top = fmin(qk__at_y(plot, y - 0.5), qk__at_y(plot, y + 0.5));
    char color[8], text[QK__NUMBER_TEXT];
    bool dark;
    if (is_unsure(map, i) || (!isfinite(map->values[i]) && !map->pairs)) {
        qk__draw_hatched(&figure->canvas, left, top, width, height);
        return;
    }
    if (!isfinite(map->values[i]))
        return;
    /* neighbours overlap a little, so that no background shows between them */
    const double more = gap > 0 ? -2 * gap : 0.15;
    qk__hex(qk__scale_color(&map->scale, map->values[i], &dark), color);
    qk__draw_rect(&figure->canvas, left + gap, top + gap, width + more, height + more,
                  (qk__pen){.fill = color});
    if (!map->texts)
        return;
    const double factor = map->scale.power.factor;
    qk__draw_text(&figure->canvas, qk__number_text(text, map->format, factor * map->values[i]),
                  left + width / 2, top + height / 2,
                  (qk__type){plot->type, dark ? "#fefefe" : "#101010", QK__MIDDLE, 0, NULL});
}

/* Very many cells are the pixels of an image, since boxes would take megabytes. Each pixel is repeated until viewers
 * that smooth images leave its middle as it is. */
static void put_cell_image(qk__figure *figure, const qk__map *map, const qk__plot *plot)
{
    enum { SIDE = 4, STEPS = 250 };
    qk__bitmap bitmap;
    qk__buffer png = {0};
    qk_error err;
    bool dark;
    qk_status status = qk__bitmap_make(&bitmap, SIDE * map->columns, SIDE * map->rows, &err);
    const qk__scale *s = &map->scale;
    const int last = s->categories ? QK_NUM_CATEGORIES - 1 : STEPS;
    bitmap.count = (size_t)last + 2;
    for (int c = 0; status == QK_OK && c <= last; c++) {
        unsigned color =
            qk__scale_color(s, s->categories ? c : qk__bar_value(s, (double)c / STEPS), &dark);
        for (int k = 0; k < 3; k++)
            bitmap.colors[c + 1][k] = (uint8_t)(color >> (16 - 8 * k));
    }
    for (size_t y = 0; status == QK_OK && y < bitmap.height; y++)
        for (size_t x = 0; x < bitmap.width; x++) {
            size_t row = y / SIDE;
            row = from_below(map) ? map->rows - 1 - row : row;
            double value = map->values[row * map->columns + x / SIDE];
            if (isfinite(value))
                bitmap.pixels[y * bitmap.width + x] =
                    (uint8_t)(1.5 + (s->categories ? value : STEPS * qk__bar_share(s, value)));
        }
    if (status == QK_OK)
        status = qk__png_write(&bitmap, &png, &err);
    qk__figure_fail(figure, status, &err);
    if (status == QK_OK)
        qk__draw_image(&figure->canvas, plot->left, plot->top, plot->width, plot->height, &png,
                       true);
    qk__buffer_free(&png);
    qk__bitmap_free(&bitmap);
}

/* Neighbouring categories are separated by a gap where there is room for it, numbers only by their colours. */
static void draw_cells(qk__figure *figure, const qk__map *map, const qk__plot *plot)
{
    const size_t cells = map->rows * map->columns;
    bool apart = map->scale.categories && plot->height >= LEAST_EDGED * (double)map->rows;
    for (size_t i = 0; i < cells; i++)
        tell_cell(figure, map, i);
    if (map->missing && map->pairs)
        qk__draw_rect(&figure->canvas, plot->left, plot->top, plot->width, plot->height,
                      (qk__pen){.fill = figure->theme->box});
    if (map->image) {
        if (map->missing)
            qk__draw_hatched(&figure->canvas, plot->left, plot->top, plot->width, plot->height);
        put_cell_image(figure, map, plot);
        return;
    }
    for (size_t i = 0; i < cells; i++)
        fill_cell(figure, map, plot, i, apart ? 0.5 * qk__em(figure) : 0);
}

/* ---- axes ------------------------------------------------------------------------------- */

/* Labels, or numbers, as many as there is room for. Labels across are turned where a label is wider than its cell and
 * none may be left out. */
static void put_cell_labels(qk__figure *figure, const qk__plot *plot, qk__edge edge,
                            const char *const *labels, size_t count)
{
    const double length = edge == QK__BELOW ? plot->width : plot->height;
    double longest = qk__text_width(figure, 2), least = ROW_TIC * qk__em(figure);
    for (size_t i = 0; labels && i < count; i++)
        longest = fmax(longest, qk__markup_width(figure, labels[i]));
    longest += qk__text_width(figure, 1);
    bool turned = edge == QK__BELOW && longest > qk__text_width(figure, 7) &&
                  longest * (double)count > length;
    if (edge == QK__BELOW && !turned)
        least = longest;
    size_t step = qk__tic_step(count, length, least);
    const char **texts = qk__figure_alloc(figure, count + 1, sizeof *texts);
    for (size_t i = 0; texts && i < count; i++)
        texts[i] = labels          ? labels[i]
                   : i % step == 0 ? qk__figure_format(figure, "%zu", i)
                                   : "";
    if (texts)
        qk__put_labels(figure, plot, edge, texts, count, step,
                       (qk__tic_style){.turn = turned ? 90 : 0});
}

/* Tics from 0 on, at every so many cells, a power of two. */
static void put_edges(const qk__figure *figure, const qk__plot *plot, qk__edge edge,
                      size_t count, double unit)
{
    const double length = edge == QK__BELOW ? plot->width : plot->height;
    size_t every = 1;
    while ((double)count / (double)every >
           fmax(1, length / ((edge == QK__BELOW ? 60 : 40) * qk__em(figure))))
        every *= 2;
    for (size_t i = 0; i <= count; i += every) {
        char number[32];
        snprintf(number, sizeof number, "%.0f", (double)i * unit);
        const qk__tic tic = {(double)i - 0.5, number, NULL};
        qk__label_tics(plot, edge, &tic, 1, (qk__tic_style){.length = 4 * qk__em(figure)});
    }
}

static void draw_map_axes(qk__figure *figure, const qk__map *map, const qk__plot *plot)
{
    if (map->unit > 0)
        put_edges(figure, plot, QK__BELOW, map->columns, map->unit);
    else
        put_cell_labels(figure, plot, QK__BELOW, map->column_labels, map->columns);
    if (from_below(map))
        put_edges(figure, plot, QK__LEFT, map->rows, map->unit);
    else
        put_cell_labels(figure, plot, QK__LEFT, map->row_labels, map->rows);
    qk__draw_sides(plot, 15);
}

/* Gaps between the phases, in the colour of the page. */
static void part_rows(const qk__figure *figure, const qk__plot *plot,
                      const qk__results *results)
{
    for (size_t m = 1; results->checkpoints && m < results->num_models; m++)
        if (results->models[m].phase_index != results->models[m - 1].phase_index)
            qk__line_across(plot, (double)m - 0.5,
                            (qk__pen){.stroke = figure->theme->background, .width = 2.5});
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
        qk__put_text(figure, map->name, middle, place->top - 11 * em, QK__SMALL_TYPE);
    if (qk__is_lowest(&all->sheet, i))
        qk__put_markup(figure, all->x_label, middle,
                       place->top + place->height + fmax(38, all->sheet.below - 16) * em,
                       QK__CENTRED);
    if (qk__is_leftmost(&all->sheet, i))
        qk__put_markup(figure, all->y_label, 14 * em, place->top + place->height / 2,
                       QK__CENTRED | QK__TURNED);
}

static void draw_map(qk__figure *figure, const qk__maps *all, size_t i)
{
    const qk__map *map = &all->maps[i];
    const qk__place place = qk__panel_place(&all->sheet, i);
    const double right = (double)map->columns - 0.5, end = (double)map->rows - 0.5;
    qk__plot plot = qk__figure_plot(figure, &place);
    plot.x = (qk__axis){-0.5, right, false};
    plot.y = from_below(map) ? (qk__axis){-0.5, end, false} : (qk__axis){end, -0.5, false};
    draw_cells(figure, map, &plot);
    if (all->parted)
        part_rows(figure, &plot, all->parted);
    if (map->line > 0)
        qk__line_up(&plot, map->line,
                    (qk__pen){.stroke = figure->theme->muted, .width = 1.5, .dashed = true});
    draw_map_axes(figure, map, &plot);
    put_map_labels(figure, all, i, &place);
}

/* ---- what the colours mean -------------------------------------------------------------- */

static void plot_bar(qk__figure *figure, const qk__map *map, const qk__place *place,
                     bool upright)
{
    const double em = qk__em(figure);
    const qk__scale *s = &map->scale;
    const qk__axis axis = {s->low, s->high, s->logarithmic};
    qk__plot plot = qk__figure_plot(figure, place);
    char color[8];
    bool dark;
    *(upright ? &plot.y : &plot.x) = axis;
    for (int i = 0; i < BAR_STEPS;
         i++) { /* each box reaches to the end, under those that follow: no seams */
        double from = qk__bar_value(s, (double)i / BAR_STEPS);
        qk__hex(qk__scale_color(s, qk__bar_value(s, (i + 0.5) / BAR_STEPS), &dark), color);
        if (upright)
            qk__draw_bar(&plot, 0, 1, from, s->high, (qk__pen){.fill = color});
        else
            qk__draw_bar(&plot, from, s->high, 0, 1, (qk__pen){.fill = color});
    }
    qk__draw_sides(&plot, 15);
    qk__number_tics(
        &plot, upright ? QK__RIGHT : QK__BELOW,
        fmax((upright ? UP_TIC : ACROSS_TIC) * em, (upright ? plot.height : plot.width) / 7), 0,
        (qk__tic_style){.length = 3 * em, .factor = s->power.factor});
}

/* The bar beside its panel, its name behind the numbers. */
static void draw_own_bar(qk__figure *figure, const qk__map *map, const qk__place *of)
{
    const double em = qk__em(figure);
    const qk__place place = {of->left + of->width + 12 * em, of->top, BAR * em, of->height};
    if (map->bar)
        qk__put_markup(figure, map->bar,
                       fmin(figure->width - 10 * em,
                            place.left + (BAR + 22) * em + qk__text_width(figure, BAR_DIGITS)),
                       place.top + place.height / 2, QK__CENTRED | QK__TURNED | QK__SMALL_TYPE);
    plot_bar(figure, map, &place, true);
}

/* The bar below all panels, its name to its left. */
static void draw_shared_bar(qk__figure *figure, const qk__map *map, double top)
{
    const double em = qk__em(figure);
    char name[QK__LINE_SIZE], bar[QK__LINE_SIZE];
    snprintf(name, sizeof name, "%s%s%s", qk__in_symbols(figure, map->bar, bar),
             map->scale.power.text, map->scale.cut ? ", 98 % of heads" : "");
    double width = fmin(300 * em, 0.5 * figure->width);
    double left =
        fmax((figure->width - width) / 2 + 40 * em, qk__markup_width(figure, name) + 20 * em);
    width = fmax(40 * em, fmin(width, figure->width - left - 20 * em));
    const qk__place place = {left, top, width, BAR * em};
    qk__put_markup(figure, name, place.left - 12 * em, top + 0.5 * BAR * em,
                   QK__LEFT_OF | QK__SMALL_TYPE);
    plot_bar(figure, map, &place, false);
}

/* A hatched box and its meaning, in the last line of the figure. */
static void tell_hatched(qk__figure *figure, const char *why)
{
    const double em = qk__em(figure), y = figure->height - 14 * em;
    double x = (figure->width - qk__markup_width(figure, why) - 22 * em) / 2;
    qk__draw_hatched(&figure->canvas, x, y - 6 * em, 14 * em, 12 * em);
    qk__put_markup(figure, why, x + 22 * em, y, QK__RIGHT_OF | QK__SMALL_TYPE);
}

/* ---- the figure ------------------------------------------------------------------------- */

/* Decides which cells have texts, and what stands around the panels. */
static void plan_maps(qk__figure *figure, qk__maps *all)
{
    const double em = qk__em(figure);
    bool missing = false;
    double most = 0;
    for (size_t m = 0; m < all->count; m++) {
        qk__map *map = &all->maps[m];
        for (size_t i = 0; i < map->rows * map->columns; i++)
            map->missing |= !isfinite(map->values[i]);
        missing |= map->missing;
        most = fmax(most, largest_in_map(map));
    }
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
        const double largest =
            map->scale.power.factor * (all->one_scale ? most : largest_in_map(map));
        if (map->texts && strcmp(map->format, "%.2f") == 0 && largest >= 10)
            map->format = "%.1f";
    }
}

void qk__draw_maps(qk__figure *figure, qk__maps *all)
{
    const double em = qk__em(figure);
    size_t cells = 0;
    plan_maps(figure, all);
    for (size_t i = 0; i < all->count; i++)
        cells += all->maps[i].rows * all->maps[i].columns;
    for (size_t i = 0; i < all->count; i++)
        all->maps[i].image = cells > MANY_CELLS && !all->maps[i].pairs;
    qk__begin_sheet(figure, &all->sheet);
    if (all->hatched)
        tell_hatched(figure, all->hatched);
    for (size_t i = 0; i < all->count; i++)
        draw_map(figure, all, i);
    if (all->one_scale && !all->maps[0].scale.categories)
        draw_shared_bar(figure, &all->maps[0],
                        all->sheet.first.top - all->sheet.above * em +
                            (double)all->sheet.rows * all->sheet.down +
                            (8 + fmax(0, LABEL_BELOW - all->sheet.below)) * em);
    for (size_t i = 0; !all->one_scale && i < all->count; i++) {
        const qk__place place = qk__panel_place(&all->sheet, i);
        draw_own_bar(figure, &all->maps[i], &place);
    }
}
