/* SPDX-License-Identifier: Apache-2.0 */
/* Reading config.json: finding the text model in it, overrides, sizes, rules. */
#include "model/model_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "model/architectures.h"
#include "model/other_forms.h"
#include "model/rope_config.h"

/* Beyond any model, and small enough that products of two fit 64 bits with room to spare. */
enum {
    MAX_CONFIG_BYTES = 16 << 20,
    MAX_LAYERS = 4096,
    MAX_HEADS = 4096,
    MAX_HEAD_DIM = 1 << 14,
    MAX_WIDTH = 1 << 24,
    MAX_VOCAB = 1 << 28,
};
#define MAX_POSITIONS (INT64_C(1) << 40)
enum { PATH_SIZE = 100 };

/* Where a model of several parts may keep its text model, in the order of the search. */
static const char *const part_names[] = {"text_config", "language_config", "llm_config",
                                         "decoder_config"};
enum { NUM_PART_NAMES = sizeof part_names / sizeof *part_names };

/* ---- the text model --------------------------------------------------------------------- */

static qk_status unknown_type(const char *path, const char *type, qk_error *err)
{
    char known[300] = "";
    size_t used = 0;
    for (const char *const *name = qk__architecture_names(); *name; name++)
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                     used > 0 ? ", " : "", *name);
    return qk__fail(err, QK_ERR_UNSUPPORTED,
                    "%smodel_type: \"%s\" is not among the known architectures: %s", path, type,
                    known);
}

/* Goes into a part as often as the type is one whose text model is a part of it. The file has
 * an end, so this does. */
static qk_status find_text(json_t *root, json_t **text, char path[PATH_SIZE],
                           const qk__architecture **architecture, qk_error *err)
{
    const char *type = NULL;
    size_t used = 0;
    path[0] = 0;
    for (json_t *object = root;;) {
        qk__json_fields fields = {object, path};
        QK_TRY(qk__json_field_text(&fields, "model_type", &type, err));
        if (!type)
            return qk__fail(err, QK_ERR_MALFORMED, "%smodel_type: missing", path);
        *architecture = qk__architecture_find(type);
        *text = object;
        if (*architecture)
            return QK_OK;
        type = qk__architecture_part(type);
        if (!type)
            return unknown_type(path, json_string_value(qk__json_field(&fields, "model_type")),
                                err);
        const char *name = NULL;
        for (int i = 0; i < NUM_PART_NAMES && !name; i++)
            if (json_is_object(json_object_get(object, part_names[i])))
                name = part_names[i];
        if (!name)
            return qk__fail(err, QK_ERR_MALFORMED, "%stext_config: missing", path);
        object = json_object_get(object, name);
        if (used + strlen(name) + 2 > PATH_SIZE)
            return qk__fail(err, QK_ERR_MALFORMED, "text_config: nested too deep");
        used += (size_t)snprintf(path + used, PATH_SIZE - used, "%s.", name);
    }
}

static qk_status refuse_quantized(const json_t *object, const char *path, qk_error *err)
{
    const json_t *quantized = json_object_get(object, "quantization_config");
    if (!json_is_object(quantized))
        return QK_OK;
    const char *method = json_string_value(json_object_get(quantized, "quant_method"));
    return qk__fail(err, QK_ERR_UNSUPPORTED,
                    "%squantization_config: quantized weights (%s) are not read", path,
                    method ? method : "of no name");
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
        qk__json_parse(&object, overrides, strlen(overrides), QK__JSON_NO_ZEROS, err);
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

static qk_status read_size(const qk__json_fields *text, const char *key, int most, int usual,
                           int *value, qk_error *err)
{
    int64_t number = usual;
    if (qk__json_field_present(text, key) && !qk__json_field(text, key))
        return qk__fail(err, QK_ERR_MALFORMED, "%s%s: expected a whole number", text->path,
                        key);
    QK_TRY(qk__json_field_int(text, key, 1, most, &number, err));
    *value = (int)number;
    return QK_OK;
}

static qk_status read_heads(qk__model_config *c, const qk__json_fields *text, qk_error *err)
{
    const qk__architecture *a = c->architecture;
    QK_TRY(read_size(text, "num_attention_heads", MAX_HEADS, a->q_heads, &c->num_q_heads, err));
    bool said = qk__json_field_present(text, "num_key_value_heads");
    int64_t heads = said || a->k_heads == 0 ? c->num_q_heads : a->k_heads;
    QK_TRY(qk__json_field_int(text, "num_key_value_heads", 1, MAX_HEADS, &heads, err));
    c->num_k_heads = (int)heads;
    if (c->num_q_heads % c->num_k_heads != 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%snum_attention_heads: %d do not divide among %d key heads",
                        text->path, c->num_q_heads, c->num_k_heads);

    int64_t dim = qk__json_field_present(text, "head_dim") ? 0 : a->head_dim;
    if (!a->head_dim_derived)
        QK_TRY(qk__json_field_int(text, "head_dim", 1, MAX_HEAD_DIM, &dim, err));
    c->head_dim = dim > 0 ? (int)dim : c->hidden_size / c->num_q_heads;
    if (c->head_dim < 1 || c->head_dim > MAX_HEAD_DIM)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%shead_dim: a hidden size of %d with %d heads makes no sense",
                        text->path, c->hidden_size, c->num_q_heads);
    return QK_OK;
}

static qk_status read_sizes(qk__model_config *c, const qk__json_fields *text, qk_error *err)
{
    const qk__architecture *a = c->architecture;
    QK_TRY(read_size(text, "num_hidden_layers", MAX_LAYERS, a->layers, &c->num_layers, err));
    QK_TRY(read_size(text, "hidden_size", MAX_WIDTH, a->hidden, &c->hidden_size, err));
    QK_TRY(read_size(text, "intermediate_size", MAX_WIDTH, a->intermediate,
                     &c->intermediate_size, err));
    QK_TRY(read_size(text, "vocab_size", MAX_VOCAB, a->vocab, &c->vocab_size, err));
    c->max_positions = a->positions;
    QK_TRY(qk__json_field_int(text, "max_position_embeddings", 1, MAX_POSITIONS,
                              &c->max_positions, err));
    return read_heads(c, text, err);
}

static qk_status read_bias(const qk__json_fields *text, qk__bias_rule rule, const char *key,
                           bool usual, bool *bias, qk_error *err)
{
    *bias = rule == QK_BIAS_ALWAYS;
    if (rule != QK_BIAS_IF_SAID)
        return QK_OK;
    *bias = usual && !qk__json_field_present(text, key); /* null is no */
    return qk__json_field_bool(text, key, bias, err);
}

static qk_status read_activation(qk__model_config *c, const qk__json_fields *text,
                                 qk_error *err)
{
    const qk__architecture *a = c->architecture;
    const char *name = a->activation;
    QK_TRY(qk__json_field_text(text, a->activation_key, &name, err));
    if (strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0)
        c->activation = QK_SILU;
    else if (strcmp(name, "gelu_pytorch_tanh") == 0)
        c->activation = QK_GELU_TANH;
    else
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "%s%s: \"%s\" is not known; silu and gelu_pytorch_tanh are", text->path,
                        a->activation_key, name);
    return QK_OK;
}

static qk_status read_rules(qk__model_config *c, const qk__json_fields *text, qk_error *err)
{
    const qk__architecture *a = c->architecture;
    double eps = a->norm_eps, scale = c->head_dim;
    QK_TRY(qk__json_field_positive(text, "rms_norm_eps", &eps, err));
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
        QK_TRY(qk__json_field_positive(text, a->score_scale_key, &scale, err));
    }
    c->attention_scale = (float)pow(scale, -0.5);
    c->embedding_scale = a->scaled_embedding ? (float)sqrt(c->hidden_size) : 1;
    return QK_OK;
}

/* ---- layers ----------------------------------------------------------------------------- */

/* Marks sliding layers; *found is false where the file does not say. */
static qk_status read_layer_types(qk__model_config *c, const qk__json_fields *text, bool *found,
                                  qk_error *err)
{
    const json_t *types;
    QK_TRY(qk__json_field_array(text, "layer_types", (size_t)c->num_layers, &types, err));
    *found = types != NULL;
    for (int i = 0; types && i < c->num_layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        c->layers[i].sliding = type && strcmp(type, "sliding_attention") == 0;
        if (!type || (!c->layers[i].sliding && strcmp(type, "full_attention") != 0))
            return qk__fail(err, QK_ERR_UNSUPPORTED,
                            "%slayer_types: layer %d is \"%s\"; full_attention and "
                            "sliding_attention are known",
                            text->path, i, type ? type : "");
    }
    return QK_OK;
}

static qk_status read_layers(qk__model_config *c, const qk__json_fields *text, qk_error *err)
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

static qk_status read_text(qk__model_config *c, const qk__json_fields *text, qk_error *err)
{
    if (c->architecture->check)
        QK_TRY(c->architecture->check(text, err));
    QK_TRY(read_sizes(c, text, err));
    QK_TRY(read_rules(c, text, err));
    QK_TRY(read_layers(c, text, err));
    return qk__rope_read(c, text, err);
}

static qk_status read_root(qk__model_config *c, json_t *root, const char *overrides,
                           qk_error *err)
{
    if (!json_is_object(root))
        return qk__fail(err, QK_ERR_MALFORMED, "expected a JSON object");
    json_t *text;
    char path[PATH_SIZE];
    QK_TRY(refuse_quantized(root, "", err));
    QK_TRY(find_text(root, &text, path, &c->architecture, err));
    QK_TRY(refuse_quantized(text, path, err));
    QK_TRY(qk__rope_normalize(text, path, c->architecture, err));
    if (overrides) {
        qk_status status = apply_overrides(text, overrides, c->architecture, err);
        if (status != QK_OK)
            return qk__context(err, status, "overrides");
    }
    qk__json_fields fields = {text, path};
    return read_text(c, &fields, err);
}

qk_status qk__model_config_build(qk__model_config *config, json_t *root, const char *overrides,
                                 qk_error *err)
{
    *config = (qk__model_config){0};
    qk_status status = read_root(config, root, overrides, err);
    if (status != QK_OK)
        qk__model_config_free(config);
    return status;
}

qk_status qk__model_config_parse(qk__model_config *config, const char *text, size_t size,
                                 const char *overrides, qk_error *err)
{
    *config = (qk__model_config){0};
    json_t *root;
    QK_TRY(qk__json_parse(&root, text, size, QK__JSON_NO_ZEROS, err));
    qk_status status = qk__model_config_build(config, root, overrides, err);
    json_decref(root);
    return status;
}

qk_status qk__model_config_read(qk__model_config *config, const char *folder,
                                const char *overrides, qk_error *err)
{
    *config = (qk__model_config){0};
    char *path = qk__path_join(folder, "config.json");
    if (!path)
        return qk__nomem(err);
    qk__buffer text = {0};
    qk_status status = qk__folder_lacks(folder, path)
                           ? qk__refuse_folder(folder, "config.json", err)
                           : qk__read_file(path, MAX_CONFIG_BYTES, &text, err);
    if (status == QK_OK) {
        status =
            qk__model_config_parse(config, (const char *)text.data, text.size, overrides, err);
        qk__buffer_free(&text);
        if (status != QK_OK)
            qk__context(err, status, "%s", path);
    }
    free(path);
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
