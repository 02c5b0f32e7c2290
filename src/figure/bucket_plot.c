/* SPDX-License-Identifier: Apache-2.0 */
/* Draws plasticity by query bucket as the original tool does: lines, their colours, the mean.
 * */
#include "figure/bucket_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "figure/panels.h"

enum { WIDTH = 1000, LEFT = 96, RIGHT = 24, PLOT_HEIGHT = 420 };

static double place_of(const qk__bucket_plot *p, int64_t bucket)
{
    double b = (double)bucket + 0.5;
    double place = (p->log_buckets ? exp2(b) : b) * p->bucket_min_size;
    return isfinite(place) ? place : NAN;
}

static bool same_head(const qk__bucket_point *a, const qk__bucket_point *b)
{
    return a->layer == b->layer && a->q_head == b->q_head && a->k_head == b->k_head;
}

/* ---- colours ---------------------------------------------------------------------------- */

/* Of the least-squares line; 0 where there are not two places. */
static double slope_of(const qk__bucket_plot *p, size_t first, size_t end)
{
    double n = (double)(end - first), x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = first; i < end; i++) {
        x += place_of(p, p->points[i].bucket) / n;
        y += p->points[i].ap / n;
    }
    for (size_t i = first; i < end; i++) {
        double dx = place_of(p, p->points[i].bucket) - x;
        xx += dx * dx;
        xy += dx * (p->points[i].ap - y);
    }
    return xx > 0 ? xy / xx : 0;
}

static unsigned hex_of(const char *color)
{
    return (unsigned)strtoul(color + 1, NULL, 16);
}

static unsigned color_of(const qk__figure *figure, const qk__bucket_plot *p, size_t first,
                         size_t end, int64_t last_layer)
{
    if (p->trend_threshold > 0) {
        double slope = slope_of(p, first, end);
        return slope > p->trend_threshold    ? 0x2ca02c
               : slope < -p->trend_threshold ? 0xd62728
                                             : hex_of(figure->theme->muted);
    }
    if (p->layers) {
        unsigned char rgb[3];
        qk__colormap_at(p->layers, (double)p->points[first].layer / (double)last_layer, rgb);
        return (unsigned)rgb[0] << 16 | (unsigned)rgb[1] << 8 | rgb[2];
    }
    return hex_of(figure->theme->q);
}

/* ---- numbers ---------------------------------------------------------------------------- */

/* place, plasticity, colour; heads between blank lines. */
static size_t add_heads(qk__figure *figure, const qk__bucket_plot *p)
{
    size_t heads = 0, end;
    int64_t last_layer = 1;
    unsigned clear = (unsigned)lround(255 * (1 - p->alpha));
    for (size_t i = 0; i < p->count; i++)
        last_layer = p->points[i].layer > last_layer ? p->points[i].layer : last_layer;
    for (size_t first = 0; first < p->count; first = end) {
        for (end = first + 1; end < p->count && same_head(&p->points[first], &p->points[end]);)
            end++;
        unsigned color = color_of(figure, p, first, end, last_layer);
        for (size_t i = first; i < end; i++) {
            qk__figure_values(figure, place_of(p, p->points[i].bucket), p->points[i].ap);
            qk__figure_words(figure, "%u", clear << 24 | color);
            qk__figure_end_row(figure);
        }
        if (end < p->count)
            qk__figure_end_row(figure);
        heads++;
    }
    qk__figure_end_block(figure);
    return heads;
}

static int by_bucket(const void *a, const void *b)
{
    const qk__bucket_point *x = a, *y = b;
    return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

/* place, mean over the heads that have it, heads */
static void add_mean(qk__figure *figure, const qk__bucket_plot *p)
{
    qk__bucket_point *sorted = qk__figure_alloc(figure, p->count + 1, sizeof *sorted);
    if (!sorted)
        return;
    memcpy(sorted, p->points, p->count * sizeof *sorted);
    qsort(sorted, p->count, sizeof *sorted, by_bucket);
    for (size_t first = 0, end; first < p->count; first = end) {
        double sum = 0;
        for (end = first; end < p->count && sorted[end].bucket == sorted[first].bucket; end++)
            sum += sorted[end].ap;
        qk__figure_row(figure, place_of(p, sorted[first].bucket), sum / (double)(end - first),
                       (double)(end - first));
    }
    qk__figure_end_block(figure);
    free(sorted);
}

/* ---- the figure ------------------------------------------------------------------------- */

/* What colours mean; `ends` has room for those of the first and the last layer. Returns how
 * many entries. */
static size_t fill_legend(const qk__figure *figure, const qk__bucket_plot *p,
                          qk__entry entries[4], char ends[2][8])
{
    size_t count = 0;
    for (int i = 0; i < 2 && p->layers; i++) {
        unsigned char rgb[3];
        qk__colormap_at(p->layers, i, rgb);
        snprintf(ends[i], sizeof ends[i], "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
    }
    entries[count++] = (qk__entry){"mean over all heads", figure->theme->k, QK__LINE};
    if (p->trend_threshold > 0) {
        entries[count++] = (qk__entry){"rising", "#2ca02c", QK__LINE};
        entries[count++] = (qk__entry){"falling", "#d62728", QK__LINE};
        entries[count++] = (qk__entry){"flat", figure->theme->muted, QK__LINE};
    } else if (p->layers) {
        entries[count++] = (qk__entry){"first layer", ends[0], QK__LINE};
        entries[count++] = (qk__entry){"last layer", ends[1], QK__LINE};
    } else {
        entries[count++] = (qk__entry){"single heads", figure->theme->q, QK__LINE};
    }
    return count;
}

size_t qk__figure_buckets(qk__figure *figure, const qk__bucket_plot *p)
{
    figure->width = WIDTH;
    const double em = qk__em(figure);
    size_t heads = add_heads(figure, p);
    add_mean(figure, p);
    qk__entry entries[4];
    char ends[2][8];
    size_t count = fill_legend(figure, p, entries, ends);
    const qk__results titled = {.title = p->model_name ? p->model_name : ""};
    qk__set_heading(figure, &titled, NULL, "Attention plasticity by query bucket");
    qk__place place = {LEFT * em, qk__heading_height(figure) + 4 * em,
                       figure->width - (LEFT + RIGHT) * em, PLOT_HEIGHT * em};
    qk__legend legend = qk__plan_legend(figure, entries, count, place.width);
    double axis = place.top + place.height;
    figure->height = (int)ceil(axis + legend.height + 66 * em);
    qk__begin_panels(figure);
    qk__put_panel(figure, &place);
    qk__put_legend(figure, &legend, figure->width / 2.0, axis + 58 * em);
    qk__figure_print(figure,
                     "set xlabel '%s'\nset ylabel 'Attention plasticity'\nset grid x y back\n"
                     "set format x '%%.0f'\nunset key\n"
                     "plot data index 0 using 1:2:3 with lines lw %.17g lc rgb variable, "
                     "data index 1 using 1:2 with lines lw 2.5 lc rgb '%s'\n",
                     p->log_buckets ? "Bucket" : "Position", p->line_width, figure->theme->k);
    qk__end_panels(figure);
    return heads;
}
