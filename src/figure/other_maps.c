/* SPDX-License-Identifier: Apache-2.0 */
/* Maps not of heads: plasticity and attention over distances, rotary pairs, categories before and after RoPE, changes
 * between two models. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "figure/catalog.h"
#include "figure/maps.h"

/* Columns of rows; values follow. */
enum { ROW = 1, COLUMN, VALUE, MOST_CELLS = 1 << 22 };

/* Draws the heading, and the map or maps. */
static void draw_with_heading(qk__figure *figure, const qk__subject *subject, qk__maps *all)
{
    qk__set_heading(figure, subject->results, subject->model, subject->kind->heading);
    if (figure->status == QK_OK)
        qk__draw_maps(figure, all);
}

static double largest_in(const qk__found *rows, size_t column)
{
    double most = 0;
    for (size_t i = 0; i < rows->count; i++) {
        double value = fabs(qk__number_in(rows, i, column));
        most = isfinite(value) ? fmax(most, value) : most;
    }
    return most;
}

/* Whose numbers set the scale: checkpoints share a scale, so that training is seen; other models have their own. */
static const qk__found *scaled_rows(const qk__subject *subject)
{
    return subject->results->checkpoints ? &subject->all : &subject->rows;
}

/* Puts the numbers of a column into their cells, with at least `rows` and `least` columns. */
static bool fill_cells(qk__figure *figure, const qk__found *found, size_t value, size_t rows,
                       size_t least, qk__map *map)
{
    const size_t used = found->count > 0 ? (size_t)largest_in(found, COLUMN) + 1 : 0;
    const size_t columns = used > least ? used : least;
    const double last = largest_in(found, ROW);
    if ((last + 1) * (double)columns > MOST_CELLS) { /* a table may name any layer */
        qk_error err;
        qk_status status =
            qk__fail(&err, QK_ERR_UNSUPPORTED,
                     "the tables name layers so far out that it would have more than %d cells",
                     MOST_CELLS);
        qk__figure_fail(figure, status, &err);
        return false;
    }
    if (!qk__start_map(figure, map, last >= (double)rows ? (size_t)last + 1 : rows, columns))
        return false;
    for (size_t i = 0; i < found->count; i++)
        map->values[(size_t)qk__number_in(found, i, ROW) * columns +
                    (size_t)qk__number_in(found, i, COLUMN)] = qk__number_in(found, i, value);
    return true;
}

/* ---- plasticity over distances ---------------------------------------------------------- */

/* Pairs that make a cell reliable; columns of rows. */
enum { ENOUGH = 100, PAIRS = VALUE + 1, MERGED, WIDTH };

bool qk__has_distances(const qk__subject *subject)
{
    return qk__any_number(&subject->rows, VALUE);
}

/* Sorts the finite numbers of a column in rows whose number in another column is at least so large; returns how many. */
static size_t sort_column(qk__figure *figure, const qk__found *rows, size_t column,
                          size_t other, double least, double **values)
{
    size_t count = 0;
    *values = qk__figure_alloc(figure, rows->count + 1, sizeof **values);
    for (size_t i = 0; *values && i < rows->count; i++)
        if (isfinite(qk__number_in(rows, i, VALUE)) && qk__number_in(rows, i, other) >= least)
            (*values)[count++] = qk__number_in(rows, i, column);
    qk__sort(*values, count);
    return count;
}

/* ENOUGH; or less: a tenth of the median cell's pairs, or a ten-thousandth of them. */
static double enough_pairs(qk__figure *figure, const qk__found *rows)
{
    double *pairs;
    size_t count = sort_column(figure, rows, PAIRS, PAIRS, -INFINITY, &pairs);
    double median = count > 0 ? qk__median(pairs, count) : NAN;
    return ceil(fmin(median / 10, fmax(ENOUGH, median / 10000)));
}

/* The colours reach from the 2nd to the 98th percentile of the reliable cells, in the checkpoint where that is lowest
 * or highest: neither a cell of eight pairs nor a single odd cell sets the scale. */
static qk__range range_of_colors(qk__figure *figure, const qk__found *rows)
{
    qk__range range = QK__NO_RANGE;
    for (size_t i = 0; i < rows->count;) {
        const qk__found model = qk__same_in(rows, i, 0);
        double *values;
        size_t sure =
            sort_column(figure, &model, VALUE, PAIRS, enough_pairs(figure, &model), &values);
        for (int end = 0; end < 2 && sure > 0; end++)
            qk__range_add(&range,
                          values[end == 0 ? (sure - 1) / 50 : sure - 1 - (sure - 1) / 50]);
        i += model.count;
    }
    return range;
}

void qk__build_distances(qk__figure *figure, const qk__subject *subject)
{
    const qk__found *rows = &subject->rows;
    const double width = qk__number_in(rows, 0, WIDTH);
    const bool tokens = width > 0 && isfinite(width);
    const qk__range range = range_of_colors(figure, scaled_rows(subject));
    char few[40];
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    if (!all)
        return;
    qk__map *map = &all->maps[all->count++];
    qk__map pairs;
    *map = (qk__map){.unit = (tokens ? width : 1) * qk__number_in(rows, 0, MERGED),
                     .bar = "Attention plasticity",
                     .enough = enough_pairs(figure, rows),
                     .scale = qk__scale_between(QK__HUE_PLASTICITY, range.low, range.high)};
    if (!fill_cells(figure, rows, VALUE, 0, 0, map) ||
        !fill_cells(figure, rows, PAIRS, 0, 0, &pairs))
        return;
    map->pairs = pairs.values;
    for (size_t i = 0; i < map->rows * map->columns; i++)
        if (map->pairs[i] > 0 && map->pairs[i] < map->enough)
            all->hatched = few;
    all->x_label = tokens ? "Inter-key distance (tokens)" : "Inter-key distance (buckets)";
    all->y_label =
        tokens ? "Key-to-query distance (tokens)" : "Key-to-query distance (buckets)";
    all->sheet = (qk__sheet){.most = 1,
                             .left = 84,
                             .right = 110,
                             .above = 4,
                             .height = 480,
                             .square = true,
                             .below = 54};
    snprintf(few, sizeof few, "fewer than %.0f pairs", map->enough);
    draw_with_heading(figure, subject, all);
}

/* ---- rotary pairs, attention over distance: means over the heads of a layer -------------- */

/* What is shown of the pairs, in the order of the columns; then further pairs. */
static const struct {
    const char *title;
    qk__hue hue;
} PAIR_MAPS[] = {{"Energy of queries (%)", QK__HUE_QUERIES},
                 {"Energy of keys (%)", QK__HUE_KEYS},
                 {"Score variance over distance (%)", QK__HUE_BIAS}};
enum {
    NUM_PAIR_MAPS = sizeof PAIR_MAPS / sizeof *PAIR_MAPS,
    WAVELENGTH = VALUE + NUM_PAIR_MAPS,
    CONTEXT
};

/* A single map has no title, and its scale has a name. */
static void draw_layers(qk__figure *figure, const qk__subject *subject, const char *x_label,
                        qk__maps *all)
{
    enum { LEAST = 150, MOST = 900, OF_LAYER = 16 };
    double height = OF_LAYER * (subject->model->last_layer + 1.0);
    all->x_label = x_label;
    all->y_label = "Layer";
    all->hatched = "no number";
    all->sheet = (qk__sheet){.most = all->count,
                             .least = 220,
                             .left = 62,
                             .gap = 88,
                             .right = all->count == 1 ? 110 : 62,
                             .above = all->count == 1 ? 4 : 30,
                             .height = fmin(MOST, fmax(LEAST, height)),
                             .below = 54};
    draw_with_heading(figure, subject, all);
}

/* A wavelength in tokens, rounded to two digits: "6", "1.2k", "440k"; "" for a pair that does not turn, for which the
 * table has no number. */
static const char *label_wavelength(qk__figure *figure, double wavelength)
{
    static const char UNITS[] = " kM";
    int unit = wavelength >= 1e6 ? 2 : wavelength >= 1e3 ? 1 : 0;
    double shown = wavelength / pow(1e3, unit);
    if (!isfinite(wavelength))
        return "";
    if (wavelength >= 1e9)
        return qk__figure_format(figure, "%.0e", wavelength);
    return qk__figure_format(figure, "%.*f%.*s", unit > 0 && shown<10, shown, unit> 0,
                             UNITS + unit);
}

/* Labels from the first layer with all pairs: sliding layers may turn differently, which the caption says. Also finds
 * where a turn takes the context. */
static void label_pairs(qk__figure *figure, const qk__found *rows, size_t pairs,
                        const char **labels, double *line)
{
    qk__found layer = {0};
    size_t slower = 0;
    for (size_t i = 0; i < rows->count && layer.count != pairs; i += layer.count)
        layer = qk__same_in(rows, i, ROW);
    for (size_t p = 0; p < layer.count && layer.count == pairs; p++) {
        labels[p] = label_wavelength(figure, qk__number_in(&layer, p, WAVELENGTH));
        slower += !(qk__number_in(&layer, p, WAVELENGTH) <= qk__number_in(&layer, p, CONTEXT));
    }
    if (slower > 0 && slower < pairs)
        *line = (double)(pairs - slower) - 0.5;
}

/* For each column of a map, "" at first. NULL: no memory. */
static const char **begin_labels(qk__figure *figure, size_t count)
{
    const char **labels = qk__figure_alloc(figure, count + 1, sizeof *labels);
    for (size_t i = 0; labels && i < count; i++)
        labels[i] = "";
    return labels;
}

void qk__build_rotary_pairs(qk__figure *figure, const qk__subject *subject)
{
    const size_t pairs = (size_t)largest_in(&subject->rows, COLUMN) + 1;
    double line = 0;
    const char **labels = begin_labels(figure, pairs);
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    if (!labels || !all)
        return;
    label_pairs(figure, &subject->rows, pairs, labels, &line);
    for (size_t i = 0; i < NUM_PAIR_MAPS; i++) {
        const double most = largest_in(scaled_rows(subject), VALUE + i);
        qk__map *map = &all->maps[all->count++];
        *map = (qk__map){.title = PAIR_MAPS[i].title, .column_labels = labels, .line = line};
        fill_cells(figure, &subject->rows, VALUE + i, (size_t)subject->model->last_layer + 1, 0,
                   map);
        map->scale = qk__scale_between(PAIR_MAPS[i].hue, 0, most > 0 ? most : 1);
        map->scale.below = NULL; /* shares below 0 are shown as 0 */
    }
    draw_layers(figure, subject, "Wavelength (tokens)", all);
}

/* From distance 0 on; log2 of attention over uniform attention. */
void qk__build_attention_by_depth(qk__figure *figure, const qk__subject *subject)
{
    double most = 0;
    const qk__found *scaled = scaled_rows(subject);
    const size_t bins = (size_t)largest_in(&subject->rows, COLUMN) + 1;
    const char **labels = begin_labels(figure, bins);
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    if (!labels || !all)
        return;
    for (size_t b = 0; b < bins; b++)
        labels[b] = qk__figure_format(figure, "%.7g", b > 0 ? ldexp(1, (int)b - 1) : 0);
    for (size_t i = 0; i < scaled->count; i++) {
        const double size = fabs(log2(qk__number_in(scaled, i, VALUE)));
        most = isfinite(size) ? fmax(most, size) : most;
    }
    qk__map *map = &all->maps[all->count++];
    *map = (qk__map){.column_labels = labels,
                     .format = "%.1f",
                     .bar = "log<sub>2</sub> (attention / uniform)",
                     .scale = qk__scale_of_change(most)};
    if (fill_cells(figure, &subject->rows, VALUE, (size_t)subject->model->last_layer + 1, 0,
                   map))
        for (size_t i = 0; i < map->rows * map->columns; i++)
            map->values[i] = log2(map->values[i]);
    draw_layers(figure, subject, "Distance, from (tokens)", all);
}

/* ---- categories ------------------------------------------------------------------------- */

void qk__build_category_changes(qk__figure *figure, const qk__subject *subject)
{
    enum { N = QK_NUM_CATEGORIES };
    const char *names[N];
    const bool narrow = qk__fit_columns(figure, 2, 400) == 1; /* names of columns are turned */
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    if (!all)
        return;
    qk__map *map = &all->maps[all->count++];
    for (int i = 0; i < N; i++)
        names[i] = qk_category_name((qk_category)i);
    *map = (qk__map){.column_labels = names, .format = "%.0f", .bar = "heads"};
    map->row_labels = names;
    map->scale = qk__scale_of_amount(largest_in(&subject->rows, VALUE));
    if (!qk__start_map(figure, map, N, N))
        return;
    for (int i = 0; i < N * N; i++)
        map->values[i] = 0;
    for (size_t i = 0; i < subject->rows.count; i++)
        map->values[qk__category_in(&subject->rows, i, ROW) * N +
                    qk__category_in(&subject->rows, i, COLUMN)] =
            qk__number_in(&subject->rows, i, VALUE);
    all->x_label = "After RoPE";
    all->y_label = "Before RoPE";
    all->sheet = (qk__sheet){.most = 1,
                             .left = 150,
                             .right = 80,
                             .above = 4,
                             .height = 220,
                             .below = narrow ? 160 : 58};
    draw_with_heading(figure, subject, all);
}

/* ---- two models ------------------------------------------------------------------------- */

enum { METRIC_PLACE = VALUE + 1, METRIC, LAST_LAYER, LAST_HEAD };

/* Layers and heads come from files: with larger numbers a map would be unreadable. */
bool qk__has_change_maps(const qk__subject *subject)
{
    enum { MOST_LAYERS = 1024, MOST_HEADS = 512 };
    return qk__has_sides(subject) &&
           qk__number_in(&subject->rows, 0, LAST_LAYER) < MOST_LAYERS &&
           qk__number_in(&subject->rows, 0, LAST_HEAD) < MOST_HEADS;
}

void qk__build_change_maps(qk__figure *figure, const qk__subject *subject)
{
    const qk__found *rows = &subject->rows;
    const size_t layers = (size_t)qk__number_in(rows, 0, LAST_LAYER) + 1,
                 heads = (size_t)qk__number_in(rows, 0, LAST_HEAD) + 1;
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    for (size_t i = 0; all && i < rows->count;) {
        const qk__found own = qk__same_in(rows, i, METRIC_PLACE);
        const char *metric = qk__text_in(&own, 0, METRIC);
        const double most = largest_in(&own, VALUE);
        qk__map *map = &all->maps[all->count++];
        map->scale = qk__scale_of_change(most);
        map->scale.power = qk__power_for(qk__find_field(metric), most);
        map->title = qk__metric_title(figure, metric, 300, map->scale.power.text);
        if (!fill_cells(figure, &own, VALUE, layers, heads, map))
            return;
        i += own.count;
    }
    if (!all)
        return;
    all->x_label = "Head";
    all->y_label = "Layer";
    all->hatched = "not in both";
    all->sheet = (qk__sheet){.most = 3,
                             .least = 260,
                             .left = 60,
                             .gap = 104,
                             .right = 84,
                             .above = 30,
                             .below = 44,
                             .height = fmin(600, fmax(120, 11.0 * (double)layers))};
    draw_with_heading(figure, subject, all);
}
