/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the models of a folder as JSON, for test_results.py. */
#include <jansson.h>
#include <stdio.h>

#include "results/results.h"

/* Texts of tables need not be UTF-8, JSON must be. */
static json_t *text(const char *bytes)
{
    json_t *string = json_string(bytes);
    if (string)
        return string;
    string = json_array();
    for (; *bytes; bytes++)
        json_array_append_new(string, json_integer((unsigned char)*bytes));
    return string;
}

static json_t *texts(const char *const *values, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, text(values[i]));
    return array;
}

static json_t *dump_models(const qk__results *results)
{
    json_t *models = json_array();
    qk__each_model (results, m)
        json_array_append_new(
            models, json_pack("{so so so so so si si si sI}", "name", text(m->name), "label",
                              text(m->label), "family", text(m->family), "phase",
                              text(m->phase), "slug", text(m->slug), "family_index",
                              m->family_index, "phase_index", m->phase_index, "last_layer",
                              m->last_layer, "heads", (json_int_t)m->num_heads));
    return models;
}

int main(int argc, char **argv)
{
    const qk_context context = {0};
    qk__store *tables = NULL;
    qk__results *results = NULL;
    qk_error err = {0};
    if (argc != 2)
        return 2;
    qk_status status = qk__store_open(&tables, &context, &err);
    if (status == QK_OK)
        status = qk__store_add(tables, "main", argv[1], true, &err);
    if (status == QK_OK)
        status = qk__results_read(&results, tables, argv[1], &err);
    if (status == QK_OK) {
        json_t *root = json_pack(
            "{so sb sI so so so}", "title", text(results->title), "checkpoints",
            results->checkpoints, "heads", (json_int_t)results->num_heads, "families",
            texts(results->families, results->num_families), "phases",
            texts(results->phases, results->num_phases), "models", dump_models(results));
        json_dumpf(root, stdout, 0);
        json_decref(root);
    } else {
        fprintf(stderr, "%s: %s\n", qk_status_text(status), err.message);
    }
    qk__results_free(&results);
    qk__store_close(&tables);
    return status != QK_OK;
}
