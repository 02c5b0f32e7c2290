/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads run.json. */
#include "sink/run_file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "base/tree.h"

#define RUN_NAME "run.json"

/* ---- writing ---------------------------------------------------------------------------- */

static json_t *list_heads(const qk_sink *sink, int layer, qk_kind kind)
{
    const int *heads;
    const size_t count = qk__heads_of(sink, layer, kind, &heads);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = qk__json_append(list, json_integer(heads[i]));
    return list;
}

static json_t *describe_layer(const qk_sink *sink, int layer)
{
    const qk_sink_settings *s = &sink->settings;
    json_t *root = json_pack("{s:o, s:o, s:I}", "q", list_heads(sink, layer, QK_QUERY), "k",
                             list_heads(sink, layer, QK_KEY), "window",
                             (json_int_t)(s->windows ? s->windows[layer] : 0));
    if (!s->frequencies)
        return root;
    json_t *list = json_array();
    for (size_t i = 0; i < s->frequencies[layer].count; i++)
        list = qk__json_append(list, json_real(s->frequencies[layer].values[i]));
    return qk__json_set(root, "frequencies", list);
}

static json_t *text(const char *value)
{
    return qk__json_text(value ? value : "");
}

/* What the final files are made of, besides what decides their rows. */
static json_t *describe_sources(const qk_sink *sink)
{
    const qk_sink_settings *s = &sink->settings;
    json_t *layers = json_array();
    for (int l = 0; l < s->num_layers; l++)
        layers = qk__json_append(layers, describe_layer(sink, l));
    return json_pack("{s:o, s:o, s:o, s:o, s:b, s:b, s:o}", "model", text(s->model_name),
                     "source", text(s->source ? s->source : "qkscope sink"), "card",
                     text(s->card), "extra", text(s->extra_json ? s->extra_json : "{}"),
                     "rope_interleaved", s->rope_interleaved, "token_strings", s->token_strings,
                     "layers", layers);
}

qk_status qk__run_write(const qk_sink *sink, qk_error *err)
{
    json_t *root =
        json_pack("{s:s, s:b, s:O, s:o}", "fingerprint", sink->fingerprint, "replaces",
                  sink->replaces, "run", sink->identity, "capture", describe_sources(sink));
    qk__outfile *file;
    QK_TRY(qk__json_write(root, sink->partial, RUN_NAME, &file, err));
    return qk__outfile_commit(&file, err);
}

/* ---- reading ---------------------------------------------------------------------------- */

static bool take_heads(const json_t *list, int heads, bool *chosen)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_int_t h = json_integer_value(json_array_get(list, i));
        if (!json_is_integer(json_array_get(list, i)) || h < 0 || h >= heads)
            return false;
        chosen[h] = true;
    }
    return true;
}

/* Heads, window and frequencies of each layer. */
static qk_status read_layers(qk__run_file *file, const json_t *layers, qk_error *err)
{
    qk_sink_settings *s = &file->settings;
    const size_t count = (size_t)s->num_layers, queries = (size_t)s->num_q_heads,
                 keys = (size_t)s->num_k_heads;
    size_t total = 1;
    for (size_t l = 0; l < count; l++)
        total += json_array_size(json_object_get(json_array_get(layers, l), "frequencies"));
    if (json_array_size(layers) != count)
        return QK_ERR_MALFORMED;
    QK_TRY(QK__CREATE_ARRAYS(err, {&file->q_heads, count * queries, sizeof *file->q_heads},
                             {&file->k_heads, count * keys, sizeof *file->k_heads},
                             {&file->windows, count, sizeof *file->windows},
                             {&file->frequencies, count, sizeof *file->frequencies},
                             {&file->values, total, sizeof *file->values}));
    double *value = file->values;
    for (size_t l = 0; l < count; l++) {
        const json_t *layer = json_array_get(layers, l),
                     *list = json_object_get(layer, "frequencies");
        if (!take_heads(json_object_get(layer, "q"), (int)queries,
                        file->q_heads + l * queries) ||
            !take_heads(json_object_get(layer, "k"), (int)keys, file->k_heads + l * keys))
            return QK_ERR_MALFORMED;
        file->windows[l] = (int64_t)json_integer_value(json_object_get(layer, "window"));
        file->frequencies[l] = (qk_frequencies){value, json_array_size(list)};
        for (size_t i = 0; i < json_array_size(list); i++)
            *value++ = json_number_value(json_array_get(list, i));
        s->frequencies = list ? file->frequencies : NULL;
    }
    s->q_heads = file->q_heads;
    s->k_heads = file->k_heads;
    s->windows = file->windows;
    return QK_OK;
}

static int number_in(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value >= 0 && value <= INT_MAX ? (int)value : -1;
}

/* "sink" of the identity. */
static bool read_shape(qk_sink_settings *s, const json_t *sink)
{
    const json_t *keep = json_object_get(sink, "keep"),
                 *sampler = json_object_get(sink, "sampler");
    s->num_layers = number_in(sink, "layers");
    s->num_q_heads = number_in(sink, "q_heads");
    s->num_k_heads = number_in(sink, "k_heads");
    s->head_dim = (size_t)json_integer_value(json_object_get(sink, "head_dim"));
    s->num_texts = (int64_t)json_integer_value(json_object_get(sink, "texts"));
    s->num_tokens = (int64_t)json_integer_value(json_object_get(sink, "tokens"));
    s->stage = (qk_rope_stage)number_in(sink, "stage");
    s->keep = (qk_keep){.rows = json_is_true(json_object_get(keep, "rows")),
                        .moments = json_is_true(json_object_get(keep, "moments")),
                        .attention = json_object_get(keep, "attention") != NULL,
                        .reservoir = number_in(keep, "reservoir"),
                        .groups = number_in(keep, "groups"),
                        .first = number_in(keep, "first")};
    s->reservoir_seed = (uint64_t)json_integer_value(json_object_get(keep, "reservoir_seed"));
    s->layout = strcmp(qk__json_string(keep, "layout"), "packed") == 0 ? QK_LAYOUT_PACKED
                                                                       : QK_LAYOUT_HEADS;
    s->sampler.base_rate = json_number_value(json_object_get(sampler, "base_rate"));
    s->sampler.min_bucket_size =
        (int64_t)json_integer_value(json_object_get(sampler, "bucket_size"));
    s->sampler.max_rows = (int64_t)json_integer_value(json_object_get(sampler, "max_rows"));
    return qk_sampler_type_parse(qk__json_string(sampler, "type"), &s->sampler.type) &&
           s->num_layers > 0 && s->num_layers <= QK_MAX_HEAD_NUMBER + 1 && s->num_q_heads > 0 &&
           s->num_q_heads <= QK__MAX_PART_HEADS && s->num_k_heads > 0 &&
           s->num_k_heads <= QK__MAX_PART_HEADS && s->num_texts >= 0 &&
           (!s->keep.attention || number_in(keep, "attention") == QK_ATTENTION_SUMS);
}

/* The user's part of the identity, to which the sink adds its own. */
static char *take_run(const json_t *identity)
{
    json_t *copy = json_deep_copy(identity);
    if (copy)
        json_object_del(copy, "sink");
    char *run = qk__json_dumps(copy, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(copy);
    return run;
}

static qk_status take_run_file(qk__run_file *file, qk_error *err)
{
    qk_sink_settings *s = &file->settings;
    json_t *of = json_object_get(file->root, "capture");
    file->identity = json_object_get(file->root, "run");
    file->replaces = json_is_true(json_object_get(file->root, "replaces"));
    if (!json_is_object(file->identity) || !json_is_object(of) ||
        !read_shape(s, json_object_get(file->identity, "sink")))
        return QK_ERR_MALFORMED;
    file->run = take_run(file->identity);
    if (!file->run)
        return qk__nomem(err);
    s->run = file->run;
    file->ids_hash = qk__json_string(json_object_get(file->identity, "sink"), "text_ids");
    s->model_name = qk__json_string(of, "model");
    s->source = qk__json_string(of, "source");
    s->card = qk__json_string(of, "card");
    s->extra_json = qk__json_string(of, "extra");
    s->rope_interleaved = json_is_true(json_object_get(of, "rope_interleaved"));
    s->token_strings = json_is_true(json_object_get(of, "token_strings"));
    return read_layers(file, json_object_get(of, "layers"), err);
}

static qk_status read_path(qk__run_file *file, const char *path, qk_error *err)
{
    qk_status status = qk__json_read_file(&file->root, path, QK__JSON_RUN, err);
    if (status == QK_OK)
        status = take_run_file(file, err);
    return status == QK_ERR_MALFORMED
               ? qk__fail(err, status,
                          "%s: damaged, or of another version: remove its folder to start over",
                          path)
               : status;
}

qk_status qk__run_read(qk__run_file *file, const char *partial, bool *found, qk_error *err)
{
    *file = (qk__run_file){0};
    *found = false;
    char *path = qk__path_join(partial, RUN_NAME);
    if (!path)
        return qk__nomem(err);
    qk_sink_settings_default(&file->settings);
    *found = qk__is_file(path);
    qk_status status = *found ? read_path(file, path, err) : QK_OK;
    free(path);
    return status;
}

void qk__run_free(qk__run_file *file)
{
    json_decref(file->root);
    free(file->q_heads);
    free(file->k_heads);
    free(file->windows);
    free(file->frequencies);
    free(file->values);
    free(file->run);
    *file = (qk__run_file){0};
}
