/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of other things than heads: plasticity and attention over distances, rotary pairs, categories
 * before and after RoPE, what changed between two models. */
#include <math.h>
#include <stdio.h>

#include "base/number.h"
#include "figure/catalog.h"
#include "figure/maps.h"
#include "figure/compare_figures.h"

/* The heading, and the one map or several. */
static void draw_with_heading(qk__figure *figure, const qk__subject *subject, qk__maps *all)
{
    qk__set_heading(figure, subject->results, subject->model, subject->kind->heading);
    if (figure->status == QK_OK)
        qk__draw_maps(figure, all);
}

/* Checkpoints have one scale, so that training is seen; other models have their own. */
static bool shares_scale(const qk__subject *subject, const qk__result_model *model)
{
    return subject->results->checkpoints || model == subject->model;
}

/* ---- plasticity over distances ---------------------------------------------------------- */

/* Cells on a side at most; pairs from which on a cell is sure. */
enum { MAX_SIDE = 64, ENOUGH = 100 };

bool qk__has_distances(const qk__subject *subject)
{
    const qk__distance_map *of = &subject->model->distances;
    for (size_t i = 0; i < of->rows * of->columns; i++)
        if (isfinite(of->ap[i]))
            return true;
    return false;
}

/* Mean over merge x merge bins, by pairs, whose number goes to *pairs_of_cell. */
static double merged_ap(const qk__distance_map *of, size_t row, size_t column, size_t merge,
                        double *pairs_of_cell)
{
    double sum = 0, pairs = 0;
    for (size_t r = row * merge; r < (row + 1) * merge && r < of->rows; r++)
        for (size_t c = column * merge; c < (column + 1) * merge && c < of->columns; c++) {
            size_t i = r * of->columns + c;
            if (of->pairs[i] > 0) {
                sum += of->pairs[i] * of->ap[i];
                pairs += of->pairs[i];
            }
        }
    *pairs_of_cell = pairs;
    return pairs > 0 ? sum / pairs : NAN;
}

/* ENOUGH; a tenth of those of the median cell where that is fewer, or a ten-thousandth of them. */
static double enough_pairs(qk__figure *figure, const qk__map *map)
{
    size_t count = 0, cells = map->rows * map->columns;
    double *pairs = qk__figure_alloc(figure, cells + 1, sizeof *pairs);
    for (size_t i = 0; pairs && i < cells; i++)
        if (isfinite(map->values[i]))
            pairs[count++] = map->pairs[i];
    double median = pairs ? qk__median(pairs, count) : ENOUGH;
    return ceil(fmin(median / 10, fmax(ENOUGH, median / 10000)));
}

/* Values and pairs of a model's cells, and how many pairs are enough. */
static bool fill_distances(qk__figure *figure, const qk__distance_map *of, qk__map *map)
{
    size_t side = of->rows > of->columns ? of->rows : of->columns;
    size_t merge = (side + MAX_SIDE - 1) / MAX_SIDE;
    bool tokens = of->bucket_width > 0 && isfinite(of->bucket_width);
    *map = (qk__map){.unit = (tokens ? of->bucket_width : 1) * (double)merge,
                     .bar = "Attention plasticity"};
    bool ok = qk__start_map(figure, map, (of->rows + merge - 1) / merge,
                            (of->columns + merge - 1) / merge);
    map->pairs = qk__figure_alloc(figure, map->rows * map->columns + 1, sizeof *map->pairs);
    if (!ok || !map->pairs)
        return false;
    for (size_t i = 0; i < map->rows * map->columns; i++)
        map->values[i] =
            merged_ap(of, i / map->columns, i % map->columns, merge, &map->pairs[i]);
    map->enough = enough_pairs(figure, map);
    return true;
}

/* The colours reach from the 2nd to the 98th percentile of the cells that are sure enough, in the
 * checkpoint where that is lowest or highest: neither a cell of eight pairs nor a single odd one
 * sets the scale. */
static void widen_colors(qk__figure *figure, const qk__map *map, qk__range *range)
{
    size_t sure = 0, cells = map->rows * map->columns;
    double *values = qk__figure_alloc(figure, cells + 1, sizeof *values);
    for (size_t i = 0; values && i < cells; i++)
        if (isfinite(map->values[i]) && map->pairs[i] >= map->enough)
            values[sure++] = map->values[i];
    if (sure > 0) {
        qk__sort(values, sure);
        size_t cut = (sure - 1) / 50;
        qk__range_add(range, values[cut]);
        qk__range_add(range, values[sure - 1 - cut]);
    }
}

void qk__build_distances(qk__figure *figure, const qk__subject *subject)
{
    qk__range range = QK__NO_RANGE;
    char few[40];
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    if (!all)
        return;
    qk__each_model (subject->results, model) {
        qk__map other = {0};
        if (shares_scale(subject, model) && fill_distances(figure, &model->distances, &other))
            widen_colors(figure, &other, &range);
    }
    qk__map *map = &all->maps[all->count++];
    if (!fill_distances(figure, &subject->model->distances, map))
        return;
    map->scale = qk__scale_between(QK__HUE_PLASTICITY, range.low, range.high);
    for (size_t i = 0; i < map->rows * map->columns; i++)
        if (map->pairs[i] > 0 && map->pairs[i] < map->enough)
            all->hatched = few;
    bool tokens = subject->model->distances.bucket_width > 0 &&
                  isfinite(subject->model->distances.bucket_width);
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

/* What is shown of the pairs; numbers_of has their numbers in this order. */
static const struct {
    const char *title;
    qk__hue hue;
} PAIR_MAPS[] = {{"Energy of queries (%)", QK__HUE_QUERIES},
                 {"Energy of keys (%)", QK__HUE_KEYS},
                 {"Score variance over distance (%)", QK__HUE_BIAS}};
enum { NUM_PAIR_MAPS = sizeof PAIR_MAPS / sizeof *PAIR_MAPS, ATTENTION = NUM_PAIR_MAPS };

static const double *numbers_of(const qk__result_head *head, size_t which, size_t *count)
{
    const double *const numbers[] = {head->rope_energy_q, head->rope_energy_k,
                                     head->rope_score_share, head->attention.measured};
    *count = which == ATTENTION ? head->attention.count : head->num_rope_pairs;
    return numbers[which];
}

static size_t count_columns(const qk__result_model *model, size_t which)
{
    size_t most = 0, count;
    qk__each_head (model, head) {
        numbers_of(head, which, &count);
        most = count > most ? count : most;
    }
    return most;
}

bool qk__has_rotary_pairs(const qk__subject *subject)
{
    return count_columns(subject->model, 0) > 0;
}

/* Means over the heads of each layer; of pairs in percent. */
static bool fill_layers(qk__figure *figure, const qk__result_model *model, size_t which,
                        qk__map *map)
{
    size_t columns = count_columns(model, which), layers = (size_t)model->last_layer + 1, count;
    qk__mean *means = qk__figure_alloc(figure, layers * columns + 1, sizeof *means);
    if (!qk__start_map(figure, map, layers, columns) || !means)
        return false;
    qk__each_head (model, head) {
        const double *numbers = numbers_of(head, which, &count);
        for (size_t i = 0; i < count; i++)
            qk__mean_add(&means[(size_t)head->layer * columns + i],
                         which == ATTENTION ? numbers[i] : 100 * numbers[i]);
    }
    for (size_t i = 0; i < layers * columns; i++)
        map->values[i] = qk__mean_of(&means[i]);
    return true;
}

/* One map alone has no title, and its scale has a name. */
static void draw_layers(qk__figure *figure, const qk__subject *subject, const char *x_label,
                        qk__maps *all)
{
    enum { LEAST = 150, MOST = 900, ROW = 16 };
    double height = ROW * (subject->model->last_layer + 1.0);
    all->x_label = x_label;
    all->y_label = "Layer";
    all->hatched = "not in the capture";
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

static double largest_value(const qk__map *map, double most)
{
    for (size_t i = 0; i < map->rows * map->columns; i++)
        most = isfinite(map->values[i]) ? fmax(most, map->values[i]) : most;
    return most;
}

/* Wavelengths in tokens, rounded to two digits: "6", "1.2k", "440k"; none of a pair that does not turn,
 * for which the table has no number. */
static void label_wavelength(double wavelength, char text[16])
{
    static const char UNITS[] = " kM";
    int unit = wavelength >= 1e6 ? 2 : wavelength >= 1e3 ? 1 : 0;
    double shown = wavelength / pow(1e3, unit);
    if (wavelength >= 1e9)
        qk__print_plain(text, 16, "%.0e", wavelength);
    else if (isfinite(wavelength))
        qk__print_plain(text, 16, "%.*f%.*s", unit > 0 && shown<10, shown, unit> 0,
                        UNITS + unit);
    else
        text[0] = 0;
}

/* Labels of the first head with all pairs: those of sliding layers may turn otherwise, which the
 * caption says. Sets where a turn takes the context. */
static void label_pairs(const qk__result_model *model, size_t pairs, char (*text)[16],
                        const char **labels, double *line)
{
    const qk__result_head *head = NULL;
    size_t slower = 0;
    qk__each_head (model, other)
        if (!head && other->num_rope_pairs == pairs)
            head = other;
    for (size_t p = 0; head && p < pairs; p++) {
        label_wavelength(head->rope_wavelength[p], text[p]);
        labels[p] = text[p];
        slower += !(head->rope_wavelength[p] <= head->v.context);
    }
    if (slower > 0 && slower < pairs)
        *line = (double)(pairs - slower) - 0.5;
}

static void fill_pair_maps(qk__figure *figure, const qk__subject *subject,
                           const char *const *labels, double line, qk__maps *all)
{
    for (size_t i = 0; i < NUM_PAIR_MAPS; i++) {
        double most = 0;
        qk__map *map = &all->maps[all->count++];
        *map = (qk__map){.title = PAIR_MAPS[i].title, .column_labels = labels, .line = line};
        qk__each_model (subject->results, model) {
            qk__map other = {0};
            if (shares_scale(subject, model) && fill_layers(figure, model, i, &other))
                most = largest_value(&other, most);
        }
        fill_layers(figure, subject->model, i, map);
        map->scale = qk__scale_between(PAIR_MAPS[i].hue, 0, most > 0 ? most : 1);
        map->scale.below = NULL; /* shares below 0 are shown as 0 */
    }
}

void qk__build_rotary_pairs(qk__figure *figure, const qk__subject *subject)
{
    size_t pairs = count_columns(subject->model, 0);
    double line = 0;
    char(*text)[16] = qk__figure_alloc(figure, pairs, sizeof *text);
    const char **labels = qk__figure_alloc(figure, pairs, sizeof *labels);
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    if (!text || !labels || !all)
        return;
    label_pairs(subject->model, pairs, text, labels, &line);
    fill_pair_maps(figure, subject, labels, line, all);
    draw_layers(figure, subject, "Wavelength (tokens)", all);
}

/* log2 of attention over uniform attention, from distance 0 on; returns the largest magnitude. */
static double fill_attention(qk__figure *figure, const qk__result_model *model, qk__map *map)
{
    double most = 0;
    bool ok = fill_layers(figure, model, ATTENTION, map);
    for (size_t i = 0; ok && i < map->rows * map->columns; i++) {
        map->values[i] = log2(map->values[i]);
        most = isfinite(map->values[i]) ? fmax(most, fabs(map->values[i])) : most;
    }
    return most;
}

void qk__build_attention_by_depth(qk__figure *figure, const qk__subject *subject)
{
    double most = 0;
    size_t bins = count_columns(subject->model, ATTENTION);
    char(*text)[16] = qk__figure_alloc(figure, bins, sizeof *text);
    const char **labels = qk__figure_alloc(figure, bins, sizeof *labels);
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    if (!text || !labels || !all)
        return;
    for (size_t b = 0; b < bins; b++) {
        qk__print_plain(text[b], sizeof text[b], "%.7g", b > 0 ? ldexp(1, (int)b - 1) : 0);
        labels[b] = text[b];
    }
    qk__each_model (subject->results, model) {
        qk__map other = {0};
        if (shares_scale(subject, model))
            most = fmax(most, fill_attention(figure, model, &other));
    }
    all->maps[all->count++] = (qk__map){.column_labels = labels,
                                        .format = "%.1f",
                                        .bar = "log<sub>2</sub> (attention / uniform)",
                                        .scale = qk__scale_of_change(most)};
    fill_attention(figure, subject->model, &all->maps[0]);
    draw_layers(figure, subject, "Distance, from (tokens)", all);
}

/* ---- categories ------------------------------------------------------------------------- */

static bool has_change(const qk__result_head *head)
{
    return head->category_before >= 0 && head->category_after >= 0;
}

bool qk__has_category_changes(const qk__subject *subject)
{
    return qk__count_heads_with(subject->model, has_change) > 0;
}

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
    if (!qk__start_map(figure, map, N, N))
        return;
    for (int i = 0; i < N * N; i++)
        map->values[i] = 0;
    qk__each_head (subject->model, head)
        if (has_change(head))
            map->values[head->category_before * N + head->category_after]++;
    map->scale = qk__scale_of_amount(largest_value(map, 0));
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

static void sides_of_pairs(const qk__comparison *c, size_t *layers, size_t *heads)
{
    *layers = *heads = 0;
    for (size_t i = 0; i < c->num_paired; i++) {
        const qk__result_head *head = c->pairs[0][i];
        *layers = (size_t)head->layer >= *layers ? (size_t)head->layer + 1 : *layers;
        *heads = (size_t)head->q_head >= *heads ? (size_t)head->q_head + 1 : *heads;
    }
}

/* Numbers of layers and heads come from files: beyond this a map says nothing any more. */
bool qk__has_change_maps(const qk__subject *subject)
{
    enum { MOST_LAYERS = 1024, MOST_HEADS = 512 };
    size_t layers, heads;
    if (!subject->comparison)
        return false;
    sides_of_pairs(subject->comparison, &layers, &heads);
    return layers <= MOST_LAYERS && heads <= MOST_HEADS;
}

void qk__build_change_maps(qk__figure *figure, const qk__subject *subject)
{
    const qk__comparison *c = subject->comparison;
    const qk__compared_metric *chosen[QK__MOST_COMPARED];
    size_t count = qk__compared_metrics(c, chosen), layers, heads;
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    if (!all)
        return;
    sides_of_pairs(c, &layers, &heads);
    for (size_t m = 0; m < count; m++) {
        qk__map *map = &all->maps[all->count++];
        double most = 0;
        if (!qk__start_map(figure, map, layers, heads))
            return;
        for (size_t i = 0; i < c->num_paired; i++) {
            const qk__change *x = &c->changes[chosen[m]->first + i];
            if (!isfinite(x->difference))
                continue;
            map->values[(size_t)x->layer * heads + (size_t)x->q_head] = x->difference;
            most = fmax(most, fabs(x->difference));
        }
        map->scale = qk__scale_of_change(most);
        map->scale.power = qk__power_for(chosen[m]->field, most);
        map->title = qk__compared_title(figure, chosen[m], 300, map->scale.power.text);
    }
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
