/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the page for programs: the numbers that the explorer shows (one JSON block, column by column),
 * and the scripts. */
#include <math.h>
#include <string.h>

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

/* A column: of a field, else of the int at that offset of qk__result_head, or of the index of the model. */
static json_t *column(const qk__results *results, const qk__field *field, ptrdiff_t offset)
{
    json_t *list = json_array();
    qk__each_model (results, model)
        qk__each_head (model, head) {
            int id = (int)(model - results->models);
            if (!field && offset != MODEL)
                memcpy(&id, (const char *)head + offset, sizeof id);
            list =
                qk__json_append(list, field ? qk__json_number(qk__field_value(field, &head->v))
                                            : json_integer(id));
        }
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
        json_t *list = json_array();
        bool any = false;
        qk__each_model (results, model)
            qk__each_head (model, head) {
                const void *numbers = (const char *)head + PARTS[i].numbers;
                double value = qk__field_value(field, numbers);
                any |= isfinite(value);
                list = qk__json_append(list, qk__json_number(value));
            }
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
        json_t *entry = json_pack(
            "{s:s, s:s, s:o, s:o, s:s, s:o, s:o}", "name", field->info.name, "table",
            field->file, "label", qk__clean_text(field->info.label), "about",
            qk__clean_text(field->info.about), "unit", field->info.unit ? field->info.unit : "",
            "scale", scale_of(results, field), "values", column(results, field, 0));
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
        root = qk__json_set(root, IDS[i].name, column(results, NULL, IDS[i].offset));
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
