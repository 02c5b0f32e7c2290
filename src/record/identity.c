/* SPDX-License-Identifier: Apache-2.0 */
/* What decides the bytes of a capture: model, tokenizer, texts and settings, as JSON that can
 * be compared key by key, and its fingerprint. Threads and the like have no place here. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/version.h>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/characters.h"
#include "record/recording.h"
#include "study/json.h"

static json_t *hex64(uint64_t value)
{
    return json_sprintf("%016" PRIx64, value);
}

/* ---- settings --------------------------------------------------------------------------- */

static json_t *list_indices(const qk_index_list *list)
{
    if (list->count == 0)
        return json_null();
    json_t *array = json_array();
    for (size_t i = 0; array && i < list->count; i++)
        array = qk__json_append(array, json_integer(list->items[i]));
    return array;
}

/* qk__json_text takes a text for which memory has run out for one that is not UTF-8. */
static json_t *describe_name(const char *name)
{
    json_t *text = qk__json_text(name);
    size_t size = strlen(name);
    if (!text || strcmp(json_string_value(text), name) == 0 ||
        qk__utf8_valid((const uint8_t *)name, size) < size)
        return text;
    json_decref(text);
    return NULL;
}

static json_t *describe_model(const qk_recording *r)
{
    return json_pack("{s:o, s:s, s:o, s:s, s:o}", "name", describe_name(r->model_name),
                     "architecture", r->facts->architecture, "fingerprint",
                     hex64(r->facts->fingerprint), "dtype", r->facts->dtype, "overrides",
                     r->settings->overrides ? describe_name(r->settings->overrides)
                                            : json_null());
}

static json_t *describe_texts(const qk_recording *r)
{
    static const char *const LONG[] = {"split", "cut", "skip"};
    return json_pack("{s:I, s:s, s:I, s:s}", "count", (json_int_t)r->num_texts, "xxh3_128",
                     r->texts_hash, "max_length", (json_int_t)r->max_length, "long",
                     LONG[r->settings->long_texts]);
}

static json_t *describe_sampler(const qk_recording *r)
{
    const qk_sampler *s = &r->sampler;
    json_t *object =
        json_pack("{s:s, s:f, s:I, s:I}", "type", qk_sampler_type_name(s->type), "base_rate",
                  s->base_rate, "bucket_size", (json_int_t)qk_sampler_bucket_size(s),
                  "max_rows", (json_int_t)(s->max_rows > 0 ? s->max_rows : 0));
    if (r->chosen) {
        object = qk__json_set(object, "rows", json_integer(r->settings->rows));
        object = qk__json_set(object, "expected_rows", json_real(r->expected_rows));
    }
    return object;
}

static json_t *describe_heads(const qk_record_settings *s)
{
    static const char *const KINDS[] = {"", "q", "k", "q,k"};
    return json_pack("{s:o, s:o, s:s, s:o, s:b, s:b}", "layers", list_indices(&s->layers),
                     "heads", list_indices(&s->heads), "kinds", KINDS[s->kinds & 3], "sampling",
                     s->sample_heads > 0 ? json_pack("{s:i, s:I}", "count", s->sample_heads,
                                                     "seed", (json_int_t)s->head_seed)
                                         : json_null(),
                     "full_attention_only", s->full_attention_only, "compat", s->compat);
}

static qk_status describe(qk_recording *r, qk_error *err)
{
    static const char *const STAGES[] = {"post", "pre", "both"};
    static const char *const ARITHMETICS[] = {"float32", "bf16-sim", "f16-sim"};
    const qk_record_settings *s = r->settings;
    r->identity = json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:s, s:o, s:b}", "tool",
                            "qkscope " QK_VERSION, "model", describe_model(r), "tokenizer",
                            hex64(qk_tokenizer_fingerprint(r->tokenizer)), "arithmetic",
                            ARITHMETICS[s->arithmetic], "texts", describe_texts(r), "sampler",
                            describe_sampler(r), "stage", STAGES[s->stage], "selection",
                            describe_heads(s), "token_strings", s->token_strings);
    return r->identity ? QK_OK : qk__nomem(err);
}

qk_status qk__identify(qk_recording *r, qk_error *err)
{
    QK_TRY(describe(r, err));
    char *text = qk__json_dumps(r->identity, JSON_SORT_KEYS | JSON_COMPACT);
    if (!text)
        return qk__nomem(err);
    qk__fingerprint_bytes(text, strlen(text), r->fingerprint);
    free(text);
    return QK_OK;
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
