/* SPDX-License-Identifier: Apache-2.0 */
/* From the metadata of a GGUF file to config.json. */
#include "model/gguf.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/tree.h"

enum { KEY_SIZE = 100 };
#define MOST (INT64_C(1) << 40)

/* ---- architectures ---------------------------------------------------------------------- */

typedef struct architecture {
    const char *name, *model_type;
    bool paired;
} architecture;

/* Mistral's models, but for the newest, call themselves llama. */
static const architecture ARCHITECTURES[] = {
    {"llama", "llama", true},  {"mistral3", "ministral3", true}, {"qwen2", "qwen2", false},
    {"qwen3", "qwen3", false}, {"smollm3", "smollm3", true},     {"chatglm", "glm", false},
    {"glm4", "glm4", false},   {"gemma3", "gemma3_text", false},
};
enum { NUM_ARCHITECTURES = sizeof ARCHITECTURES / sizeof *ARCHITECTURES };

static const architecture *find_architecture(const char *name)
{
    for (int i = 0; i < NUM_ARCHITECTURES; i++)
        if (strcmp(ARCHITECTURES[i].name, name) == 0)
            return &ARCHITECTURES[i];
    return NULL;
}

static qk_status unknown_architecture(const char *name, qk_error *err)
{
    char known[200] = "";
    size_t used = 0;
    for (int i = 0; i < NUM_ARCHITECTURES; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "",
                                 ARCHITECTURES[i].name);
    return qk__fail(
        err, QK_ERR_UNSUPPORTED,
        "general.architecture: \"%.60s\" is not among the known ones: %s; "
        "`qkscope-hf` captures most others, with transformers, from their checkpoints",
        name, known);
}

/* ---- keys of an architecture ------------------------------------------------------------ */

typedef struct source {
    qk__node metadata;
    const qk__checkpoint *checkpoint;
    const architecture *architecture;
    json_t *config;
    char key[KEY_SIZE]; /* the last that was asked for */
} source;

/* The key with the name of the architecture in front. */
static const char *full_key(source *s, const char *key)
{
    snprintf(s->key, sizeof s->key, "%s.%s", s->architecture->name, key);
    return s->key;
}

/* Takes value, which is NULL where memory has run out. */
static qk_status put_member(json_t *object, const char *key, json_t *value, qk_error *err)
{
    return json_object_set_new(object, key, value) == 0 ? QK_OK : qk__nomem(err);
}

static qk_status set_int(source *s, const char *key, int64_t value, qk_error *err)
{
    return put_member(s->config, key, json_integer(value), err);
}

static qk_status missing(const source *s, qk_error *err)
{
    return qk__fail(err, QK_ERR_MALFORMED, "%s: missing", s->key);
}

/* A whole number from 1 on, which config.json calls `name`. */
static qk_status take_int(source *s, const char *key, const char *name, int64_t *value,
                          qk_error *err)
{
    QK_TRY(qk__need(&s->metadata, full_key(s, key), err));
    QK_TRY(qk__read_int64(&s->metadata, s->key, 1, MOST, value, err));
    return set_int(s, name, *value, err);
}

/* One that may be absent, which 0 stands for, too: *value stays what it is then. */
static qk_status get_int(source *s, const char *key, int64_t *value, qk_error *err)
{
    int64_t found = 0;
    QK_TRY(qk__read_int64(&s->metadata, full_key(s, key), 0, MOST, &found, err));
    *value = found > 0 ? found : *value;
    return QK_OK;
}

static qk_status get_real(source *s, const char *key, double *value, qk_error *err)
{
    double found = 0;
    if (qk__node_kind_in(&s->metadata, full_key(s, key)) == QK__NULL)
        return qk__fail(err, QK_ERR_MALFORMED, "%s: not a finite number", s->key);
    QK_TRY(qk__read_real(&s->metadata, s->key, 0, DBL_MAX, &found, err));
    *value = found > 0 ? found : *value;
    return QK_OK;
}

/* ---- sizes ------------------------------------------------------------------------------ */

typedef struct sizes {
    int64_t layers, hidden, heads, head_dim, positions;
} sizes;

static qk_status read_heads(source *s, sizes *z, qk_error *err)
{
    QK_TRY(take_int(s, "attention.head_count", "num_attention_heads", &z->heads, err));
    int64_t k_heads = z->heads;
    QK_TRY(get_int(s, "attention.head_count_kv", &k_heads, err));
    z->head_dim = z->hidden / z->heads;
    QK_TRY(get_int(s, "attention.key_length", &z->head_dim, err));
    int64_t value_length = z->head_dim;
    QK_TRY(get_int(s, "attention.value_length", &value_length, err));
    if (value_length != z->head_dim)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "%s: values of %lld and keys of %lld dimensions; they must be equal",
                        s->key, (long long)value_length, (long long)z->head_dim);
    QK_TRY(set_int(s, "num_key_value_heads", k_heads, err));
    return set_int(s, "head_dim", z->head_dim, err);
}

static qk_status read_sizes(source *s, sizes *z, qk_error *err)
{
    int64_t wide = 0;
    QK_TRY(take_int(s, "block_count", "num_hidden_layers", &z->layers, err));
    QK_TRY(take_int(s, "embedding_length", "hidden_size", &z->hidden, err));
    QK_TRY(take_int(s, "feed_forward_length", "intermediate_size", &wide, err));
    QK_TRY(take_int(s, "context_length", "max_position_embeddings", &z->positions, err));
    QK_TRY(read_heads(s, z, err));
    int64_t vocabulary = qk__checkpoint_rows(s->checkpoint, "token_embd.weight");
    if (vocabulary == 0)
        return qk__fail(err, QK_ERR_NOT_FOUND, "the weights have no tensor token_embd.weight");
    return set_int(s, "vocab_size", vocabulary, err);
}

/* ---- rotation --------------------------------------------------------------------------- */

/* A list of positive numbers from a tensor of as many as there are pairs; NULL: no such
 * tensor. */
static qk_status read_factors(source *s, const char *name, int64_t pairs, json_t **list,
                              qk_error *err)
{
    qk__tensor tensor;
    *list = NULL;
    if (!qk__checkpoint_has(s->checkpoint, name))
        return QK_OK;
    QK_TRY(qk__checkpoint_get(s->checkpoint, name, 1, pairs, &tensor, err));
    *list = json_array();
    qk_status status = *list ? QK_OK : qk__nomem(err);
    for (int64_t i = 0; i < pairs && status == QK_OK; i++) {
        qk__tensor one = qk__tensor_slice(&tensor, i, 1);
        float value, in = *qk__tensor_rows(&one, 0, 1, &value);
        if (!(in > 0) || !isfinite(in))
            status =
                qk__fail(err, QK_ERR_MALFORMED, "tensor %s: expected numbers above 0", name);
        else if (json_array_append_new(*list, json_real((double)in)) != 0)
            status = qk__nomem(err);
    }
    if (status != QK_OK)
        json_decref(*list);
    return status;
}

/* A key's number under another name, if it is there. */
static qk_status copy_real(source *s, const char *key, json_t *rope, const char *name,
                           qk_error *err)
{
    double value = 0;
    QK_TRY(get_real(s, key, &value, err));
    return value > 0 ? put_member(rope, name, json_real(value), err) : QK_OK;
}

static qk_status read_yarn(source *s, json_t *rope, qk_error *err)
{
    double multiplier = 0, mix = 1; /* below 0: the usual one */
    QK_TRY(qk__read_real(&s->metadata, full_key(s, "rope.scaling.yarn_ext_factor"), -DBL_MAX,
                         DBL_MAX, &mix, err));
    if (mix >= 0 && mix != 1)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "%s: %g; only 1 is known", s->key, mix);
    QK_TRY(copy_real(s, "rope.scaling.yarn_beta_fast", rope, "beta_fast", err));
    QK_TRY(copy_real(s, "rope.scaling.yarn_beta_slow", rope, "beta_slow", err));
    QK_TRY(copy_real(s, "rope.scaling.yarn_attn_factor", rope, "attention_factor", err));
    QK_TRY(get_real(s, "rope.scaling.yarn_log_multiplier", &multiplier, err));
    if (multiplier > 0) { /* the format has no place for the other one, and takes it as 1 */
        QK_TRY(put_member(rope, "mscale", json_real(1), err));
        QK_TRY(put_member(rope, "mscale_all_dim", json_real(multiplier), err));
    }
    return QK_OK;
}

static qk_status read_longrope(source *s, json_t *rope, int64_t pairs, qk_error *err)
{
    static const char *const TENSORS[] = {"rope_factors_short.weight",
                                          "rope_factors_long.weight"};
    static const char *const KEYS[] = {"short_factor", "long_factor"};
    for (int i = 0; i < 2; i++) {
        json_t *list;
        QK_TRY(read_factors(s, TENSORS[i], pairs, &list, err));
        if (!list)
            return qk__fail(err, QK_ERR_NOT_FOUND, "the weights have no tensor %s", TENSORS[i]);
        QK_TRY(put_member(rope, KEYS[i], list, err));
    }
    return copy_real(s, "rope.scaling.attn_factor", rope, "attention_factor", err);
}

/* "none", "linear", "yarn" or "longrope"; a factor alone means linear. */
static qk_status read_scaling_type(source *s, const char **type, double *factor, qk_error *err)
{
    *factor = 0;
    QK_TRY(get_real(s, "rope.scale_linear", factor, err)); /* its name in old files */
    QK_TRY(get_real(s, "rope.scaling.factor", factor, err));
    *type = *factor > 0 && *factor != 1 ? "linear" : "none";
    return qk__read_text(&s->metadata, full_key(s, "rope.scaling.type"), type, err);
}

/* Llama 3's scaling comes as numbers by which frequencies are divided. */
static qk_status read_scaling(source *s, json_t *rope, int64_t pairs, qk_error *err)
{
    const char *type;
    double factor, amplitude = 1;
    json_t *divisors;
    int64_t original = 0;
    QK_TRY(read_scaling_type(s, &type, &factor, err));
    bool none = strcmp(type, "none") == 0;
    if (!none && strcmp(type, "linear") != 0 && strcmp(type, "yarn") != 0 &&
        strcmp(type, "longrope") != 0)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "%s: \"%.60s\" is not known; none, linear, yarn and longrope are",
                        s->key, type);
    QK_TRY(get_real(s, "rope.scaling.attn_factor", &amplitude, err));
    if (amplitude != 1 && strcmp(type, "longrope") != 0)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "%s: %g; only 1 is known but for longrope",
                        s->key, amplitude);
    QK_TRY(read_factors(s, "rope_freqs.weight", pairs, &divisors, err));
    if (divisors) {
        QK_TRY(put_member(rope, "frequency_divisors", divisors, err));
        if (!none)
            return qk__fail(err, QK_ERR_UNSUPPORTED,
                            "rope.scaling.type %s, and a tensor rope_freqs.weight", type);
        return put_member(rope, "rope_type", json_string("llama3"), err);
    }
    if (none)
        return QK_OK;
    QK_TRY(put_member(rope, "rope_type", json_string(type), err));
    if (factor > 0)
        QK_TRY(put_member(rope, "factor", json_real(factor), err));
    else if (strcmp(type, "linear") == 0) {
        full_key(s, "rope.scaling.factor");
        return missing(s, err);
    }
    QK_TRY(get_int(s, "rope.scaling.original_context_length", &original, err));
    if (original > 0)
        QK_TRY(
            put_member(rope, "original_max_position_embeddings", json_integer(original), err));
    if (strcmp(type, "yarn") == 0)
        return read_yarn(s, rope, err);
    return strcmp(type, "longrope") == 0 ? read_longrope(s, rope, pairs, err) : QK_OK;
}

/* Base, scaling, and the share of a head that is rotated. */
static qk_status fill_rope(source *s, const sizes *z, json_t *rope, qk_error *err)
{
    double theta = 10000;
    int64_t width = z->head_dim;
    QK_TRY(get_real(s, "rope.freq_base", &theta, err));
    QK_TRY(get_int(s, "rope.dimension_count", &width, err));
    if (width > z->head_dim || width % 2 != 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: %lld of %lld dimensions cannot be rotated", s->key,
                        (long long)width, (long long)z->head_dim);
    QK_TRY(put_member(rope, "rope_theta", json_real(theta), err));
    QK_TRY(put_member(rope, "partial_rotary_factor",
                      json_real((double)width / (double)z->head_dim), err));
    return read_scaling(s, rope, width / 2, err);
}

/* Layers with a window rotate by frequencies of their own, without scaling. */
static qk_status split_rope(source *s, json_t *rope, qk_error *err)
{
    double theta = 10000;
    QK_TRY(get_real(s, "rope.freq_base_swa", &theta, err));
    json_t *both = json_pack("{s:O, s:{s:f}}", "full_attention", rope, "sliding_attention",
                             "rope_theta", theta);
    return both ? put_member(s->config, "rope_parameters", both, err) : qk__nomem(err);
}

static qk_status read_rope(source *s, const sizes *z, qk_error *err)
{
    json_t *rope = json_object();
    qk_status status = rope ? fill_rope(s, z, rope, err) : qk__nomem(err);
    if (status == QK_OK)
        status = strcmp(s->architecture->name, "gemma3") == 0
                     ? split_rope(s, rope, err)
                     : put_member(s->config, "rope_parameters", json_incref(rope), err);
    json_decref(rope);
    return status;
}

/* ---- what architectures have of their own ----------------------------------------------- */

/* The file has a window, and its readers know that each sixth layer is without. */
static qk_status read_gemma(source *s, const sizes *z, qk_error *err)
{
    int64_t window = 0, pattern = 6;
    QK_TRY(get_int(s, "attention.sliding_window", &window, err));
    QK_TRY(get_int(s, "attention.sliding_window_pattern", &pattern, err));
    if (window > 0)
        QK_TRY(set_int(s, "sliding_window", window, err));
    QK_TRY(set_int(s, "sliding_window_pattern", window > 0 ? pattern : 1, err));
    QK_TRY(copy_real(s, "final_logit_softcapping", s->config, "final_logit_softcapping", err));
    /* That of 27 billion parameters is told by its layers, as the format's own reader does. */
    return set_int(s, "query_pre_attn_scalar",
                   z->layers == 62 ? z->hidden / z->heads : z->head_dim, err);
}

static qk_status read_ministral(source *s, qk_error *err)
{
    double beta = 0;
    json_t *rope = json_object_get(s->config, "rope_parameters");
    QK_TRY(put_member(s->config, "sliding_window", json_null(), err));
    QK_TRY(get_real(s, "attention.temperature_scale", &beta, err));
    if (beta == 0)
        return put_member(s->config, "model_type", json_string("mistral"), err);
    if (!json_object_get(rope, "original_max_position_embeddings")) {
        full_key(s, "rope.scaling.original_context_length");
        return missing(s, err);
    }
    return put_member(rope, "llama_4_scaling_beta", json_real(beta), err);
}

/* Other files with a window: Mistral's is for all layers. Of Qwen's files it is not known which
 * layers have it; one that no text fills makes no difference. */
static qk_status read_window(source *s, const sizes *z, qk_error *err)
{
    int64_t window = 0;
    QK_TRY(get_int(s, "attention.sliding_window", &window, err));
    if (window == 0 || window >= z->positions)
        return QK_OK;
    if (strcmp(s->architecture->name, "llama") != 0)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "%s: the file does not say which layers have the window", s->key);
    QK_TRY(put_member(s->config, "model_type", json_string("mistral"), err));
    return set_int(s, "sliding_window", window, err);
}

/* Biases are there or not; nothing else tells. */
static qk_status read_biases(source *s, qk_error *err)
{
    bool attention = qk__checkpoint_has(s->checkpoint, "blk.0.attn_q.bias") ||
                     qk__checkpoint_has(s->checkpoint, "blk.0.attn_qkv.bias");
    bool mlp = qk__checkpoint_has(s->checkpoint, "blk.0.ffn_down.bias");
    QK_TRY(put_member(s->config, "attention_bias", json_boolean(attention), err));
    return put_member(s->config, "mlp_bias", json_boolean(mlp), err);
}

/* ---- all of it -------------------------------------------------------------------------- */

static qk_status fill_config(source *s, qk_error *err)
{
    sizes z;
    double eps = 0;
    bool causal = true;
    QK_TRY(put_member(s->config, "model_type", json_string(s->architecture->model_type), err));
    QK_TRY(qk__gguf_check_keys(qk__node_json(&s->metadata), s->architecture->name, s->config,
                               err));
    QK_TRY(qk__read_bool(&s->metadata, full_key(s, "attention.causal"), &causal, err));
    if (!causal)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "%s: only causal attention is known", s->key);
    QK_TRY(read_sizes(s, &z, err));
    QK_TRY(get_real(s, "attention.layer_norm_rms_epsilon", &eps, err));
    if (eps == 0)
        return missing(s, err);
    QK_TRY(put_member(s->config, "rms_norm_eps", json_real(eps), err));
    QK_TRY(read_biases(s, err));
    QK_TRY(read_rope(s, &z, err));
    if (strcmp(s->architecture->name, "gemma3") == 0)
        return read_gemma(s, &z, err);
    if (strcmp(s->architecture->name, "mistral3") == 0)
        return read_ministral(s, err);
    return read_window(s, &z, err);
}

qk_status qk__gguf_config(qk__gguf_model *model, const json_t *metadata,
                          const qk__checkpoint *checkpoint, qk_error *err)
{
    const char *name, *type = "model";
    source s = {.metadata = qk__tree_of_json(metadata), .checkpoint = checkpoint};
    QK_TRY(qk__need_text(&s.metadata, "general.architecture", &name, err));
    QK_TRY(qk__read_text(&s.metadata, "general.type", &type, err));
    if (strcmp(type, "model") != 0)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "general.type: \"%.60s\" is no model", type);
    s.architecture = find_architecture(name);
    if (!s.architecture)
        return unknown_architecture(name, err);
    s.config = json_object();
    qk_status status = s.config ? fill_config(&s, err) : qk__nomem(err);
    *model = (qk__gguf_model){s.config, s.architecture->paired};
    if (status != QK_OK) {
        json_decref(s.config);
        model->config = NULL;
    }
    return status;
}
