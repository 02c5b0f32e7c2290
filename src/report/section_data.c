/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the page for programs: the numbers that the explorer shows (one JSON block, column by column),
 * and the scripts. */
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

enum { DIGITS = 5, HEADLINE_DIGITS = 12, MODEL = -1 };

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
            qk__provenance_capture(&report->provenance, model->name, model->label);
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

/* A column of ids: the int at that offset of qk__result_head, or the index of the model. */
static json_t *ids(const qk__results *results, ptrdiff_t offset)
{
    json_t *list = json_array();
    qk__each_model (results, model)
        qk__each_head (model, head) {
            int id = (int)(model - results->models);
            if (offset != MODEL)
                memcpy(&id, (const char *)head + offset, sizeof id);
            list = qk__json_append(list, json_integer(id));
        }
    return list;
}

/* As a float has them, which tells more digits than the page shows in fewer bytes; NaN where a head has none. */
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

/* The numbers of a field (`numbers`: which of those of qk__result_head): base64 of little-endian floats, or where a float
 * is too small a list. *any: whether some head has one. */
static json_t *column(const qk__results *results, const qk__field *field, ptrdiff_t numbers,
                      bool *any)
{
    size_t count = 0, all = qk__count_heads(results);
    uint8_t *bytes = qk__calloc(all + 1, 4);
    bool fits = bytes != NULL;
    json_t *list = json_array();
    *any = false;
    qk__each_model (results, model)
        qk__each_head (model, head) {
            double value = qk__field_value(field, (const void *)((const char *)head + numbers));
            value = isfinite(value) ? value : NAN;
            *any |= isfinite(value);
            fits = fits && fits_float(value);
            if (fits)
                put_float(bytes + 4 * count++, value);
            list = qk__json_append(list, qk__json_number(value));
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

static json_t *scale_of(const qk__results *results, const qk__field *field)
{
    qk__scale scale;
    qk_status status = qk__scale_of(results, field, false, &scale, NULL);
    return status == QK_OK ? qk__scale_json(&scale) : NULL;
}

/* Intervals of a field, and what these are about where that is not its value; some field has none. */
static json_t *add_intervals(json_t *entry, const qk__results *results, const qk__field *field)
{
    static const struct {
        const char *name;
        ptrdiff_t numbers;
    } PARTS[] = {{"lo", offsetof(qk__result_head, lo)},
                 {"hi", offsetof(qk__result_head, hi)},
                 {"cv", offsetof(qk__result_head, cv)}};
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        bool any;
        json_t *list = column(results, field, PARTS[i].numbers, &any);
        if (any)
            entry = qk__json_set(entry, PARTS[i].name, list);
        else
            json_decref(list);
    }
    return entry;
}

static json_t *fields(const qk__results *results)
{
    json_t *list = json_array();
    for (size_t f = 0; f < qk__num_fields; f++) {
        const qk__field *field = &qk__fields[f];
        if (field->use == QK__LISTED || !qk__has_field(results, field->info.name))
            continue;
        bool any;
        json_t *entry = json_pack(
            "{s:s, s:s, s:o, s:o, s:s, s:o, s:o}", "name", field->info.name, "table",
            field->file, "label", qk__clean_text(field->info.label), "about",
            qk__clean_text(field->info.about), "unit", field->info.unit ? field->info.unit : "",
            "scale", scale_of(results, field), "values",
            column(results, field, offsetof(qk__result_head, v), &any));
        list = qk__json_append(list, add_intervals(entry, results, field));
    }
    return list;
}

static json_t *heads(const qk__report *report)
{
    static const struct {
        const char *name;
        ptrdiff_t offset;
    } IDS[] = {{"model", MODEL},
               {"layer", offsetof(qk__result_head, layer)},
               {"q_head", offsetof(qk__result_head, q_head)},
               {"k_head", offsetof(qk__result_head, k_head)},
               {"category", offsetof(qk__result_head, category)}};
    const qk__results *results = report->results;
    const char *categories[QK_NUM_CATEGORIES];
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        categories[c] = qk_category_name((qk_category)c);
    json_t *root =
        json_pack("{s:b, s:[o,o], s:o, s:o, s:o, s:o}", "checkpoints", results->checkpoints,
                  "thresholds", qk__json_number(report->provenance.low),
                  qk__json_number(report->provenance.high), "models", models(report),
                  "families", text_list(results->families, results->num_families), "phases",
                  text_list(results->phases, results->num_phases), "categories",
                  text_list(categories, QK_NUM_CATEGORIES));
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; i++)
        root = qk__json_set(root, IDS[i].name, ids(results, IDS[i].offset));
    return qk__json_set(root, "fields", fields(results));
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
    if (report->num_heads > 0)
        qk__page_json(page, "qk-heads", heads(report), DIGITS);
    if (report->num_heads > 0)
        qk__section_views(page, report);
    qk__page_scripts(page);
}
