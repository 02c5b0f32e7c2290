/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of a number of every head: layer by head, a panel for each model or checkpoint; and means of numbers by model
 * and depth, a panel for each number. */
#include <math.h>
#include <stdio.h>

#include "figure/catalog.h"
#include "figure/maps.h"

/* The most cells of a model; pixels of a layer where panels stand alone, in pairs, in more columns, on a narrow page; of
 * the narrowest panel. */
enum {
    MOST_CELLS = 1 << 16,
    LAYER_ALONE = 17,
    LAYER_IN_PAIRS = 9,
    LAYER_IN_GRID = 5,
    LAYER_NARROW = 3,
    NARROW = 600,
    LEAST_PANEL = 100,
    LEAST_MAP = 300,
    MOST_CELL = 64,
};

/* ---- cells ------------------------------------------------------------------------------ */

/* The model's rows; none where a table numbers heads so high that a map would take all memory. */
static qk__found rows_to_map(const qk__subject *subject, const qk__result_model *model,
                             size_t *layers, size_t *heads)
{
    qk__found rows = qk__rows_of_model(&subject->all, model);
    double last = model->last_layer, most = 0;
    for (size_t i = 0; i < rows.count; i++) {
        last = fmax(last, qk__number_in(&rows, i, QK__LAYER));
        most = fmax(most, qk__number_in(&rows, i, QK__Q_HEAD));
    }
    if ((last + 1) * (most + 1) > MOST_CELLS)
        rows.count = 0;
    *layers = (size_t)last + 1;
    *heads = (size_t)most + 1;
    return rows;
}

static double value_of(const qk__subject *subject, const qk__found *rows, size_t i)
{
    if (subject->kind->panels[0].series[0].field)
        return qk__number_in(rows, i, QK__FIRST_SERIES);
    const int category = qk__category_in(rows, i, QK__CATEGORY_NAME);
    return category >= 0 ? category : NAN;
}

static bool has_map(const qk__subject *subject, const qk__result_model *model)
{
    size_t layers, heads;
    const qk__found rows = rows_to_map(subject, model, &layers, &heads);
    for (size_t i = 0; i < rows.count; i++)
        if (isfinite(value_of(subject, &rows, i)))
            return true;
    return false;
}

static void fill_map(qk__figure *figure, const qk__subject *subject,
                     const qk__result_model *model, qk__map *map)
{
    size_t layers, heads;
    const qk__found rows = rows_to_map(subject, model, &layers, &heads);
    if (!qk__start_map(figure, map, layers, heads))
        return;
    for (size_t i = 0; i < rows.count; i++)
        map->values[(size_t)qk__number_in(&rows, i, QK__LAYER) * heads +
                    (size_t)qk__number_in(&rows, i, QK__Q_HEAD)] = value_of(subject, &rows, i);
}

/* The scale of all heads' numbers in a column. */
static qk__scale scale_in(qk__figure *figure, const qk__subject *subject,
                          const qk__chart_series *shown, size_t column)
{
    size_t count = 0;
    double *values = qk__figure_alloc(figure, subject->all.count + 1, sizeof *values);
    for (size_t i = 0; values && i < subject->all.count; i++) {
        values[count] = qk__number_in(&subject->all, i, column);
        count += isfinite(values[count]);
    }
    if (values)
        qk__sort(values, count);
    return qk__scale_of_values(qk__find_field(shown->field), values, count);
}

/* Fills maps for all models with values, or for the first, the last, and others evenly between them. Returns their
 * number. */
static size_t fill_maps(qk__figure *figure, const qk__subject *subject, const qk__scale *scale,
                        qk__maps *all)
{
    const qk__results *results = subject->results;
    size_t of = 0, seen = 0;
    qk__each_model (results, model)
        of += has_map(subject, model);
    size_t panels = of < QK__MAX_PANELS ? of : QK__MAX_PANELS;
    qk__each_model (results, model) {
        size_t wanted =
            panels > 1 ? (all->count * (of - 1) + (panels - 1) / 2) / (panels - 1) : 0;
        if (all->count == panels || !has_map(subject, model) || seen++ != wanted)
            continue;
        qk__map *map = &all->maps[all->count++];
        *map = (qk__map){.scale = *scale,
                         .format = "%.2f",
                         .bar = qk__series_name(&subject->kind->panels[0].series[0])};
        fill_map(figure, subject, model, map);
        if (results->num_models > 1)
            map->name = qk__model_label(figure, results, model);
    }
    return of;
}

/* ---- every head ------------------------------------------------------------------------- */

static qk__sheet plan_head_maps(const qk__figure *figure, const qk__maps *all, bool named)
{
    const bool narrow = figure->width < NARROW;
    size_t layers = 1, heads = 1;
    for (size_t i = 0; i < all->count; i++) {
        layers = all->maps[i].rows > layers ? all->maps[i].rows : layers;
        heads = all->maps[i].columns > heads ? all->maps[i].columns : heads;
    }
    double of_head = narrow ? 1.5 : figure->millimetres > 0 ? 2.5 : 4;
    double least = fmax(LEAST_PANEL, of_head * (double)heads);
    qk__sheet s = {.left = narrow ? 52 : 64,
                   .gap = narrow ? 30 : 40,
                   .right = 18,
                   .above = named ? 26 : 8,
                   .below = 24};
    size_t n = all->count, columns = n <= 3 ? n : n == 4 ? 2 : n <= 6 ? 3 : 4;
    columns = narrow && columns > 2 ? 2 : columns;
    double em = qk__em(figure), room = figure->width - (s.left + s.right) * em;
    while (columns > 1 && (room + s.gap * em) / (double)columns - s.gap * em < least)
        columns--;
    s.most = columns;
    double layer = n == 1   ? LAYER_ALONE
                   : narrow ? LAYER_NARROW
                   : n <= 4 ? LAYER_IN_PAIRS
                            : LAYER_IN_GRID;
    s.height = fmin(560, fmax(narrow ? 90 : 110, layer * (double)layers));
    if (n == 1) /* cells of a small model are not stretched */
        s.width = fmax(LEAST_MAP, MOST_CELL * (double)heads);
    return s;
}

/* The categories that occur. */
static size_t list_categories(const qk__figure *figure, const qk__maps *all, qk__entry *entries)
{
    bool seen[QK_NUM_CATEGORIES] = {false};
    size_t count = 0;
    for (size_t m = 0; m < all->count; m++)
        for (size_t i = 0; i < all->maps[m].rows * all->maps[m].columns; i++)
            if (isfinite(all->maps[m].values[i]))
                seen[(int)all->maps[m].values[i]] = true;
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        if (seen[c])
            entries[count++] = (qk__entry){qk_category_name((qk_category)c),
                                           qk__category_color(figure->theme, c), QK__AREA, 0};
    return count;
}

bool qk__has_head_maps(const qk__subject *subject)
{
    qk__each_model (subject->results, model)
        if (has_map(subject, model))
            return true;
    return false;
}

void qk__build_head_maps(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    const qk__chart_series *shown = &subject->kind->panels[0].series[0];
    qk__scale scale = {.categories = figure->theme, .power = {0, 1, ""}};
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    if (!all)
        return;
    if (shown->field)
        scale = scale_in(figure, subject, shown, QK__FIRST_SERIES);
    size_t of = fill_maps(figure, subject, &scale, all);
    char heading[160];
    int length = snprintf(heading, sizeof heading, "%s, head by head", subject->kind->heading);
    if (all->count < results->num_models)
        snprintf(heading + length, sizeof heading - (size_t)length, " (%zu of %zu %s%s)",
                 all->count, results->num_models,
                 results->checkpoints ? "checkpoints" : "models",
                 of < results->num_models ? "; others have no number" : "");
    qk__set_heading(figure, results, NULL, heading);
    all->sheet = plan_head_maps(figure, all, results->num_models > 1);
    all->one_scale = true;
    all->x_label = "Query head";
    all->y_label = "Layer";
    all->hatched = "no number";
    qk__entry entries[QK_NUM_CATEGORIES];
    if (!shown->field && figure->status == QK_OK) {
        all->sheet.num_entries = list_categories(figure, all, entries);
        all->sheet.entries = entries;
    }
    if (figure->status == QK_OK)
        qk__draw_maps(figure, all);
}

/* ---- by depth --------------------------------------------------------------------------- */

/* Pixels of a row of cells, where rows are few and many, and of all rows. */
enum { ROW = 28, LOW_ROW = 17, FEW_ROWS = 16, MOST_ROWS = 5000, LEAST_ROWS = 110 };

/* The mean over the heads in each column: a tenth of the depth, or a layer. */
static void fill_row(qk__figure *figure, const qk__subject *subject, size_t model,
                     size_t column, bool by_layer, const qk__map *map, double *values)
{
    const qk__found rows = qk__rows_of_model(&subject->all, &subject->results->models[model]);
    qk__mean *means = qk__figure_alloc(figure, map->columns, sizeof *means);
    for (size_t i = 0; means && i < rows.count; i++) {
        const double at = by_layer ? qk__number_in(&rows, i, QK__LAYER)
                                   : floor(QK__DEPTH_BINS * qk__number_in(&rows, i, QK__DEPTH));
        qk__mean_add(&means[(size_t)fmin(at, (double)map->columns - 1)],
                     qk__number_in(&rows, i, column));
    }
    for (size_t i = 0; means && i < map->columns; i++)
        values[i] = qk__mean_of(&means[i]);
}

/* A column for each tenth of the depth; or for each layer, where no model has ten layers and tenths would leave
 * columns empty. */
static bool fill_depths(qk__figure *figure, const qk__subject *subject,
                        const qk__chart_series *shown, size_t column, qk__map *map)
{
    static const char *const DEPTHS[QK__DEPTH_BINS] = {"0.0", "0.1", "0.2", "0.3", "0.4",
                                                       "0.5", "0.6", "0.7", "0.8", "0.9"};
    const qk__results *results = subject->results;
    size_t layers = 1, rows = results->num_models;
    qk__each_model (results, model) /* of the deepest model */
        layers = (size_t)model->last_layer >= layers ? (size_t)model->last_layer + 1 : layers;
    bool by_layer = layers < QK__DEPTH_BINS;
    *map = (qk__map){.column_labels = by_layer ? NULL : DEPTHS, .format = "%.2f"};
    const char **labels = qk__figure_alloc(figure, rows, sizeof *labels);
    map->row_labels = labels;
    if (!qk__start_map(figure, map, rows, by_layer ? layers : QK__DEPTH_BINS) || !labels)
        return false;
    for (size_t m = 0; m < rows; m++) {
        labels[m] = qk__model_label(figure, results, &results->models[m]);
        fill_row(figure, subject, m, column, by_layer, map, map->values + m * map->columns);
    }
    map->scale = scale_in(figure, subject, shown, column);
    return true;
}

bool qk__has_depth_maps(const qk__subject *subject)
{
    size_t column = QK__FIRST_SERIES;
    for (const qk__panel *panel = subject->kind->panels; panel->series[0].field; panel++)
        if (!qk__any_number(&subject->all, column++))
            return false;
    return true;
}

void qk__build_depth_maps(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    if (!all)
        return;
    bool ok = true;
    for (const qk__panel *panel = subject->kind->panels; ok && panel->series[0].field;
         panel++) {
        qk__map *map = &all->maps[all->count];
        ok = fill_depths(figure, subject, &panel->series[0], QK__FIRST_SERIES + all->count++,
                         map);
        char label[QK__LINE_SIZE];
        map->title = qk__figure_format(
            figure, "%s%s", qk__in_symbols(figure, qk__series_name(&panel->series[0]), label),
            map->scale.power.text);
    }
    if (all->count == 1) { /* the heading says it */
        all->maps[0].bar = qk__series_name(&subject->kind->panels[0].series[0]);
        all->maps[0].title = NULL;
    }
    double rows = (double)results->num_models;
    double height = rows > FEW_ROWS ? fmax(rows * LOW_ROW, FEW_ROWS * ROW) : rows * ROW;
    double names = qk__longest_label(figure, results) / qk__em(figure);
    all->sheet = (qk__sheet){.most = 1,
                             .left = names + 40,
                             .right = 92,
                             .above = all->count > 1 ? 30 : 4,
                             .height = fmin(MOST_ROWS, fmax(LEAST_ROWS, height)),
                             .below = 56};
    all->x_label = all->maps[0].column_labels ? "Depth (layer / last layer)" : "Layer";
    all->y_label = qk__model_word(results);
    all->hatched = "no number";
    all->parted = results;
    qk__set_heading(figure, results, NULL, subject->kind->heading);
    if (ok)
        qk__draw_maps(figure, all);
}

/* ---- one model -------------------------------------------------------------------------- */

bool qk__has_layer_map(const qk__subject *subject)
{
    size_t column = QK__FIRST_SERIES, count = 0;
    for (const qk__panel *panel = subject->kind->panels; panel->series[0].field; panel++)
        count += qk__any_number(&subject->all, column++);
    return count > 0 && subject->results->models[0].last_layer < MOST_CELLS;
}

/* A row for each number that occurs, all on one scale. */
void qk__build_layer_map(qk__figure *figure, const qk__subject *subject)
{
    const qk__panel *panels = subject->kind->panels;
    const size_t most = 8, layers = (size_t)subject->results->models[0].last_layer + 1;
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    const char **names = qk__figure_alloc(figure, most, sizeof *names);
    if (!all || !names)
        return;
    qk__map *map = &all->maps[all->count++];
    *map = (qk__map){
        .row_labels = names, .format = "%.2f", .bar = "mean over the heads of a layer"};
    if (!qk__start_map(figure, map, most, layers))
        return;
    map->rows = 0;
    for (size_t p = 0; panels[p].series[0].field; p++)
        if (qk__any_number(&subject->all, QK__FIRST_SERIES + p)) {
            fill_row(figure, subject, 0, QK__FIRST_SERIES + p, true, map,
                     map->values + map->rows * layers);
            names[map->rows++] = qk__series_name(&panels[p].series[0]);
        }
    double least = 0;
    for (size_t i = 0; i < map->rows * layers; i++)
        least = fmin(least, map->values[i]);
    map->scale = qk__scale_between(QK__HUE_QUERIES, least < 0 ? -1 : 0, 1);
    all->sheet = (qk__sheet){.most = 1,
                             .left = 200,
                             .right = 92,
                             .above = 4,
                             .height = fmax(LEAST_ROWS, (double)map->rows * ROW),
                             .below = 56};
    all->x_label = "Layer";
    all->y_label = "Mean of";
    all->hatched = "no number";
    qk__set_heading(figure, subject->results, NULL, subject->kind->heading);
    qk__draw_maps(figure, all);
}
