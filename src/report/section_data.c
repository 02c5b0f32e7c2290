/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the page, for programs: the numbers that the explorer shows (one JSON block, column by column), and the
 * scripts. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buffer.h"
#include "base/json_build.h"
#include "figure/panels.h"
#include "report/sections.h"
#include "stats/means.h"

enum { DIGITS = 5, HEADLINE_DIGITS = 12 };

/* ---- heads ------------------------------------------------------------------------------ */

static json_t *text_list(const char *const *texts, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = qk__json_append(list, qk__clean_text(texts[i]));
    return list;
}

static json_t *models(const qk__report *report)
{
    json_t *list = json_array();
    qk__each_model (report->results, model) {
        const char *capture =
            qk__manifests_capture(&report->manifests, model->name, model->label);
        json_t *entry =
            json_pack("{s:i, s:i, s:i, s:o, s:o}", "family", model->family_index, "phase",
                      model->phase_index, "last_layer", model->last_layer, "name",
                      qk__clean_text(model->name), "label", qk__clean_text(qk__label(model)));
        if (capture)
            entry = qk__json_set(entry, "capture", qk__clean_text(capture));
        list = qk__json_append(list, entry);
    }
    return list;
}

/* The index of the model of each head. */
static json_t *models_of_heads(const qk__report *report)
{
    json_t *list = json_array();
    qk__each_model (report->results, model)
        for (size_t i = 0; i < model->num_heads; i++)
            list = qk__json_append(list, json_integer(model - report->results->models));
    return list;
}

static json_t *ids(const qk__page_heads *heads, const char *name)
{
    const int64_t *values = qk_columns_integers(heads->rows, name);
    json_t *list = json_array();
    for (size_t i = 0; i < heads->found.count; i++)
        list = qk__json_append(list, json_integer(values[i]));
    return list;
}

static json_t *categories_of(const qk__page_heads *heads)
{
    const size_t column = qk__page_column(heads, "category", "");
    json_t *list = json_array();
    for (size_t i = 0; i < heads->found.count; i++)
        list = qk__json_append(list, json_integer(qk__category_in(&heads->found, i, column)));
    return list;
}

/* Each sentence once, and which is whose; -1: none. */
static json_t *put_sentences(json_t *root, const qk__page_heads *heads)
{
    const char *const *own = qk_columns_texts(heads->rows, "sentence");
    json_t *list = json_array(), *which = json_array();
    for (size_t i = 0; i < heads->found.count; i++) {
        size_t k = 0, count = json_array_size(list);
        const char *text = own && own[i] ? own[i] : "";
        while (k < count && strcmp(json_string_value(json_array_get(list, k)), text) != 0)
            k++;
        if (k == count && *text)
            list = qk__json_append(list, qk__clean_text(text));
        which = qk__json_append(which, json_integer(*text ? (json_int_t)k : -1));
    }
    return qk__json_set(qk__json_set(root, "sentences", list), "sentence", which);
}

/* A float has more digits than the page shows, in fewer bytes; NaN where a head has no number. */
static bool fits_float(double value)
{
    return isnan(value) || value == 0 || (fabs(value) >= FLT_MIN && fabs(value) <= FLT_MAX);
}

static void put_float(uint8_t *out, double value)
{
    const float number = (float)value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(bits >> (8 * i));
}

/* Numbers of all heads: base64 of little-endian floats, or a list where a float is too small. */
static json_t *packed(const double *values, size_t count)
{
    uint8_t *bytes = qk__calloc(count + 1, 4);
    bool fits = bytes != NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        fits = fits && fits_float(values[i]);
        if (fits)
            put_float(bytes + 4 * i, values[i]);
        list = qk__json_append(list, qk__json_number(values[i]));
    }
    char *text = fits ? qk__base64(bytes, 4 * count) : NULL;
    free(bytes);
    if (!text)
        return fits ? NULL : list;
    json_decref(list);
    list = json_string(text);
    free(text);
    return list;
}

json_t *qk__scale_json(const qk__scale *scale)
{
    enum { STOPS = 32 };
    bool dark;
    json_t *colors = json_array();
    for (int i = 0; i <= STOPS; i++) {
        double value = scale->low + (scale->high - scale->low) * i / STOPS;
        colors = qk__json_append(colors,
                                 json_sprintf("#%06x", qk__scale_color(scale, value, &dark)));
    }
    return json_pack("{s:o, s:o, s:o}", "low", qk__json_number(scale->low), "high",
                     qk__json_number(scale->high), "colors", colors);
}

/* Counts the heads that have a number; values are NaN where they have none. */
static size_t read_column(const qk__page_heads *heads, size_t column, double *values)
{
    size_t count = 0;
    for (size_t i = 0; i < heads->found.count; i++) {
        double value = column != SIZE_MAX ? qk__number_in(&heads->found, i, column) : NAN;
        values[i] = isfinite(value) ? value : NAN;
        count += isfinite(value) != 0;
    }
    return count;
}

/* The scale of values, which it sorts. */
static json_t *scale_of(const qk__field *field, double *values, size_t count)
{
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            values[known++] = values[i];
    qk__sort(values, known);
    const qk__scale scale = qk__scale_of_values(field, values, known);
    return qk__scale_json(&scale);
}

/* Adds the intervals of a field, and what they are about where that is not the field's value. */
static json_t *add_intervals(json_t *entry, const qk__page_heads *heads, const qk__field *field,
                             double *values)
{
    static const char *const PARTS[] = {"lo", "hi", "cv"}, *const ENDINGS[] = {"_lo", "_hi",
                                                                               "_cv"};
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        const size_t column = qk__page_column(heads, field->info.name, ENDINGS[i]);
        if (read_column(heads, column, values) > 0)
            entry = qk__json_set(entry, PARTS[i], packed(values, heads->found.count));
    }
    return entry;
}

static json_t *fields(const qk__page_heads *heads)
{
    const size_t count = heads->found.count;
    double *values = qk__calloc(count + 1, sizeof *values);
    json_t *list = values ? json_array() : NULL;
    for (size_t f = 0; f < qk__num_fields && list; f++) {
        const qk__field *field = &qk__fields[f];
        if (read_column(heads, qk__page_column(heads, field->info.name, ""), values) == 0)
            continue;
        json_t *all = packed(values, count);
        json_t *entry = json_pack(
            "{s:s, s:s, s:o, s:o, s:s, s:o, s:o}", "name", field->info.name, "table",
            field->file, "label", qk__clean_text(field->info.label), "about",
            qk__clean_text(field->info.about), "unit", field->info.unit ? field->info.unit : "",
            "scale", scale_of(field, values, count), "values", all);
        list = qk__json_append(list, add_intervals(entry, heads, field, values));
    }
    free(values);
    return list;
}

static json_t *heads(const qk__report *report)
{
    static const char *const IDS[] = {"layer", "q_head", "k_head"};
    const qk__results *results = report->results;
    const char *categories[QK_NUM_CATEGORIES];
    double limits[2];
    qk__category_limits(report->tables, "main", limits);
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        categories[c] = qk_category_name((qk_category)c);
    json_t *root = json_pack("{s:b, s:[o,o], s:o, s:o, s:o, s:o}", "checkpoints",
                             results->checkpoints, "thresholds", qk__json_number(limits[0]),
                             qk__json_number(limits[1]), "models", models(report), "families",
                             text_list(results->families, results->num_families), "phases",
                             text_list(results->phases, results->num_phases), "categories",
                             text_list(categories, QK_NUM_CATEGORIES));
    root = qk__json_set(root, "model", models_of_heads(report));
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; i++)
        root = qk__json_set(root, IDS[i], ids(&report->heads, IDS[i]));
    root = qk__json_set(root, "category", categories_of(&report->heads));
    root = put_sentences(root, &report->heads);
    return qk__json_set(root, "fields", fields(&report->heads));
}

/* ---- headline numbers, for their CSV ---------------------------------------------------- */

static json_t *headlines(const qk__headlines *table)
{
    json_t *columns = json_pack("[s,s,s,s,s]", "kind", "model", "family", "models", "heads");
    json_t *rows = json_array();
    for (size_t c = 0; c < QK__NUM_HEADLINES; c++)
        if (table->present[c])
            columns = qk__json_append(columns, json_string(qk__headline_columns[c].name));
    for (size_t i = 0; i < table->count; i++) {
        const qk__headline *row = &table->rows[i];
        const char *family = row->model ? row->model->family : row->family ? row->family : "";
        json_t *cells = json_pack("[s,o,o,I,I]",
                                  row->model    ? "model"
                                  : row->family ? "family"
                                                : "all",
                                  qk__clean_text(row->model ? row->model->label : ""),
                                  qk__clean_text(family), (json_int_t)row->num_models,
                                  (json_int_t)row->num_heads);
        for (size_t c = 0; c < QK__NUM_HEADLINES; c++)
            if (table->present[c])
                cells = qk__json_append(cells, qk__json_number(row->values[c]));
        rows = qk__json_append(rows, cells);
    }
    return json_pack("{s:o, s:o}", "columns", columns, "rows", rows);
}

void qk__section_scripts(qk__page *page, const qk__report *report)
{
    qk__page_json(page, "qk-headlines", headlines(&report->headlines), HEADLINE_DIGITS);
    if (report->results->num_heads > 0)
        qk__page_json(page, "qk-heads", heads(report), DIGITS);
    if (report->results->num_heads > 0)
        qk__section_views(page, report);
    qk__page_scripts(page);
}
