/* SPDX-License-Identifier: Apache-2.0 */
/* What decides the bytes of a capture: model, tokenizer, texts and settings, as JSON that can be compared key by key.
 * Threads have no place here. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/common.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_build.h"
#include "recorder/recording.h"
#include "settings/settings_json.h"
#include "tokenizer/tokenizer.h"

/* A JSON string. */
static json_t *hex64(uint64_t value)
{
    return json_sprintf("%016" PRIx64, value);
}

/* ---- settings --------------------------------------------------------------------------- */

static json_t *describe_model(const qk__recording *r)
{
    return json_pack("{s:o, s:s, s:o, s:s, s:o}", "name", qk__json_text(r->model_name),
                     "architecture", r->facts->architecture, "fingerprint",
                     hex64(r->facts->fingerprint), "dtype", r->facts->dtype, "overrides",
                     r->settings->overrides ? qk__json_text(r->settings->overrides)
                                            : json_null());
}

/* The settings, with the choices for those that were left open. */
static json_t *describe_settings(const qk__recording *r, json_t *root)
{
    qk_recorder_settings s = *r->settings;
    s.max_length = r->max_length;
    s.sampler = r->sampler;
    s.sampler.min_bucket_size = qk_sampler_bucket_size(&r->sampler);
    if (s.sampler.max_rows < 0)
        s.sampler.max_rows = 0;
    root = qk__json_settings(root, &qk_recorder_settings_table, &s);
    if (s.sample_heads == 0)
        root = qk__json_at(root, "selection.sampling", json_null());
    if (!r->chosen)
        return root;
    root = qk__json_at(root, "sampler.rows", json_integer(s.rows));
    return qk__json_at(root, "sampler.expected_rows", json_real(r->expected_rows));
}

static json_t *describe_run(const qk__recording *r)
{
    const qk_recorder_engine *engine = r->settings->engine;
    uint64_t tokenizer = engine         ? engine->tokenizer
                         : r->tokenizer ? qk__tokenizer_fingerprint(r->tokenizer)
                                        : 0;
    json_t *root = json_pack("{s:s, s:o, s:o, s:{s:I, s:s}}", "tool", "qkscope " QK_VERSION,
                             "model", describe_model(r), "tokenizer", hex64(tokenizer), "texts",
                             "count", (json_int_t)r->counts.texts, "xxh3_128", r->texts_hash);
    return describe_settings(r, root);
}

/* What else decides the numbers of an engine, in place of the arithmetic of this library. */
static qk_status add_engine(const qk__recording *r, json_t *root, qk_error *err)
{
    const qk_recorder_engine *engine = r->settings->engine;
    json_t *identity;
    if (!engine || !root)
        return QK_OK;
    QK_TRY(qk__context(err,
                       qk__json_parse(&identity, engine->identity, strlen(engine->identity),
                                      QK__JSON_GIVEN, err),
                       "identity"));
    json_object_del(root, "arithmetic");
    return json_object_set_new(root, "engine", identity) == 0 ? QK_OK : qk__nomem(err);
}

qk_status qk__identify(const qk__recording *r, char **json, qk_error *err)
{
    json_t *root = describe_run(r);
    *json = NULL;
    qk_status status = add_engine(r, root, err);
    if (status != QK_OK) {
        json_decref(root);
        return status;
    }
    *json = qk__json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(root);
    return *json ? QK_OK : qk__nomem(err);
}
