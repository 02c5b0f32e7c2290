/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the page for programs: the explorer's markup, the numbers it shows (one JSON
 * block, column by column), and the scripts. */
#include <string.h>

#include "figure/panels.h"
#include "report/assets.h"
#include "report/sections.h"

enum { DIGITS = 5, HEADLINE_DIGITS = 12 };

void qk__section_explorer(qk__page *page, const qk__report *report)
{
    if (report->num_heads > 0)
        qk__page_bytes(page, qk__asset_explorer.data, qk__asset_explorer.size);
}

/* ---- heads ------------------------------------------------------------------------------ */

static void text_list(qk__page *page, const char *key, const char *const *texts, size_t count)
{
    qk__page_print(page, "\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        qk__page_raw(page, i ? "," : "");
        qk__page_json_text(page, texts[i]);
    }
    qk__page_raw(page, "],\n");
}

static void models(qk__page *page, const qk__report *report)
{
    const qk__results *results = report->results;
    qk__page_raw(page, "\"models\":[");
    for (size_t m = 0; m < results->num_models; m++) {
        const qk__result_model *model = &results->models[m];
        qk__page_print(
            page, "%s{\"family\":%d,\"phase\":%d,\"last_layer\":%d,\"name\":", m ? ",\n" : "",
            model->family_index, model->phase_index, model->last_layer);
        qk__page_json_text(page, model->name);
        qk__page_raw(page, ",\"label\":");
        qk__page_json_text(page, *model->label ? model->label : "(no name)");
        const char *capture =
            qk__provenance_capture(&report->provenance, model->name, model->label);
        if (capture) {
            qk__page_raw(page, ",\"capture\":");
            qk__page_json_text(page, capture);
        }
        qk__page_raw(page, "}");
    }
    qk__page_raw(page, "],\n");
}

enum { MODEL = -1 };

/* A column of the int at that offset of qk__result_head, or of the index of its model. */
static void id_column(qk__page *page, const qk__results *results, const char *name,
                      ptrdiff_t offset)
{
    const char *separator = "";
    qk__page_print(page, "\"%s\":[", name);
    for (size_t m = 0; m < results->num_models; m++)
        for (size_t h = 0; h < results->models[m].num_heads; h++) {
            int id = (int)m;
            if (offset != MODEL)
                memcpy(&id, (const char *)&results->models[m].heads[h] + offset, sizeof id);
            qk__page_print(page, "%s%d", separator, id);
            separator = ",";
        }
    qk__page_raw(page, "],\n");
}

static void field_column(qk__page *page, const qk__results *results, const qk__field *field)
{
    bool first = true;
    qk__page_print(page, "{\"name\":\"%s\",\"table\":\"%s\",\"label\":", field->info.name,
                   field->file);
    qk__page_json_text(page, field->info.label);
    qk__page_raw(page, ",\"about\":");
    qk__page_json_text(page, field->info.about);
    qk__page_raw(page, ",\"values\":[");
    for (size_t m = 0; m < results->num_models; m++)
        for (size_t h = 0; h < results->models[m].num_heads; h++) {
            if (!first)
                qk__page_raw(page, ",");
            first = false;
            qk__page_json_number(page, qk__field_value(field, &results->models[m].heads[h].v),
                                 DIGITS);
        }
    qk__page_raw(page, "]}");
}

static void heads(qk__page *page, const qk__report *report)
{
    const qk__results *results = report->results;
    const char *categories[QK_NUM_CATEGORIES];
    bool first = true;
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        categories[c] = qk_category_name((qk_category)c);
    qk__page_print(page,
                   "<script type=\"application/json\" id=\"qk-heads\">{\"checkpoints\":%s,\n",
                   results->checkpoints ? "true" : "false");
    qk__page_raw(page, "\"thresholds\":[");
    qk__page_json_number(page, report->provenance.low, DIGITS);
    qk__page_raw(page, ",");
    qk__page_json_number(page, report->provenance.high, DIGITS);
    qk__page_raw(page, "],\n");
    models(page, report);
    text_list(page, "families", results->families, results->num_families);
    text_list(page, "phases", results->phases, results->num_phases);
    text_list(page, "categories", categories, QK_NUM_CATEGORIES);
    id_column(page, results, "model", MODEL);
    id_column(page, results, "layer", offsetof(qk__result_head, layer));
    id_column(page, results, "q_head", offsetof(qk__result_head, q_head));
    id_column(page, results, "k_head", offsetof(qk__result_head, k_head));
    id_column(page, results, "category", offsetof(qk__result_head, category));
    qk__page_raw(page, "\"fields\":[");
    for (size_t f = 0; f < qk__num_fields; f++) {
        if (!qk__has_field(results, qk__fields[f].info.name))
            continue;
        qk__page_raw(page, first ? "\n" : ",\n");
        field_column(page, results, &qk__fields[f]);
        first = false;
    }
    qk__page_raw(page, "]}</script>\n");
}

/* ---- headline numbers, for their CSV ---------------------------------------------------- */

static void headlines(qk__page *page, const qk__report *report)
{
    const qk__headlines *table = &report->headlines;
    qk__page_raw(page,
                 "<script type=\"application/json\" id=\"qk-headlines\">{\"columns\":[\"kind\","
                 "\"model\",\"family\",\"models\",\"heads\"");
    for (size_t c = 0; c < QK__NUM_HEADLINES; c++)
        if (table->present[c])
            qk__page_print(page, ",\"%s\"", qk__headline_columns[c].name);
    qk__page_raw(page, "],\n\"rows\":[");
    for (size_t i = 0; i < table->count; i++) {
        const qk__headline *row = &table->rows[i];
        const char *family = row->model ? row->model->family : row->family ? row->family : "";
        qk__page_print(page, "%s[\"%s\",", i ? ",\n" : "",
                       row->model    ? "model"
                       : row->family ? "family"
                                     : "all");
        qk__page_json_text(page, row->model ? row->model->label : "");
        qk__page_raw(page, ",");
        qk__page_json_text(page, family);
        qk__page_print(page, ",%zu,%zu", row->num_models, row->num_heads);
        for (size_t c = 0; c < QK__NUM_HEADLINES; c++)
            if (table->present[c]) {
                qk__page_raw(page, ",");
                qk__page_json_number(page, row->values[c], HEADLINE_DIGITS);
            }
        qk__page_raw(page, "]");
    }
    qk__page_raw(page, "]}</script>\n");
}

void qk__section_scripts(qk__page *page, const qk__report *report)
{
    headlines(page, report);
    if (report->num_heads > 0)
        heads(page, report);
    qk__page_raw(page, "<script>");
    qk__page_bytes(page, qk__asset_chart.data, qk__asset_chart.size);
    qk__page_raw(page, "</script>\n<script>");
    qk__page_bytes(page, qk__asset_script.data, qk__asset_script.size);
    qk__page_raw(page, "</script>\n</body>\n</html>\n");
}
