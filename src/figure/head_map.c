/* SPDX-License-Identifier: Apache-2.0 */
/* Head maps: every head in its place, layer by head, coloured by one of its numbers or by its
 * category; a panel for each model or checkpoint. Places without a head are hatched. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "figure/catalog.h"
#include "figure/head_cells.h"
#include "figure/panels.h"

static const qk__map_kind R_Q = {.field = "r_q",
                                 .title = "{/:Italic r}_q on PC0",
                                 .scale = "{/:Italic r}_q",
                                 .correlation = true,
                                 .from_zero = true,
                                 .above = &qk__blues,
                                 .below = &qk__ylorrd};
/* A key head has one for each query head that it is shared by: PC0 is of the two together. */
static const qk__map_kind R_K = {.field = "r_k",
                                 .title = "{/:Italic r}_k on PC0",
                                 .scale = "{/:Italic r}_k",
                                 .correlation = true,
                                 .from_zero = true,
                                 .above = &qk__reds,
                                 .below = &qk__blues};
static const qk__map_kind BIAS = {.field = "bias_strength",
                                  .title = "Bias strength μ_q^a α_k",
                                  .scale = "bias strength",
                                  .from_zero = true,
                                  .above = &qk__ylorrd,
                                  .below = &qk__blues};
static const qk__map_kind PLANE = {.field = "plane_var_fraction",
                                   .title = "Share of variance in the plane (a, b)",
                                   .scale = "share of variance",
                                   .from_zero = true,
                                   .above = &qk__viridis,
                                   .below = &qk__viridis};
static const qk__map_kind PLASTICITY = {.field = "ap_overall",
                                        .title = "Attention plasticity",
                                        .scale = "attention plasticity",
                                        .above = &qk__magma,
                                        .below = &qk__magma};
static const qk__map_kind CATEGORY = {.title = "Category"};

/* Pixels: of a layer where panels
 * stand alone, in pairs, in more columns; of the narrowest panel and head; from where on cells
 * have their values in them. */
enum {
    LAYER_ALONE = 17,
    LAYER_IN_PAIRS = 9,
    LAYER_IN_GRID = 5,
    LAYER_NARROW = 3,
    NARROW = 600, /* a page of that width has no room to spare */
    LEAST_PANEL = 100,
    MOST_CELL = 64,
    LEAST_FIGURE = 420,
    TEXT_WIDTH = 30,
    TEXT_HEIGHT = 14,
    BAR_STEPS = 128,
    MAX_NAME = 40,
    MANY_CELLS = 6000, /* more of them are an image in an SVG */
};

/* ---- places ----------------------------------------------------------------------------- */

typedef struct sheet {
    size_t columns, rows;
    qk__place first; /* panel */
    double step_x, step_y;
    double left;     /* of all panels; their right end is that of the last */
    double legend_y; /* below the panels */
    qk__legend legend;
    qk__entry entries[QK_NUM_CATEGORIES + 1];
} sheet;

static size_t choose_columns(const qk__figure *figure, const qk__map_cells *all, double room,
                             double gap)
{
    size_t n = all->count, columns = n <= 3 ? n : n == 4 ? 2 : n <= 6 ? 3 : 4;
    bool narrow = figure->width < NARROW;
    double least = fmax(LEAST_PANEL, (narrow                    ? 1.5
                                      : figure->millimetres > 0 ? 2.5
                                                                : 4) *
                                         (double)all->heads);
    columns = narrow && columns > 2 ? 2 : columns;
    while (columns > 1 && (room + gap) / (double)columns - gap < least)
        columns--;
    return columns > 0 ? columns : 1;
}

/* Categories that there are, then what is hatched. */
static size_t list_entries(const qk__figure *figure, const qk__map_cells *all,
                           qk__entry *entries)
{
    bool seen[QK_NUM_CATEGORIES] = {false};
    size_t count = 0;
    for (size_t i = 0; !all->kind->field && i < all->count; i++) {
        const qk__head_grid *g = &all->grids[i];
        for (size_t c = 0; g->values && c < g->layers * g->heads; c++)
            if (isfinite(g->values[c]))
                seen[(int)g->values[c]] = true;
    }
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        if (seen[c])
            entries[count++] = (qk__entry){qk_category_name((qk_category)c),
                                           qk__category_color(figure->theme, c), QK__AREA};
    return count;
}

static sheet lay_out(qk__figure *figure, const qk__map_cells *all, bool named)
{
    bool narrow = figure->width < NARROW;
    const double em = qk__em(figure), edge = 18 * em;
    const double gap = (narrow ? 30 : 40) * em, left = (narrow ? 52 : 64) * em;
    double room = figure->width - left - edge;
    sheet s = {.columns = choose_columns(figure, all, room, gap), .left = left};
    s.rows = (all->count + s.columns - 1) / s.columns;
    double width = (room + gap) / (double)s.columns - gap;
    double layer = all->count == 1           ? LAYER_ALONE
                   : narrow                  ? LAYER_NARROW
                   : s.columns * s.rows <= 4 ? LAYER_IN_PAIRS
                                             : LAYER_IN_GRID;
    double height = fmin(560, fmax(narrow ? 90 : 110, layer * em * (double)all->layers));
    if (all->count == 1 &&
        figure->millimetres == 0) { /* cells of a small model are not stretched */
        double cells = fmax(MOST_CELL * (double)all->heads, LEAST_FIGURE - left - edge);
        width = fmin(width, cells);
        figure->width = (int)(left + width + edge);
    }
    s.first =
        (qk__place){left, qk__heading_height(figure) + (named ? 26 : 8) * em, width, height};
    s.step_x = width + gap;
    s.step_y = height + (narrow ? 42 : 50) * em;
    s.legend_y = s.first.top + (double)s.rows * s.step_y + (narrow ? 8 : -2) * em;
    size_t entries = list_entries(figure, all, s.entries);
    s.legend = qk__plan_legend(figure, s.entries, entries, figure->width - 2 * edge);
    double bar = all->kind->field ? 44 * em : s.legend.height + 8 * em;
    figure->height = (int)ceil(s.legend_y + bar + (all->missing ? 22 * em : 0) + 6 * em);
    return s;
}

/* Grey with hatches, as no colour of a ramp is. */
static void hatch(qk__figure *figure, const char *where)
{
    qk__figure_print(figure,
                     "set object rectangle from %s behind fs solid noborder fc rgb '%s'\n"
                     "set object rectangle from %s behind fs transparent pattern 4 noborder fc "
                     "rgb '%s'\n",
                     where, figure->theme->grid, where, figure->theme->muted);
}

/* ---- one panel -------------------------------------------------------------------------- */

/* A step between labels that leaves each `least` pixels. */
static size_t step_of(size_t count, double length, double least)
{
    static const size_t STEPS[] = {1, 2, 4, 5, 8, 10, 16, 20, 32, 40, 64, 100, 128};
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++)
        if (length / (double)count * (double)STEPS[i] >= least)
            return STEPS[i];
    return count;
}

static void set_ranges(qk__figure *figure, const qk__head_grid *g)
{
    qk__figure_print(figure, "set xrange [-0.5:%.1f]\nset yrange [%.1f:-0.5]\n",
                     (double)g->heads - 0.5, (double)g->layers - 0.5);
}

static void set_axes(qk__figure *figure, const qk__head_grid *g, const qk__place *place)
{
    const double em = qk__em(figure);
    set_ranges(figure, g);
    size_t x = step_of(g->heads, place->width, (g->heads > 100 ? 26 : 20) * em);
    size_t y = step_of(g->layers, place->height, 14 * em);
    qk__figure_print(figure, "set xtics 0,%zu,%zu font small\nset ytics 0,%zu,%zu font small\n",
                     x, g->heads, y, g->layers);
}

/* Rows: head, layer, value, colour; with texts: colour and text. */
static size_t add_cells(qk__figure *figure, const qk__map_cells *all, const qk__head_grid *g,
                        const qk__map_scale *s, bool texts)
{
    bool dark;
    for (size_t i = 0; g->values && i < g->layers * g->heads; i++) {
        double value = g->values[i];
        if (!isfinite(value))
            continue;
        unsigned color = qk__map_color(figure, all->kind, s, value, &dark);
        size_t layer = i / g->heads, head = i % g->heads;
        qk__figure_values(figure, (double)head, (double)layer, value);
        qk__figure_words(figure, "0x%06x", color);
        if (texts) {
            char text[QK__NUMBER_TEXT];
            qk__figure_words(figure, " %s %s", dark ? "0xfefefe" : "0x101010",
                             qk__number_text(text, "%.2f", s->power.factor * value));
        }
        qk__figure_end_row(figure);
    }
    return qk__figure_end_block(figure);
}

/* One panel, and where its numbers are. */
typedef struct panel {
    const qk__head_grid *g;
    qk__place place;
    bool texts;
    size_t block;
} panel;

static panel add_panel(qk__figure *figure, const qk__map_cells *all, const sheet *s,
                       const qk__map_scale *colors, size_t i)
{
    const double em = qk__em(figure);
    panel p = {.g = &all->grids[i], .place = s->first};
    size_t row = i / s->columns, column = i % s->columns;
    p.place.left += (double)column * s->step_x;
    p.place.top += (double)row * s->step_y;
    p.texts = all->kind->field &&
              p.place.width >= TEXT_WIDTH * em * (double)(p.g->heads ? p.g->heads : 1) &&
              p.place.height >= TEXT_HEIGHT * em * (double)p.g->layers;
    p.block = add_cells(figure, all, p.g, colors, p.texts);
    return p;
}

static void plot_cells(qk__figure *figure, const panel *p)
{
    qk__figure_print(figure,
                     "plot data index %zu using 1:2:(0.5):(0.5):4 with boxxyerror fs solid "
                     "noborder lc rgb variable",
                     p->block);
    if (p->texts)
        qk__figure_print(
            figure, ", data index %zu using 1:2:6:5 with labels tc rgb variable font small",
            p->block);
    qk__figure_print(figure, "\n");
}

static void draw_panel(qk__figure *figure, const panel *p, bool first, bool named, bool raster)
{
    const double em = qk__em(figure);
    const qk__place *place = &p->place;
    int characters = (int)fmin(MAX_NAME, place->width / qk__text_width(figure, 1));
    qk__put_panel(figure, place);
    set_axes(figure, p->g, place);
    if (first)
        qk__put_side_text(figure, "Layer", place->left - 40 * em, place);
    if (named)
        qk__figure_print(figure,
                         "set label %s at screen %.5f,%.5f center offset 0,mid tc rgb '%s' "
                         "font small\n",
                         qk__brief(figure, p->g->model->label, characters),
                         (place->left + place->width / 2) / figure->width,
                         1 - (place->top - 11 * em) / figure->height, figure->theme->ink);
    if (raster)
        qk__figure_print(figure, "if (raster) { plot NaN } else {\n");
    if (p->g->missing)
        hatch(figure, "graph 0,0 to graph 1,1");
    plot_cells(figure, p);
    qk__figure_print(figure, "%sunset label\nunset object\n", raster ? "}\n" : "");
}

/* So many cells that an SVG has them as an image, which is drawn first; a PDF packs boxes well. */
static void add_raster(qk__figure *figure, const panel *panels, size_t count)
{
    qk__figure_begin_raster(figure, false);
    for (size_t i = 0; i < count; i++) {
        qk__put_panel(figure, &panels[i].place);
        set_ranges(figure, panels[i].g);
        if (panels[i].g->missing)
            hatch(figure, "graph 0,0 to graph 1,1");
        plot_cells(figure, &panels[i]);
        qk__figure_print(figure, "unset object\n");
    }
    qk__figure_end_raster(figure);
}

/* ---- what the colours mean -------------------------------------------------------------- */

/* A bar of all colours below the panels, its name to the left of it. */
static void draw_bar(qk__figure *figure, const qk__map_cells *all, const sheet *s,
                     const qk__map_scale *colors)
{
    const double em = qk__em(figure), middle = figure->width / 2.0;
    double width = fmin(300 * em, 0.5 * figure->width);
    const qk__place place = {middle - width / 2 + 40 * em, s->legend_y + 8 * em, width,
                             12 * em};
    double factor = colors->power.factor, range = colors->high - colors->low;
    bool dark;
    for (int i = 0; i < BAR_STEPS; i++) {
        double value = colors->low + range * (i + 0.5) / BAR_STEPS;
        qk__figure_values(figure, factor * (colors->low + range * i / BAR_STEPS),
                          factor * colors->high);
        qk__figure_words(figure, "0x%06x",
                         qk__map_color(figure, all->kind, colors, value, &dark));
        qk__figure_end_row(figure);
    }
    size_t block = qk__figure_end_block(figure);
    qk__put_panel(figure, &place);
    qk__set_range(figure, 'x', factor * colors->low, factor * colors->high, 5);
    qk__figure_print(figure,
                     "set yrange [0:1]\nunset ytics\n"
                     "set label '%s%s%s' at screen %.5f,%.5f right offset 0,mid tc rgb '%s' "
                     "font small\n"
                     /* a box reaches to the end, under those that follow: no seams */
                     "plot data index %zu using (($1+$2)/2):(0.5):(($2-$1)/2):(0.5):3 with "
                     "boxxyerror fs solid noborder lc rgb variable\nunset label\n",
                     all->kind->scale, colors->power.text,
                     colors->cut_low || colors->cut_high ? ", 98 % of heads" : "",
                     (place.left - 12 * em) / figure->width,
                     1 - (place.top + 6 * em) / figure->height, figure->theme->ink, block);
}

/* A hatched box and what it means, in the last line of the figure. */
static void tell_missing(qk__figure *figure)
{
    const double em = qk__em(figure);
    double y = figure->height - 14 * em, x = figure->width / 2.0 - 70 * em;
    const char *why = "no such head, or not in the capture";
    x -= fmax(0, qk__text_width(figure, strlen(why)) / 2 - 70 * em);
    char where[120];
    snprintf(where, sizeof where, "screen %.5f,%.5f to screen %.5f,%.5f", x / figure->width,
             1 - (y + 6 * em) / figure->height, (x + 14 * em) / figure->width,
             1 - (y - 6 * em) / figure->height);
    hatch(figure, where);
    qk__figure_print(
        figure, "set label '%s' at screen %.5f,%.5f left offset 0,mid tc rgb '%s' font small\n",
        why, (x + 22 * em) / figure->width, 1 - y / figure->height, figure->theme->ink);
}

/* ---- the figure ------------------------------------------------------------------------- */

static void set_heading(qk__figure *figure, const qk__results *results,
                        const qk__map_cells *all)
{
    char heading[160];
    int length = snprintf(heading, sizeof heading, "%s, head by head", all->kind->title);
    if (all->count < all->of)
        snprintf(heading + length, sizeof heading - (size_t)length, " (%zu of %zu %s)",
                 all->count, all->of, results->checkpoints ? "checkpoints" : "models");
    qk__set_heading(figure, results, NULL, heading);
}

static void build(qk__figure *figure, const qk__results *results, const qk__map_kind *kind)
{
    qk__map_cells *all = qk__figure_alloc(figure, 1, sizeof *all);
    if (!all)
        return;
    all->kind = kind;
    qk__choose_models(figure, results, all);
    qk__map_scale colors = qk__find_map_scale(figure, all);
    set_heading(figure, results, all);
    sheet s = lay_out(figure, all, results->num_models > 1);
    s.legend.entries = s.entries;
    const double em = qk__em(figure);
    size_t cells = 0;
    panel panels[QK__MAX_PANELS];
    for (size_t i = 0; i < all->count; i++) {
        panels[i] = add_panel(figure, all, &s, &colors, i);
        cells += all->grids[i].layers * all->grids[i].heads - all->grids[i].missing;
    }
    bool raster = cells > MANY_CELLS;
    if (raster)
        add_raster(figure, panels, all->count);
    qk__begin_panels(figure);
    qk__figure_print(figure, "set border 15 lw 0.5\nset tics scale 0.3\n");
    qk__put_text(figure, "'Query head'",
                 s.left + (s.first.width + (double)(s.columns - 1) * s.step_x) / 2,
                 s.legend_y - 14 * em, false);
    if (!kind->field)
        qk__put_legend(figure, &s.legend, figure->width / 2.0, s.legend_y);
    if (all->missing)
        tell_missing(figure);
    for (size_t i = 0; i < all->count; i++)
        draw_panel(figure, &panels[i], i % s.columns == 0, results->num_models > 1, raster);
    if (kind->field)
        draw_bar(figure, all, &s, &colors);
    qk__end_panels(figure);
    for (size_t i = 0; i < all->count; i++)
        free(all->grids[i].values);
    free(all);
}

static bool has_any(const qk__subject *subject, const qk__map_kind *kind)
{
    for (size_t m = 0; m < subject->results->num_models; m++)
        if (qk__map_has_values(kind, &subject->results->models[m]))
            return true;
    return false;
}

#define MAP(name, kind)                                                                        \
    static bool has_##name(const qk__subject *subject)                                         \
    {                                                                                          \
        return has_any(subject, &(kind));                                                      \
    }                                                                                          \
    static void build_##name(qk__figure *figure, const qk__subject *subject)                   \
    {                                                                                          \
        build(figure, subject->results, &(kind));                                              \
    }
MAP(r_q, R_Q)
MAP(r_k, R_K)
MAP(bias, BIAS)
MAP(plane, PLANE)
MAP(plasticity, PLASTICITY)
MAP(category, CATEGORY)

static const qk__figure_kind KINDS[] = {
    {"map-01-r-q", "Query signal, head by head",
     "Every query head in its layer, coloured by how far its queries follow position along "
     "PC0. "
     "Hatched places have no head in the capture.",
     false, 1000, 600, has_r_q, build_r_q},
    {"map-02-r-k", "Key signal, head by head",
     "Every query head in its layer, coloured by how far the keys that it attends to follow "
     "position along PC0, which is of its queries and these keys. Negative values are blue.",
     false, 1000, 600, has_r_k, build_r_k},
    {"map-03-bias", "Bias strength, head by head",
     "Every head in its layer, coloured by the bias strength: how fast the score of a key "
     "grows "
     "with its position, whatever its content. Blue heads prefer early keys.",
     false, 1000, 600, has_bias, build_bias},
    {"map-04-plane-variance", "Variance in the plane, head by head",
     "Every head in its layer, coloured by the share of its variance in the plane (a, b): axis "
     "a "
     "carries the linear drift, b separates queries from keys.",
     false, 1000, 600, has_plane, build_plane},
    {"map-05-plasticity", "Attention plasticity, head by head",
     "Every head in its layer, coloured by its attention plasticity: how far the key that wins "
     "depends on the query.",
     false, 1000, 600, has_plasticity, build_plasticity},
    {"map-06-category", "Categories, head by head",
     "Every head in its layer, coloured by its category in the taxonomy of r_q and |r_k|.",
     false, 1000, 600, has_category, build_category},
    {"map-07-layer-curves", "The heads of each layer",
     "Mean over the heads of each layer, with a band from the first to the third quartile.",
     false, 1000, 600, qk__has_layer_curves, qk__build_layer_curves},
};

const qk__figure_family qk__head_maps = {"Head maps", KINDS, sizeof KINDS / sizeof *KINDS};
