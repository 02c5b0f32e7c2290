/* SPDX-License-Identifier: Apache-2.0 */
/* What decides the bytes of a capture, as JSON that can be compared key by key, and its fingerprint.
 * Threads and shards have no place here. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "sink/sink.h"

/* ---- making ----------------------------------------------------------------------------- */

static qk_status add_heads(const qk_sink *sink, qk__buffer *all, qk_error *err)
{
    size_t layers = (size_t)sink->settings.num_layers;
    for (int kind = QK_QUERY; kind <= QK_KEY; kind++) {
        const size_t *starts = sink->starts[kind];
        QK_TRY(qk__buffer_append(all, starts, (layers + 1) * sizeof *starts, err));
        QK_TRY(qk__buffer_append(all, sink->heads[kind],
                                 starts[layers] * sizeof *sink->heads[kind], err));
    }
    return QK_OK;
}

/* What else is known of layers: windows and frequencies. */
static qk_status add_layers(const qk_sink *sink, qk__buffer *all, qk_error *err)
{
    const qk_sink_settings *s = &sink->settings;
    for (int l = 0; l < s->num_layers; l++) {
        int64_t numbers[2] = {s->windows ? s->windows[l] : 0,
                              s->frequencies ? (int64_t)s->frequencies[l].count : -1};
        QK_TRY(qk__buffer_append(all, numbers, sizeof numbers, err));
        if (numbers[1] > 0)
            QK_TRY(qk__buffer_append(all, s->frequencies[l].values,
                                     (size_t)numbers[1] * sizeof(double), err));
    }
    return QK_OK;
}

typedef qk_status add_fn(const qk_sink *sink, qk__buffer *all, qk_error *err);

static qk_status hash(const qk_sink *sink, add_fn *add, char text[QK__FINGERPRINT_SIZE],
                      qk_error *err)
{
    qk__buffer all = {0};
    qk_status status = add(sink, &all, err);
    if (status == QK_OK)
        qk__fingerprint_bytes(all.data, all.size, text);
    qk__buffer_free(&all);
    return status;
}

static json_t *describe_keep(const qk_sink *sink)
{
    const qk_keep *keep = &sink->settings.keep;
    json_t *all =
        json_pack("{s:b, s:b, s:i, s:I, s:i, s:s, s:b}", "rows", keep->rows, "moments",
                  keep->moments, "reservoir", keep->reservoir, "reservoir_seed",
                  (json_int_t)sink->settings.reservoir_seed, "groups",
                  keep->moments || keep->attention ? keep->groups : 0, "layout",
                  sink->settings.layout == QK_LAYOUT_PACKED ? "packed" : "heads",
                  "token_strings", sink->settings.token_strings);
    if (keep->attention) /* a block has the sums of its program */
        all = qk__json_set(all, "attention", json_integer(QK_ATTENTION_SUMS));
    return keep->first > 0 ? qk__json_set(all, "first", json_integer(keep->first)) : all;
}

/* What the sink itself was told. */
static json_t *describe_sink(const qk_sink *sink, const char *heads, const char *by_layer)
{
    const qk_sink_settings *s = &sink->settings;
    json_t *all = json_pack(
        "{s:o, s:s, s:b, s:i, s:i, s:i, s:I, s:s, s:I, s:I, s:I, s:o, s:{s:s, s:f, s:I, s:I}, "
        "s:i}",
        "model", qk__json_text(s->model_name ? s->model_name : ""), "by_layer", by_layer,
        "interleaved", s->rope_interleaved, "layers", s->num_layers, "q_heads", s->num_q_heads,
        "k_heads", s->num_k_heads, "head_dim", (json_int_t)s->head_dim, "heads", heads, "texts",
        (json_int_t)s->num_texts, "tokens", (json_int_t)s->num_tokens, "block_texts",
        (json_int_t)sink->block_texts, "keep", describe_keep(sink), "sampler", "type",
        qk_sampler_type_name(s->sampler.type), "base_rate", s->sampler.base_rate, "bucket_size",
        (json_int_t)qk_sampler_bucket_size(&s->sampler), "max_rows",
        (json_int_t)(s->sampler.max_rows > 0 ? s->sampler.max_rows : 0), "stage",
        (int)s->stage);
    return *sink->ids_hash ? qk__json_set(all, "text_ids", json_string(sink->ids_hash)) : all;
}

static qk_status make_identity(qk_sink *sink, qk_error *err)
{
    const char *run = sink->settings.run ? sink->settings.run : "{}";
    char heads[QK__FINGERPRINT_SIZE], layers[QK__FINGERPRINT_SIZE];
    QK_TRY(hash(sink, add_heads, heads, err));
    QK_TRY(hash(sink, add_layers, layers, err));
    QK_TRY(qk__context(
        err, qk__json_parse(&sink->identity, run, strlen(run), QK__JSON_GIVEN, err), "run"));
    if (!json_is_object(sink->identity))
        return qk__fail(err, QK_ERR_ARGUMENT, "run: no JSON object");
    sink->identity = qk__json_set(sink->identity, "sink", describe_sink(sink, heads, layers));
    return sink->identity ? QK_OK : qk__nomem(err);
}

qk_status qk__sink_identify(qk_sink *sink, qk_error *err)
{
    QK_TRY(make_identity(sink, err));
    char *text = qk__json_dumps(sink->identity, JSON_SORT_KEYS | JSON_COMPACT);
    if (!text)
        return qk__nomem(err);
    qk__fingerprint_bytes(text, strlen(text), sink->fingerprint);
    free(text);
    return QK_OK;
}

const char *qk__identity_difference(const json_t *a, json_t *b)
{
    const char *key;
    json_t *value;
    json_object_foreach(b, key, value)
    {
        json_t *other = json_object_get(a, key);
        if (json_equal(value, other))
            continue;
        if (strcmp(key, "sink") == 0 && json_is_object(other))
            return qk__identity_difference(other, value);
        return key;
    }
    return NULL;
}
