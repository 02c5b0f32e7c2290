/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture of a model says about itself: keys for capture.json. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_build.h"
#include "recorder/recording.h"

/* What RoPE multiplies vectors by; 0: not known, or not the same in all layers. */
static double find_factor(const qk_model_facts *facts)
{
    double factor = 0;
    for (int i = 0; i < facts->num_layers; i++) {
        const qk_layer_facts *layer = &facts->layers[i];
        if (layer->rope && factor > 0 && layer->attention_factor != factor)
            return 0;
        if (layer->rope)
            factor = layer->attention_factor;
    }
    return factor;
}

static json_t *describe_rope(const qk_model_facts *facts)
{
    const double factor = find_factor(facts);
    json_t *rope = json_pack(
        "{s:s, s:f, s:s}", "type", facts->rope_type ? facts->rope_type : "none", "theta",
        facts->rope_theta, "pairing", facts->rope_interleaved ? "interleaved" : "half");
    if (facts->rope_theta_sliding > 0)
        rope = qk__json_set(rope, "theta_sliding", json_real(facts->rope_theta_sliding));
    if (factor > 0 && factor != 1)
        rope = qk__json_set(rope, "attention_factor", json_real(factor));
    return rope;
}

/* ---- capture.json ----------------------------------------------------------------------- */

static json_t *warn(json_t *list, int64_t count, const char *one, const char *many)
{
    if (count == 0)
        return list;
    return qk__json_append(list, count == 1
                                     ? json_sprintf("1 text %s", one)
                                     : json_sprintf("%" PRId64 " texts %s", count, many));
}

static json_t *list_warnings(const qk__recording *r)
{
    json_t *list = json_array();
    list = warn(list, r->counts.cut, "was longer than max_length and was cut",
                "were longer than max_length and were cut");
    list = warn(list, r->counts.skipped, "was longer than max_length and was passed over",
                "were longer than max_length and were passed over");
    list = warn(list, r->counts.empty, "had no tokens and was passed over",
                "had no tokens and were passed over");
    list = warn(list, r->counts.doubled,
                "has the special token that the tokenizer adds of its own, and so twice",
                "have the special token that the tokenizer adds of their own, and so twice");
    if (r->max_length > r->facts->max_positions)
        list = qk__json_append(list, json_sprintf("max_length %" PRId64
                                                  " is above the model's %" PRId64 " positions",
                                                  r->max_length, r->facts->max_positions));
    if (r->facts->notice)
        list = qk__json_append(list, json_string(r->facts->notice));
    return list;
}

/* Under the names of the original, which counts the drawn heads. */
static json_t *describe_draw(const qk__recording *r)
{
    const qk_recorder_settings *s = r->settings;
    const qk_recorder_selection *sel = r->selection;
    if (s->sample_heads == 0)
        return json_null();
    return json_pack("{s:s, s:I, s:i, s:I, s:I, s:I, s:i, s:i, s:i, s:b, s:b, s:i}", "strategy",
                     "random_query", "seed", (json_int_t)s->head_seed, "requested_query_heads",
                     s->sample_heads, "selected_query_heads", (json_int_t)sel->drawn_q,
                     "selected_key_heads", (json_int_t)sel->drawn_k, "candidates",
                     (json_int_t)sel->candidates, "num_layers", sel->num_layers,
                     "num_query_heads", sel->num_q_heads, "num_key_heads", sel->num_k_heads,
                     "full_attention_only", s->full_attention_only, "compat", s->compat,
                     "sliding_layer_count", sel->sliding_layers);
}

static json_t *describe_model(const qk__recording *r)
{
    const qk__survey_counts *c = &r->counts;
    json_t *root = json_pack(
        "{s:o, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}, s:o}", "rope",
        describe_rope(r->facts), "head_sampling", describe_draw(r), "texts", "count",
        (json_int_t)c->texts, "windows", (json_int_t)c->windows, "tokens",
        (json_int_t)c->tokens, "split", (json_int_t)c->split, "truncated", (json_int_t)c->cut,
        "skipped", (json_int_t)c->skipped, "empty", (json_int_t)c->empty, "positions_of",
        r->settings->long_texts == QK_LONG_SPLIT ? "window" : "text", "warnings",
        list_warnings(r));
    if (r->facts->attention_scale > 0)
        root = qk__json_set(root, "attention_scale", json_real(r->facts->attention_scale));
    return root;
}

qk_status qk__describe_capture(const qk__recording *r, char **json, char **card, qk_error *err)
{
    qk__buffer text = {0};
    const qk_recorder_engine *engine = r->settings->engine;
    json_t *root = describe_model(r), *theirs = NULL;
    *json = *card = NULL;
    if (engine && engine->describe) {
        qk_status parsed =
            qk__context(err,
                        qk__json_parse(&theirs, engine->describe, strlen(engine->describe),
                                       QK__JSON_GIVEN, err),
                        "describe");
        if (parsed != QK_OK || json_object_update_recursive(root, theirs) != 0) {
            json_decref(root);
            json_decref(theirs);
            return parsed != QK_OK ? parsed : qk__nomem(err);
        }
        json_decref(theirs);
    }
    *json = qk__json_dumps(root, JSON_REAL_PRECISION(17));
    json_decref(root);
    qk_status status = *json ? qk__write_card(r, &text, err) : qk__nomem(err);
    if (status == QK_OK) {
        *card = (char *)text.data;
        return QK_OK;
    }
    free(*json);
    *json = NULL;
    qk__buffer_free(&text);
    return status;
}
