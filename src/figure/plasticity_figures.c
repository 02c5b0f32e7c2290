/* SPDX-License-Identifier: Apache-2.0 */
/* Attention plasticity of a model: over distances, along the context, and which dimensions of
 * the queries know their position. Here is also the list of all plasticity figures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "figure/panels.h"
#include "figure/catalog.h"

enum { LEFT = 96 }; /* of y axes, for numbers of six digits and the name */

/* A heading that names the study and the model, above a plot of that height; returns where the
 * plot's x axis is. */
static double start_plot(qk__figure *figure, const qk__subject *subject, const char *title,
                         double right, double height, double below)
{
    const double em = qk__em(figure);
    qk__set_heading(figure, subject->results, subject->model, title);
    qk__place place = {LEFT * em, qk__heading_height(figure) + 4 * em,
                       figure->width - (LEFT + right) * em, height * em};
    figure->height = (int)ceil(place.top + place.height + below * em);
    qk__begin_panels(figure);
    qk__put_panel(figure, &place);
    return place.top + place.height;
}

/* ---- 01: over distances ----------------------------------------------------------------- */

enum { MAX_SIDE = 64, MAX_X_TICS = 8, MAX_Y_TICS = 15 };

static bool has_distances(const qk__subject *subject)
{
    const qk__distance_map *map = &subject->model->distances;
    for (size_t i = 0; i < map->rows * map->columns; i++)
        if (isfinite(map->ap[i]))
            return true;
    return false;
}

/* Mean over merge x merge bins, by pairs, whose number goes to *pairs_of_cell. */
static double merged_ap(const qk__distance_map *map, size_t row, size_t column, size_t merge,
                        double *pairs_of_cell)
{
    double sum = 0, pairs = 0;
    for (size_t r = row * merge; r < (row + 1) * merge && r < map->rows; r++)
        for (size_t c = column * merge; c < (column + 1) * merge && c < map->columns; c++) {
            size_t i = r * map->columns + c;
            if (map->pairs[i] > 0) {
                sum += map->pairs[i] * map->ap[i];
                pairs += map->pairs[i];
            }
        }
    *pairs_of_cell = pairs;
    return pairs > 0 ? sum / pairs : NAN;
}

/* A merged cell. */
typedef struct cell {
    double column, row, ap, pairs;
} cell;

/* How sure a cell is, from 0 (one pair) to 1 (enough pairs). At the rim there are a handful of
 * pairs, and millions elsewhere. */
enum { ENOUGH = 1000 };
#define VEIL 0.85 /* over a cell of one pair */

static double sureness(double pairs, double enough)
{
    return enough > 1 ? fmin(1, log(fmax(pairs, 1)) / log(enough)) : 1;
}

/* ENOUGH; as many as the median cell has where that is fewer, or a thousandth of them. */
static double enough_pairs(qk__figure *figure, const cell *cells, size_t count)
{
    double *pairs = qk__figure_alloc(figure, count + 1, sizeof *pairs);
    if (!pairs)
        return ENOUGH;
    for (size_t i = 0; i < count; i++)
        pairs[i] = cells[i].pairs;
    double median = qk__median(pairs, count);
    free(pairs);
    return fmin(median, fmax(ENOUGH, median / 1000));
}

static size_t gather_cells(const qk__distance_map *map, size_t merge, size_t rows,
                           size_t columns, cell *cells)
{
    size_t count = 0;
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < columns; column++) {
            cell one = {(double)column, (double)row, 0, 0};
            one.ap = merged_ap(map, row, column, merge, &one.pairs);
            if (isfinite(one.ap))
                cells[count++] = one;
        }
    return count;
}

/* The colours reach from the 2nd to the 98th percentile of the cells that are sure enough:
 * neither a cell of eight pairs nor a single odd one sets the scale. */
static void find_colors(qk__figure *figure, const cell *cells, size_t count, double enough,
                        double range[2])
{
    double *values = qk__figure_alloc(figure, count + 1, sizeof *values);
    size_t sure = 0;
    range[0] = range[1] = 0;
    for (size_t i = 0; values && i < count; i++)
        if (cells[i].pairs >= enough / 10)
            values[sure++] = cells[i].ap;
    if (sure > 0) {
        qk__sort(values, sure);
        size_t cut = (sure - 1) / 50;
        range[0] = values[cut];
        range[1] = values[sure - 1 - cut];
    }
    free(values);
    double size = fmax(1, fmax(fabs(range[0]), fabs(range[1])));
    if (range[1] - range[0] < 1e-6 * size) { /* one value: any range that holds it */
        range[0] -= 0.05 * size;
        range[1] += 0.05 * size;
    }
}

/* Two blocks: distance bin, lag bin, plasticity, pairs; and of the unsure cells their bins and
 * a veil, a colour like that of no pairs. Sets the range of the colours. */
static void add_distances(qk__figure *figure, const qk__distance_map *map, size_t merge,
                          size_t rows, size_t columns, double range[2])
{
    cell *cells = qk__figure_alloc(figure, rows * columns, sizeof *cells);
    if (!cells)
        return;
    size_t count = gather_cells(map, merge, rows, columns, cells);
    double enough = enough_pairs(figure, cells, count);
    find_colors(figure, cells, count, enough, range);
    for (size_t i = 0; i < count; i++)
        qk__figure_row(figure, cells[i].column, cells[i].row, cells[i].ap, cells[i].pairs);
    qk__figure_end_block(figure);
    for (size_t i = 0; i < count; i++) {
        double veil = VEIL * (1 - sureness(cells[i].pairs, enough));
        if (!(veil > 0))
            continue;
        qk__figure_values(figure, cells[i].column, cells[i].row);
        qk__figure_words(figure, "0x%02x%s", (unsigned)lround(255 * (1 - veil)),
                         figure->theme->box + 1);
        qk__figure_end_row(figure);
    }
    qk__figure_end_block(figure);
    free(cells);
}

/* From 0, a tic every so many bins, that number a power of two. */
static void set_distance_axis(qk__figure *figure, char axis, size_t bins, double width,
                              size_t max_tics)
{
    size_t every = 1;
    while (bins / every > max_tics)
        every *= 2;
    qk__figure_print(figure, "set %crange [0:%.9g]\nset %ctics 0,%.9g\n", axis,
                     (double)bins * width, axis, (double)every * width);
}

static void build_distances(qk__figure *figure, const qk__subject *subject)
{
    const qk__distance_map *map = &subject->model->distances;
    bool tokens = map->bucket_width > 0 && isfinite(map->bucket_width);
    size_t side = map->rows > map->columns ? map->rows : map->columns;
    size_t merge = (side + MAX_SIDE - 1) / MAX_SIDE;
    size_t rows = (map->rows + merge - 1) / merge, columns = (map->columns + merge - 1) / merge;
    double width = (tokens ? map->bucket_width : 1) * (double)merge, range[2] = {0, 1};
    const char *unit = tokens ? "tokens" : "buckets";
    add_distances(figure, map, merge, rows, columns, range);
    start_plot(figure, subject, "Attention plasticity over distances", 132, 480, 54);
    qk__figure_palette(figure, &qk__magma, false);
    set_distance_axis(figure, 'x', columns, width, qk__fit_columns(figure, MAX_X_TICS, 130));
    set_distance_axis(figure, 'y', rows, width, MAX_Y_TICS);
    qk__figure_print(
        figure,
        "set xlabel 'Inter-key distance (%s)'\n"
        "set ylabel 'Key-to-query distance (%s)'\n"
        "set cblabel 'Attention plasticity' offset 0.8,0\nset cbrange [%.9g:%.9g]\n"
        "set cbtics scale 0.4\nset format xy '%%.0f'\nunset key\n"
        "w = %.9g\n"
        /* where there are no pairs: no colour of the ramp */
        "set object rectangle from graph 0,0 to graph 1,1 behind "
        "fc rgb '%s' fs solid noborder\n"
        "plot data index 0 using (w*($1+0.5)):(w*($2+0.5)):(w/2):(w/2):3 "
        "with boxxyerror fs solid border lw 0.3 lc palette, "
        "data index 1 using (w*($1+0.5)):(w*($2+0.5)):(w/2):(w/2):3 "
        "with boxxyerror fs solid noborder lc rgb variable\n",
        unit, unit, range[0], range[1], width, figure->theme->box);
    qk__end_panels(figure);
}

/* ---- 02: along the context -------------------------------------------------------------- */

/* Heads drawn at most, and fewer of them (but not below MIN_CURVES) where they have many
 * buckets: a picture of more points weighs megabytes and shows nothing else. */
enum { MAX_CURVES = 400, MIN_CURVES = 100, MAX_CURVE_POINTS = 24000, FEW_BUCKETS = 20 };

static bool has_plasticity(const qk__result_head *head)
{
    for (size_t i = 0; i < head->num_profile; i++)
        if (isfinite(head->profile_ap[i]) && isfinite(head->profile_position[i]))
            return true;
    return false;
}

static bool has_profiles(const qk__subject *subject)
{
    return qk__count_heads_with(subject->model, has_plasticity) > 0;
}

/* Heads between blank lines, evenly chosen where there are too many; returns how many. */
static size_t add_curves(qk__figure *figure, const qk__result_model *model, size_t *all)
{
    size_t count = qk__count_heads_with(model, has_plasticity);
    size_t longest = 1, drawn = 0, seen = 0;
    for (size_t h = 0; h < model->num_heads; h++)
        longest = model->heads[h].num_profile > longest ? model->heads[h].num_profile : longest;
    size_t most = MAX_CURVE_POINTS / longest;
    most = most < MIN_CURVES ? MIN_CURVES : most > MAX_CURVES ? MAX_CURVES : most;
    size_t wanted = count < most ? count : most;
    for (size_t h = 0; h < model->num_heads; h++) {
        const qk__result_head *head = &model->heads[h];
        if (!has_plasticity(head) || wanted == 0 || seen++ < drawn * count / wanted)
            continue;
        for (size_t i = 0; i < head->num_profile; i++) {
            qk__figure_row(figure, head->profile_position[i], head->profile_ap[i]);
        }
        if (++drawn < wanted)
            qk__figure_end_row(figure);
        else
            break;
    }
    qk__figure_end_block(figure);
    *all = count;
    return drawn;
}

/* One head in one bucket; and the sums over heads. */
typedef struct bucket {
    int64_t index;
    double position, ap;
    size_t heads;
} bucket;

static int compare_buckets(const void *a, const void *b)
{
    const bucket *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

static int compare_positions(const void *a, const void *b)
{
    const bucket *x = a, *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

/* Gathers what heads have in a bucket; the first returned number of buckets are the means. */
static size_t mean_of_buckets(const qk__result_model *model, bucket *buckets)
{
    size_t count = 0, means = 0;
    for (size_t h = 0; h < model->num_heads; h++) {
        const qk__result_head *head = &model->heads[h];
        for (size_t i = 0; i < head->num_profile; i++)
            if (isfinite(head->profile_ap[i]) && isfinite(head->profile_position[i]))
                buckets[count++] = (bucket){head->profile_bucket[i], head->profile_position[i],
                                            head->profile_ap[i], 1};
    }
    qsort(buckets, count, sizeof *buckets, compare_buckets);
    for (size_t i = 0; i < count; i++) {
        if (means > 0 && buckets[means - 1].index == buckets[i].index) {
            buckets[means - 1].position += buckets[i].position;
            buckets[means - 1].ap += buckets[i].ap;
            buckets[means - 1].heads++;
        } else {
            buckets[means++] = buckets[i];
        }
    }
    for (size_t i = 0; i < means; i++) {
        buckets[i].position /= (double)buckets[i].heads;
        buckets[i].ap /= (double)buckets[i].heads;
    }
    qsort(buckets, means, sizeof *buckets, compare_positions);
    return means;
}

/* position, plasticity, heads; returns how many positions. */
static size_t add_mean_curve(qk__figure *figure, const qk__result_model *model)
{
    size_t rows = 0;
    for (size_t h = 0; h < model->num_heads; h++)
        rows += model->heads[h].num_profile;
    bucket *buckets = qk__figure_alloc(figure, rows, sizeof *buckets);
    if (!buckets)
        return 0;
    size_t means = mean_of_buckets(model, buckets);
    for (size_t i = 0; i < means; i++) {
        qk__figure_row(figure, buckets[i].position, buckets[i].ap, (double)buckets[i].heads);
    }
    qk__figure_end_block(figure);
    free(buckets);
    return means;
}

/* From 0, unless there are positions on its other side. */
static const char *position_range(const qk__result_model *model)
{
    double low = 0, high = 0;
    for (size_t h = 0; h < model->num_heads; h++) {
        const qk__result_head *head = &model->heads[h];
        for (size_t i = 0; i < head->num_profile; i++) {
            low = fmin(low, head->profile_position[i]);
            high = fmax(high, head->profile_position[i]);
        }
    }
    return low >= 0 ? "0:*" : high > 0 ? "*:*" : "*:0";
}

static void build_profiles(qk__figure *figure, const qk__subject *subject)
{
    const qk__theme *theme = figure->theme;
    const double em = qk__em(figure);
    size_t all, drawn = add_curves(figure, subject->model, &all);
    size_t means = add_mean_curve(figure, subject->model);
    double opacity = fmin(0.7, fmax(0.2, 3 / sqrt((double)drawn)));
    char heads[64];
    if (drawn < all)
        snprintf(heads, sizeof heads, "%zu of %zu heads", drawn, all);
    else
        snprintf(heads, sizeof heads, "single heads (%zu)", all);
    char faint[8];
    qk__mixed_color(theme->muted, theme->background, opacity, faint);
    const qk__entry entries[] = {{heads, faint, QK__LINE},
                                 {"mean over all heads", theme->k, QK__LINE}};
    qk__legend legend = qk__plan_legend(figure, entries, 2, figure->width - (LEFT + 24) * em);
    double axis = start_plot(figure, subject, "Attention plasticity by query position", 24, 350,
                             60 + legend.height / em + 6);
    qk__put_legend(figure, &legend, figure->width / 2.0, axis + 58 * em);
    if (qk__fit_columns(figure, 2, 220) == 1)
        qk__figure_print(figure, "set xtics rotate by 40 right\n");
    qk__figure_print(figure,
                     "set xlabel 'Position of the query (tokens)'\n"
                     "set ylabel 'Attention plasticity'\nset xrange [%s] noextend\n"
                     "set yrange [0:1]\nset ytics 0.2\nset grid x y back\n"
                     "set format x '%%.0f'\nunset key\n"
                     "plot data index 0 using 1:2 with lines lw 0.7 lc rgb '#%02x%s', "
                     "data index 1 using 1:2 with %s lw 2.5 lc rgb '%s'\n",
                     position_range(subject->model), (unsigned)lround(255 * (1 - opacity)),
                     theme->muted + 1,
                     means <= FEW_BUCKETS ? "linespoints pt 7 ps 0.5" : "lines", theme->k);
    qk__end_panels(figure);
}

/* ---- 03: which dimensions --------------------------------------------------------------- */

static bool has_weights(const qk__subject *subject)
{
    for (size_t i = 0; i < subject->model->num_components; i++)
        if (isfinite(subject->model->component_weights[i]))
            return true;
    return false;
}

static void build_weights(qk__figure *figure, const qk__subject *subject)
{
    const qk__result_model *model = subject->model;
    double range[2] = {0, 0};
    for (size_t i = 0; i < model->num_components; i++) {
        range[0] = fmin(range[0], model->component_weights[i]);
        range[1] = fmax(range[1], 1.05 * model->component_weights[i]);
        qk__figure_row(figure, (double)i, model->component_weights[i]);
    }
    qk__figure_end_block(figure);
    start_plot(figure, subject, "Positional information in the query dimensions", 24, 220, 54);
    qk__set_range(figure, 'y', range[0], range[1], 6);
    qk__figure_print(figure,
                     "set xlabel 'Query dimension'\n"
                     "set label 'Share of positional information' at screen %.5f, graph 0.5 "
                     "center rotate tc rgb '%s'\nset xrange [-1:%zu]\nset grid y back\n"
                     "set boxwidth 0.85\nset style fill solid 1 noborder\nunset key\n"
                     "plot data using 1:2 with boxes lc rgb '%s'\n",
                     20 * qk__em(figure) / figure->width, figure->theme->ink,
                     model->num_components, figure->theme->q);
    qk__end_panels(figure);
}

/* ---- the list --------------------------------------------------------------------------- */

static const qk__figure_kind KINDS[] = {
    {"plasticity-01-distance-heatmap", "Attention plasticity over distances",
     "Mean plasticity of the pairs of keys at a distance from each other (across) and from the "
     "query (up), over all heads, by pairs. Light: the query decides which key wins; dark: "
     "the same key wins, whatever the query. Grey: no pairs. Cells of few pairs fade (below "
     "1,000, or a thousandth of the median cell), and the colours reach from the 2nd to the "
     "98th percentile of the others.",
     true, 800, 620, has_distances, build_distances},
    {"plasticity-02-profiles", "Attention plasticity along the context",
     "Plasticity by the position of the query: a grey line for each head, in red the mean over "
     "the heads that have a value there. A line that falls: the longer the context, the less "
     "the query decides which key wins.",
     true, 800, 480, has_profiles, build_profiles},
    {"plasticity-03-component-weights", "Positional information by query dimension",
     "How much of the queries' linear information about position lies in each dimension: mean "
     "over heads, each head's shares add up to 1. Pairs of rotary dimensions show as two "
     "humps.",
     true, 800, 340, has_weights, build_weights},
    {"plasticity-04-trajectory", "Attention plasticity in training",
     "Means over heads of plasticity in the first and the last fifth of the context, the drop "
     "between them, and the bias strength of the rotation model, over checkpoints.",
     false, 800, 560, qk__has_trajectory, qk__build_trajectory},
    {"plasticity-05-score", "Models against an external score",
     "A point per model, coloured by family, with the least-squares line, Pearson's r and the "
     "number of models. The axis says whether the metric comes from the score file or is the "
     "mean over the heads of this study. With so few models r is a description, no proof.",
     false, 800, 600, qk__has_scores, qk__build_scores},
    {"plasticity-06-by-model", "Attention plasticity by model",
     "Means over heads of plasticity in the first and the last fifth of the context; the line "
     "between them is the drop, whose mean is printed on the right.",
     false, 800, 400, qk__has_ap_by_model, qk__build_ap_by_model},
};

const qk__figure_family qk__plasticity_figures = {"Attention plasticity", KINDS,
                                                  sizeof KINDS / sizeof *KINDS};
