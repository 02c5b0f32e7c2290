/* SPDX-License-Identifier: Apache-2.0 */
/* Reads config.json: finds the text model in it, applies overrides, checks sizes and rules. */
#include "model/model_config.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "model/architectures.h"
#include "model/checkpoint.h"

/* Beyond any model, and small enough that products of two fit 64 bits with room to spare. */
enum {
    MAX_LAYERS = 4096,
    MAX_HEADS = 4096,
    MAX_HEAD_DIM = 1 << 14,
    MAX_WIDTH = 1 << 24,
    MAX_VOCAB = 1 << 28,
    MAX_PARTS = 4, /* one in the other */
};
#define MAX_POSITIONS (INT64_C(1) << 40)

/* Where a model of several parts may keep its text model, in the order of the search. */
static const char *const part_names[] = {"text_config", "language_config", "llm_config",
                                         "decoder_config"};
enum { NUM_PART_NAMES = sizeof part_names / sizeof *part_names };

/* ---- the text model --------------------------------------------------------------------- */

static qk_status unknown_type(const qk__node *object, const char *type, qk_error *err)
{
    char known[300] = "";
    size_t used = 0;
    const char *name;
    for (size_t i = 0; (name = qk__architecture_name(i)) && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "",
                                 name);
    return qk__fail_in(object, "model_type", err, QK_ERR_UNSUPPORTED,
                       "\"%s\" is not among the known architectures: %s; `qkscope-hf` captures "
                       "most others, with transformers",
                       type, known);
}

static qk_status refuse_quantized(const qk__node *object, qk_error *err)
{
    const char *method = "of no name";
    qk__node quantized = qk__node_member(object, "quantization_config");
    if (qk__node_kind_of(&quantized) != QK__OBJECT)
        return QK_OK;
    QK_TRY(qk__read_text(&quantized, "quant_method", &method, err));
    return qk__fail_at(&quantized, err, QK_ERR_UNSUPPORTED,
                       "quantized weights (%s) are not read", method);
}

/* ---- overrides -------------------------------------------------------------------------- */

static qk_status override_one(json_t *text, const char *key, json_t *value,
                              const qk__architecture *architecture, qk_error *err)
{
    bool taken;
    for (int i = 0; i < NUM_PART_NAMES; i++)
        if (strcmp(key, part_names[i]) == 0)
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "%s: keys are those of the text model itself, leave it out", key);
    if (strcmp(key, "model_type") == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "model_type: cannot be replaced");
    QK_TRY(qk__rope_override(text, key, value, architecture, &taken, err));
    if (taken)
        return QK_OK;
    json_t *now = json_object_get(text, key);
    int failed = json_is_object(now) && json_is_object(value)
                     ? json_object_update(now, value)
                     : json_object_set(text, key, value);
    return failed ? qk__nomem(err) : QK_OK;
}

static qk_status apply_overrides(json_t *text, const char *overrides,
                                 const qk__architecture *architecture, qk_error *err)
{
    json_t *object;
    qk_status status =
        qk__json_parse(&object, overrides, strlen(overrides), QK__JSON_GIVEN, err);
    if (status == QK_ERR_MALFORMED || (status == QK_OK && !json_is_object(object)))
        status = qk__fail(err, QK_ERR_ARGUMENT, "expected a JSON object");
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (status == QK_OK)
            status = override_one(text, key, value, architecture, err);
    }
    json_decref(object);
    return status;
}

/* ---- numbers and rules ------------------------------------------------------------------ */

/* Notes that config.json lacks a size. */
static void note_default(qk__model_config *c, const qk__node *text, const char *key,
                         int64_t usual)
{
    size_t used = strlen(c->defaults);
    if (qk__node_kind_in(text, key) == QK__NOTHING)
        snprintf(c->defaults + used, sizeof c->defaults - used, "%s%s %lld",
                 used > 0 ? ", " : "", key, (long long)usual);
}

static qk_status read_size(qk__model_config *c, const qk__node *text, const char *key, int most,
                           int usual, int *value, qk_error *err)
{
    *value = usual;
    if (qk__node_kind_in(text, key) == QK__NULL) /* no default */
        return qk__need(text, key, err);
    note_default(c, text, key, usual);
    return qk__read_int(text, key, 1, most, value, err);
}

static qk_status read_heads(qk__model_config *c, const qk__node *text, qk_error *err)
{
    const qk__architecture *a = c->architecture;
    QK_TRY(
        read_size(c, text, "num_attention_heads", MAX_HEADS, a->q_heads, &c->num_q_heads, err));
    bool said = qk__node_kind_in(text, "num_key_value_heads") != QK__NOTHING;
    c->num_k_heads = said || a->k_heads == 0 ? c->num_q_heads : a->k_heads;
    note_default(c, text, "num_key_value_heads", c->num_k_heads);
    QK_TRY(qk__read_int(text, "num_key_value_heads", 1, MAX_HEADS, &c->num_k_heads, err));
    if (c->num_q_heads % c->num_k_heads != 0)
        return qk__fail_in(text, "num_attention_heads", err, QK_ERR_INCONSISTENT,
                           "%d do not divide among %d key heads", c->num_q_heads,
                           c->num_k_heads);

    c->head_dim = qk__node_kind_in(text, "head_dim") != QK__NOTHING ? 0 : a->head_dim;
    if (!a->head_dim_derived)
        QK_TRY(qk__read_int(text, "head_dim", 1, MAX_HEAD_DIM, &c->head_dim, err));
    if (c->head_dim == 0)
        c->head_dim = c->hidden_size / c->num_q_heads;
    if (!a->head_dim_derived && a->head_dim > 0)
        note_default(c, text, "head_dim", a->head_dim);
    if (c->head_dim < 1 || c->head_dim > MAX_HEAD_DIM)
        return qk__fail_in(text, "head_dim", err, QK_ERR_INCONSISTENT,
                           "a hidden size of %d with %d heads makes no sense", c->hidden_size,
                           c->num_q_heads);
    return QK_OK;
}

static qk_status read_sizes(qk__model_config *c, const qk__node *text, qk_error *err)
{
    const qk__architecture *a = c->architecture;
    QK_TRY(read_size(c, text, "num_hidden_layers", MAX_LAYERS, a->layers, &c->num_layers, err));
    QK_TRY(read_size(c, text, "hidden_size", MAX_WIDTH, a->hidden, &c->hidden_size, err));
    QK_TRY(read_size(c, text, "intermediate_size", MAX_WIDTH, a->intermediate,
                     &c->intermediate_size, err));
    QK_TRY(read_size(c, text, "vocab_size", MAX_VOCAB, a->vocab, &c->vocab_size, err));
    c->max_positions = a->positions;
    note_default(c, text, "max_position_embeddings", a->positions);
    QK_TRY(qk__read_int64(text, "max_position_embeddings", 1, MAX_POSITIONS, &c->max_positions,
                          err));
    return read_heads(c, text, err);
}

static qk_status read_bias(const qk__node *text, qk__bias_rule rule, const char *key,
                           bool usual, bool *bias, qk_error *err)
{
    *bias = rule == QK_BIAS_ALWAYS;
    if (rule != QK_BIAS_IF_SAID)
        return QK_OK;
    *bias = usual && qk__node_kind_in(text, key) == QK__NOTHING; /* null is no */
    return qk__read_bool(text, key, bias, err);
}

static qk_status read_activation(qk__model_config *c, const qk__node *text, qk_error *err)
{
    const qk__architecture *a = c->architecture;
    const char *name = a->activation;
    QK_TRY(qk__read_text(text, a->activation_key, &name, err));
    if (strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0)
        c->activation = QK_SILU;
    else if (strcmp(name, "gelu_pytorch_tanh") == 0)
        c->activation = QK_GELU_TANH;
    else
        return qk__fail_in(text, a->activation_key, err, QK_ERR_UNSUPPORTED,
                           "\"%s\" is not known; silu and gelu_pytorch_tanh are", name);
    return QK_OK;
}

/* Of a model with parts the whole says it. */
static qk_status read_tie(qk__model_config *c, const qk__node *root, qk_error *err)
{
    static const char KEY[] = "tie_word_embeddings";
    bool tied = false, unsaid = qk__node_kind_in(root, KEY) == QK__NOTHING;
    QK_TRY(qk__read_bool(root, KEY, &tied, err));
    c->tie = unsaid ? QK_TIE_UNSAID : tied ? QK_TIE_ALWAYS : QK_TIE_NEVER;
    return QK_OK;
}

static qk_status read_rules(qk__model_config *c, const qk__node *text, qk_error *err)
{
    const qk__architecture *a = c->architecture;
    double eps = a->norm_eps, scale = c->head_dim;
    QK_TRY(qk__read_above_0(text, "rms_norm_eps", &eps, err));
    c->norm = a->norm;
    c->norm_eps = (float)eps;
    c->qk_norm = a->qk_norm;
    c->interleaved_rope = a->interleaved_rope;
    QK_TRY(read_activation(c, text, err));
    QK_TRY(
        read_bias(text, a->qkv_bias, "attention_bias", a->attention_bias, &c->qkv_bias, err));
    QK_TRY(read_bias(text, a->o_bias, "attention_bias", a->attention_bias, &c->o_bias, err));
    QK_TRY(read_bias(text, a->mlp_bias, "mlp_bias", false, &c->mlp_bias, err));
    if (a->score_scale_key) {
        scale = (double)a->score_scale;
        QK_TRY(qk__read_above_0(text, a->score_scale_key, &scale, err));
    }
    c->attention_scale = pow(scale, -0.5);
    if (a->capped_logits)
        QK_TRY(qk__read_real(text, "final_logit_softcapping", 0, FLT_MAX, &c->logit_cap, err));
    c->embedding_scale = a->scaled_embedding ? (float)sqrt(c->hidden_size) : 1;
    return QK_OK;
}

/* ---- layers ----------------------------------------------------------------------------- */

/* Marks sliding layers; *found is false where the file does not say. */
static qk_status read_layer_types(qk__model_config *c, const qk__node *text, bool *found,
                                  qk_error *err)
{
    qk__node types;
    QK_TRY(qk__read_list(text, "layer_types", (size_t)c->num_layers, &types, err));
    *found = qk__node_is_given(&types);
    for (int i = 0; *found && i < c->num_layers; i++) {
        const char *type = "";
        qk__node item = qk__node_item(&types, (size_t)i);
        bool known = qk__read_text(&item, NULL, &type, NULL) == QK_OK;
        c->layers[i].sliding = strcmp(type, "sliding_attention") == 0;
        known &= c->layers[i].sliding || strcmp(type, "full_attention") == 0;
        if (!known)
            return qk__fail_at(&item, err, QK_ERR_UNSUPPORTED,
                               "\"%s\" is not known; full_attention and sliding_attention are",
                               type);
    }
    return QK_OK;
}

static qk_status read_layers(qk__model_config *c, const qk__node *text, qk_error *err)
{
    c->layers = qk__calloc((size_t)c->num_layers, sizeof *c->layers);
    if (!c->layers)
        return qk__nomem(err);
    for (int i = 0; i < c->num_layers; i++)
        c->layers[i] = (qk__layer_config){.attends = true, .rope = QK_ROPE_FULL};
    bool types;
    QK_TRY(read_layer_types(c, text, &types, err));
    return c->architecture->set_layers ? c->architecture->set_layers(c, text, types, err)
                                       : QK_OK;
}

/* ---- all of it -------------------------------------------------------------------------- */

static qk_status read_text(qk__model_config *c, const qk__node *text, const qk__node *root,
                           const char *overrides, qk_error *err)
{
    QK_TRY(refuse_quantized(text, err));
    QK_TRY(qk__rope_normalize(text, c->architecture, err));
    if (overrides)
        QK_TRY(qk__context(
            err, apply_overrides(qk__node_json(text), overrides, c->architecture, err),
            "overrides"));
    QK_TRY(qk__config_check_keys(c, text, root, err));
    QK_TRY(read_sizes(c, text, err));
    QK_TRY(read_rules(c, text, err));
    QK_TRY(read_tie(c, root, err));
    QK_TRY(read_layers(c, text, err));
    return qk__rope_read(c, text, err);
}

static qk_status find_part(const qk__node *object, qk__node *part, qk_error *err)
{
    int i = 0;
    while (i < NUM_PART_NAMES && qk__node_kind_in(object, part_names[i]) != QK__OBJECT)
        i++;
    return qk__need_kind(object, part_names[i % NUM_PART_NAMES], QK__OBJECT, part, err);
}

/* Goes into a part as often as the type is one whose text model is a part of it. */
static qk_status read_root(qk__model_config *c, const qk__node *root, const char *overrides,
                           qk_error *err)
{
    const char *type = NULL, *usual;
    qk__node parts[MAX_PARTS + 1] = {*root};
    QK_TRY(qk__need_kind(root, NULL, QK__OBJECT, &parts[0], err));
    QK_TRY(refuse_quantized(root, err));
    for (int i = 0; i < MAX_PARTS; i++) {
        QK_TRY(qk__read_text(&parts[i], "model_type", &type, err));
        if (!type)
            return qk__need(&parts[i], "model_type", err);
        c->architecture = qk__architecture_find(type);
        bool listed = i == 0 && qk__node_kind_in(root, "layer_types") != QK__NOTHING;
        if (c->architecture && c->architecture->with_layer_types && listed)
            c->architecture = qk__architecture_find(c->architecture->with_layer_types);
        if (c->architecture)
            return read_text(c, &parts[i], &parts[0], overrides, err);
        usual = qk__architecture_part(type);
        if (!usual)
            return unknown_type(&parts[i], type, err);
        QK_TRY(find_part(&parts[i], &parts[i + 1], err));
        type = usual;
    }
    return qk__fail_at(&parts[MAX_PARTS], err, QK_ERR_MALFORMED, "nested too deep");
}

qk_status qk__model_config_build(qk__model_config *config, json_t *root, const char *overrides,
                                 qk_error *err)
{
    *config = (qk__model_config){0};
    const qk__node node = qk__tree_of_json(root);
    qk_status status = read_root(config, &node, overrides, err);
    if (status != QK_OK)
        qk__model_config_free(config);
    return status;
}

qk_status qk__model_config_parse(qk__model_config *config, const char *text, size_t size,
                                 const char *overrides, qk_error *err)
{
    *config = (qk__model_config){0};
    json_t *root;
    QK_TRY(qk__json_parse(&root, text, size, QK__JSON_CONFIG, err));
    qk_status status = qk__model_config_build(config, root, overrides, err);
    json_decref(root);
    return status;
}

qk_status qk__model_config_read(qk__model_config *config, const char *folder,
                                const char *overrides, uint64_t *hash, qk_error *err)
{
    *config = (qk__model_config){0};
    qk__path path;
    QK_TRY(qk__path_in(&path, folder, "config.json", err));
    qk__buffer text = {0};
    qk_status status =
        qk__folder_lacks(folder, path.text)
            ? qk__refuse_folder(folder, "config.json", err)
            : qk__read_file(path.text, qk__json_limits_of(QK__JSON_CONFIG)->text, &text, err);
    if (status == QK_OK) {
        status =
            qk__model_config_parse(config, (const char *)text.data, text.size, overrides, err);
        *hash = XXH3_64bits(text.data, text.size);
        if (overrides)
            *hash = XXH3_64bits_withSeed(overrides, strlen(overrides), *hash);
        qk__context(err, status, "%s", path.text);
    }
    qk__buffer_free(&text);
    return status;
}

void qk__model_config_free(qk__model_config *config)
{
    for (int i = 0; i < QK_NUM_ROPES; i++) {
        free(config->rope[i].short_factor);
        free(config->rope[i].long_factor);
    }
    free(config->layers);
    *config = (qk__model_config){0};
}
