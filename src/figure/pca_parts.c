/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the plane of (r_q, r_k) on PC0, and maps of both over depth. */
#include "figure/pca_parts.h"

#include <math.h>
#include <string.h>

#include "figure/panels.h"

bool qk__has_signal(const qk__result_head *head)
{
    return isfinite(head->v.r_q) && isfinite(head->v.r_k);
}

size_t qk__count_signals(const qk__results *results)
{
    size_t count = 0;
    for (size_t m = 0; m < results->num_models; m++)
        count += qk__count_heads_with(&results->models[m], qk__has_signal);
    return count;
}

void qk__start_one(qk__figure *figure, const qk__results *results, const char *title)
{
    qk__start_panels(figure, results, title);
    qk__figure_print(figure, "set tmargin at screen %.5f\n",
                     1 - qk__heading_height(figure) / figure->height);
}

/* ---- the plane -------------------------------------------------------------------------- */

/* Signs are chosen so that r_q is above -0.05; tables from elsewhere may differ. */
static double smallest_r_q(const qk__results *results)
{
    double low = 0;
    for (size_t m = 0; m < results->num_models; m++)
        for (size_t h = 0; h < results->models[m].num_heads; h++)
            if (qk__has_signal(&results->models[m].heads[h]))
                low = fmin(low, results->models[m].heads[h].v.r_q);
    return low;
}

void qk__set_signal_plane(qk__figure *figure, const qk__results *results)
{
    static const double GUIDES[] = {0.3, 0.7};
    double low = smallest_r_q(results) < -0.1 ? -1.05 : -0.1;
    qk__figure_print(figure,
                     "set xrange [%g:1.05]\nset yrange [-1.05:1.05]\n"
                     "set xtics -1, %g, 1\nset ytics -1, 0.5, 1\nset format '%%g'\n"
                     "set xzeroaxis lt 1 lw 0.8 lc rgb '%s'\n"
                     "set yzeroaxis lt 1 lw 0.8 lc rgb '%s'\n",
                     low, low < -0.1 || figure->millimetres > 0 ? 0.5 : 0.2,
                     figure->theme->muted, figure->theme->muted);
    for (int i = 0; i < 2; i++) {
        qk__figure_vertical(figure, GUIDES[i]);
        qk__figure_horizontal(figure, GUIDES[i]);
        qk__figure_horizontal(figure, -GUIDES[i]);
        if (low < -GUIDES[i])
            qk__figure_vertical(figure, -GUIDES[i]);
    }
}

double qk__point_size(size_t heads, double height)
{
    return fmax(0.45, fmin(1, 0.025 * height / sqrt((double)heads)));
}

/* ---- depth ------------------------------------------------------------------------------ */

/* Pixels of a row, where there are few and many, and of all rows; of the axis and its label
 * below, and of the colour scale with its numbers and label. */
enum {
    ROW = 32,
    LOW_ROW = 17,
    FEW_ROWS = 16,
    LEAST_CELLS = 130,
    MOST_CELLS = 6000,
    BELOW = 52,
    SCALE = 74
};

static double cells_height(size_t rows)
{
    double cells = (double)(rows > FEW_ROWS ? rows * LOW_ROW : rows * ROW);
    if (rows > FEW_ROWS)
        cells = fmax(cells, FEW_ROWS * ROW);
    return fmin(MOST_CELLS, fmax(LEAST_CELLS, cells));
}

/* Gaps between the phases, in the colour of the page. */
static void part_phases(qk__figure *figure, const qk__results *results)
{
    for (size_t m = 1; results->checkpoints && m < results->num_models; m++)
        if (results->models[m].phase_index != results->models[m - 1].phase_index)
            qk__figure_print(figure,
                             "set arrow from graph 0, first %.1f to graph 1, first %.1f nohead "
                             "front lt 1 lw 2.5 lc rgb '%s'\n",
                             (double)m - 0.5, (double)m - 0.5, figure->theme->background);
}

/* The cells' place; sets the figure's height. gnuplot's colour scale and the gap before it are
 * 0.075 of the plot's width. */
static qk__place place_cells(qk__figure *figure, const qk__results *results)
{
    const double em = qk__em(figure);
    double left = 34 * em + qk__text_width(figure, qk__longest_label(results)) / 0.75;
    qk__place place = {left, qk__heading_height(figure),
                       (figure->width - left - SCALE * em) / 1.075,
                       cells_height(results->num_models) * em};
    figure->height = (int)ceil(place.top + place.height + BELOW * em);
    return place;
}

void qk__build_depth_map(qk__figure *figure, const qk__results *results, const char *field,
                         const char *title)
{
    bool queries = strcmp(field, "r_q") == 0;
    qk__depth_map map;
    if (qk__start_depth_map(figure, results, &map)) {
        qk__set_heading(figure, results, NULL, title);
        qk__place place = place_cells(figure, results);
        qk__fill_depth_map(&map, field, false);
        map.heatmap.scale_label = queries ? "'{/:Italic r}_q'" : "'{/:Italic r}_k'";
        map.heatmap.map = queries ? &qk__blues : &qk__reds;
        map.heatmap.negative = queries ? &qk__ylorrd : &qk__blues;
        map.heatmap.low = 0;
        map.heatmap.high = 1;
        for (size_t i = 0; i < map.heatmap.rows * map.heatmap.columns; i++)
            map.heatmap.low = fmin(map.heatmap.low, map.values[i]);
        map.heatmap.cell_format = "%.2f";
        qk__begin_panels(figure);
        qk__put_panel(figure, &place);
        qk__put_text(figure, qk__depth_label(&map), place.left + place.width / 2,
                     place.top + place.height + 40 * qk__em(figure), false);
        qk__put_side_text(figure, qk__model_word(results), 14 * qk__em(figure), &place);
        part_phases(figure, results);
        qk__figure_heatmap(figure, &map.heatmap);
        qk__end_panels(figure);
    }
    qk__free_depth_map(&map);
}
