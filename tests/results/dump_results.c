/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what qk__results_read makes of a folder as JSON, for test_results.py. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "results/read_results.h"

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

static json_t *number(double value)
{
    json_t *real = json_real(value); /* NULL for NaN */
    return real ? real : json_null();
}

static json_t *numbers(const double *values, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, number(values[i]));
    return array;
}

static json_t *texts(const char *const *values, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, text(values[i]));
    return array;
}

static json_t *dump_attention(const qk__head_curve *curve)
{
    return json_pack("[o o o o]", numbers(curve->distance, curve->count),
                     numbers(curve->measured, curve->count),
                     numbers(curve->predicted[0], curve->count),
                     numbers(curve->predicted[1], curve->count));
}

static json_t *dump_head(const qk__result_head *head)
{
    json_t *fields = json_object();
    for (size_t i = 0; i < qk__num_fields; i++)
        json_object_set_new(fields, qk__fields[i].info.name,
                            number(qk__field_value(&qk__fields[i], &head->v)));
    return json_pack("{si si si sf si so so so so so so so}", "layer", head->layer, "q_head",
                     head->q_head, "k_head", head->k_head, "depth", head->depth, "category",
                     head->category, "v", fields, "pc_ev", numbers(head->pc_ev, head->num_pcs),
                     "pc_r_q", numbers(head->pc_r_q, head->num_pcs), "pc_r_k",
                     numbers(head->pc_r_k, head->num_pcs), "profile_position",
                     numbers(head->profile_position, head->num_profile), "profile_ap",
                     numbers(head->profile_ap, head->num_profile), "attention",
                     dump_attention(&head->attention));
}

static json_t *dump_model(const qk__result_model *model)
{
    json_t *heads = json_array();
    for (size_t i = 0; i < model->num_heads; i++)
        json_array_append_new(heads, dump_head(&model->heads[i]));
    return json_pack("{so so so so so so si si so}", "name", text(model->name), "label",
                     text(model->label), "family", text(model->family), "phase",
                     text(model->phase), "source", text(model->source), "slug",
                     text(model->slug), "family_index", model->family_index, "phase_index",
                     model->phase_index, "heads", heads);
}

static json_t *dump_scores(const qk__results *results)
{
    size_t columns = results->num_score_columns;
    json_t *scores = json_array();
    for (size_t i = 0; i < results->num_scores; i++) {
        const qk__score *s = &results->scores[i];
        json_array_append_new(scores, json_pack("{so so so}", "model", text(s->model), "family",
                                                text(s->family), "values",
                                                numbers(s->values, columns)));
    }
    return json_pack("{so so}", "columns", texts(results->score_columns, columns), "rows",
                     scores);
}

static json_t *dump(const qk__results *results)
{
    json_t *models = json_array();
    for (size_t i = 0; i < results->num_models; i++)
        json_array_append_new(models, dump_model(&results->models[i]));
    return json_pack("{so so so so sb so}", "title", text(results->title), "models", models,
                     "families", texts(results->families, results->num_families), "phases",
                     texts(results->phases, results->num_phases), "checkpoints",
                     results->checkpoints, "scores", dump_scores(results));
}

/* dump_results [--brief] FOLDER [SCORES]: exit code 1 and "STATUS: message" on stderr. */
int main(int argc, char **argv)
{
    int brief = argc > 1 && strcmp(argv[1], "--brief") == 0;
    if (argc < 2 + brief)
        return 2;
    qk_error err;
    qk__results *results;
    qk_status status = qk__results_read(&results, argv[1 + brief],
                                        argc > 2 + brief ? argv[2 + brief] : NULL, &err);
    if (status != QK_OK) {
        fprintf(stderr, "%s: %s\n", qk_status_text(status), err.message);
        return results || err.status != status ? 3 : 1;
    }
    if (brief) {
        printf("%zu models\n", results->num_models);
    } else {
        json_t *root = dump(results);
        json_dumpf(root, stdout, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
        json_decref(root);
    }
    qk__results_free(&results);
    return results ? 3 : 0;
}
