/* SPDX-License-Identifier: Apache-2.0 */
/* What decides the bytes of a capture, as JSON that can be compared key by key, and its fingerprint.
 * Threads and shards have no place here. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "sink/sink.h"

/* ---- making ----------------------------------------------------------------------------- */

static void hash_heads(const qk_sink *sink, char hash[QK__FINGERPRINT_SIZE])
{
    size_t layers = (size_t)sink->settings.num_layers;
    qk__buffer all = {0};
    qk_status status = QK_OK;
    for (int kind = QK_QUERY; kind <= QK_KEY && status == QK_OK; kind++) {
        status = qk__buffer_append(&all, sink->starts[kind],
                                   (layers + 1) * sizeof *sink->starts[kind], NULL);
        if (status == QK_OK)
            status =
                qk__buffer_append(&all, sink->heads[kind],
                                  sink->starts[kind][layers] * sizeof *sink->heads[kind], NULL);
    }
    hash[0] = 0;
    if (status == QK_OK)
        qk__fingerprint_bytes(all.data, all.size, hash);
    qk__buffer_free(&all);
}

static json_t *describe_keep(const qk_sink *sink)
{
    const qk_keep *keep = &sink->settings.keep;
    return json_pack("{s:b, s:b, s:i, s:I, s:i, s:s}", "rows", keep->rows, "moments",
                     keep->moments, "reservoir", keep->reservoir, "reservoir_seed",
                     (json_int_t)sink->settings.reservoir_seed, "groups",
                     keep->moments ? keep->groups : 0, "layout",
                     sink->settings.layout == QK_LAYOUT_PACKED ? "packed" : "heads");
}

/* What the sink itself was told. */
static json_t *describe(const qk_sink *sink)
{
    const qk_sink_settings *s = &sink->settings;
    char heads[QK__FINGERPRINT_SIZE];
    hash_heads(sink, heads);
    return json_pack(
        "{s:i, s:i, s:i, s:I, s:s, s:I, s:I, s:I, s:o, s:{s:s, s:f, s:I, s:I}, s:i}", "layers",
        s->num_layers, "q_heads", s->num_q_heads, "k_heads", s->num_k_heads, "head_dim",
        (json_int_t)s->head_dim, "heads", heads, "texts", (json_int_t)s->num_texts, "tokens",
        (json_int_t)s->num_tokens, "block_texts", (json_int_t)sink->block_texts, "keep",
        describe_keep(sink), "sampler", "type", qk_sampler_type_name(s->sampler.type),
        "base_rate", s->sampler.base_rate, "bucket_size",
        (json_int_t)qk_sampler_bucket_size(&s->sampler), "max_rows",
        (json_int_t)(s->sampler.max_rows > 0 ? s->sampler.max_rows : 0), "stage",
        (int)s->stage);
}

static qk_status make(qk_sink *sink, qk_error *err)
{
    const char *run = sink->settings.run ? sink->settings.run : "{}";
    QK_TRY(qk__context(
        err, qk__json_parse(&sink->identity, run, strlen(run), QK__JSON_NO_ZEROS, err), "run"));
    if (!json_is_object(sink->identity))
        return qk__fail(err, QK_ERR_ARGUMENT, "run: no JSON object");
    sink->identity = qk__json_set(sink->identity, "sink", describe(sink));
    return sink->identity ? QK_OK : qk__nomem(err);
}

qk_status qk__identity_fingerprint(const json_t *identity, char hash[QK__FINGERPRINT_SIZE],
                                   qk_error *err)
{
    char *text = qk__json_dumps(identity, JSON_SORT_KEYS | JSON_COMPACT);
    if (!text)
        return qk__nomem(err);
    qk__fingerprint_bytes(text, strlen(text), hash);
    free(text);
    return QK_OK;
}

qk_status qk__sink_identify(qk_sink *sink, qk_error *err)
{
    QK_TRY(make(sink, err));
    return qk__identity_fingerprint(sink->identity, sink->fingerprint, err);
}

const char *qk__identity_difference(const json_t *a, json_t *b)
{
    const char *key;
    json_t *value;
    json_object_foreach(b, key, value)
    {
        if (!json_equal(value, json_object_get(a, key)))
            return key;
    }
    return NULL;
}
