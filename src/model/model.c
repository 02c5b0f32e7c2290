/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a model: config.json, the tensors that it asks for, and the facts about both. */
#include "model/model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "model/architectures.h"

enum { NAME_SIZE = 160, MAX_CONFIG_BYTES = 16 << 20 };

/* ---- tensors
 * ---------------------------------------------------------------------------------- */

/* While tensors are looked up: what the names begin with. */
typedef struct lookup {
    const qk_checkpoint *checkpoint;
    const char *prefix;
    int layer; /* -1: no layer's */
    int64_t bytes, parameters;
} lookup;

static void full_name(const lookup *l, char text[NAME_SIZE], const char *name,
                      const char *suffix)
{
    if (l->layer < 0)
        snprintf(text, NAME_SIZE, "%s%s%s", l->prefix, name, suffix);
    else
        snprintf(text, NAME_SIZE, "%slayers.%d.%s%s", l->prefix, l->layer, name, suffix);
}

static qk_status get_tensor(lookup *l, const char *name, const char *suffix, int64_t rows,
                            int64_t columns, qk_tensor *tensor, qk_error *err)
{
    char text[NAME_SIZE];
    full_name(l, text, name, suffix);
    QK_TRY(qk__checkpoint_get(l->checkpoint, text, rows, columns, tensor, err));
    l->parameters += rows * columns;
    l->bytes += rows * columns * (tensor->dtype == QK_DTYPE_F32 ? 4 : 2);
    return QK_OK;
}

/* A bias that config.json does not know of would be left out without a word. */
static qk_status get_bias(lookup *l, const char *name, int64_t columns, bool wanted,
                          qk_tensor *tensor, qk_error *err)
{
    if (wanted)
        return get_tensor(l, name, ".bias", 1, columns, tensor, err);
    char text[NAME_SIZE];
    full_name(l, text, name, ".bias");
    return qk__checkpoint_has(l->checkpoint, text)
               ? qk__fail(err, QK_ERR_INCONSISTENT,
                          "the weights have a tensor %s, config.json knows of no such bias",
                          text)
               : QK_OK;
}

static qk_status get_linear(lookup *l, const char *name, int64_t outputs, int64_t inputs,
                            bool bias, qk_linear *linear, qk_error *err)
{
    QK_TRY(get_tensor(l, name, ".weight", outputs, inputs, &linear->weight, err));
    return get_bias(l, name, outputs, bias, &linear->bias, err);
}

/* ---- layers
 * ----------------------------------------------------------------------------------- */

static qk_status get_attention(lookup *l, const qk_model_config *c, qk_layer *layer,
                               qk_error *err)
{
    int64_t hidden = c->hidden_size;
    int64_t q = (int64_t)c->num_q_heads * c->head_dim,
            k = (int64_t)c->num_k_heads * c->head_dim;
    QK_TRY(get_linear(l, "self_attn.q_proj", q, hidden, c->qkv_bias, &layer->q, err));
    QK_TRY(get_linear(l, "self_attn.k_proj", k, hidden, c->qkv_bias, &layer->k, err));
    QK_TRY(get_linear(l, "self_attn.v_proj", k, hidden, c->qkv_bias, &layer->v, err));
    QK_TRY(get_linear(l, "self_attn.o_proj", hidden, q, c->o_bias, &layer->o, err));
    if (!c->qk_norm)
        return QK_OK;
    QK_TRY(get_tensor(l, "self_attn.q_norm", ".weight", 1, c->head_dim, &layer->q_norm, err));
    return get_tensor(l, "self_attn.k_norm", ".weight", 1, c->head_dim, &layer->k_norm, err);
}

static qk_status get_mlp(lookup *l, const qk_model_config *c, qk_layer *layer, qk_error *err)
{
    int64_t hidden = c->hidden_size, wide = c->intermediate_size;
    const char *fused = c->architecture->fused_gate_up;
    QK_TRY(get_linear(l, "mlp.down_proj", hidden, wide, c->mlp_bias, &layer->down, err));
    if (fused) {
        qk_tensor both;
        QK_TRY(get_tensor(l, fused, ".weight", 2 * wide, hidden, &both, err));
        layer->gate.weight = qk__tensor_slice(&both, 0, wide);
        layer->up.weight = qk__tensor_slice(&both, wide, wide);
        return QK_OK;
    }
    QK_TRY(get_linear(l, "mlp.gate_proj", wide, hidden, c->mlp_bias, &layer->gate, err));
    return get_linear(l, "mlp.up_proj", wide, hidden, c->mlp_bias, &layer->up, err);
}

static qk_status get_norm(lookup *l, const qk_model_config *c, const char *name,
                          qk_tensor *norm, qk_error *err)
{
    return name ? get_tensor(l, name, ".weight", 1, c->hidden_size, norm, err) : QK_OK;
}

static qk_status get_norms(lookup *l, const qk_model_config *c, qk_layer *layer, qk_error *err)
{
    const qk_architecture *a = c->architecture;
    QK_TRY(get_norm(l, c, "input_layernorm", &layer->attention_norm, err));
    QK_TRY(get_norm(l, c, a->attention_out_norm, &layer->attention_out_norm, err));
    QK_TRY(get_norm(l, c, a->mlp_norm, &layer->mlp_norm, err));
    return get_norm(l, c, a->mlp_out_norm, &layer->mlp_out_norm, err);
}

static qk_status get_layer(lookup *l, qk_model *model, int i, qk_error *err)
{
    const qk_model_config *c = &model->config;
    const qk_layer_config *rules = &c->layers[i];
    qk_layer *layer = &model->layers[i];
    layer->attends = rules->attends;
    layer->window = rules->window;
    layer->rope = rules->rope >= 0 ? &model->ropes[rules->rope] : NULL;
    if (!layer->attends)
        return QK_OK;
    l->layer = i;
    QK_TRY(get_attention(l, c, layer, err));
    QK_TRY(get_mlp(l, c, layer, err));
    return get_norms(l, c, layer, err);
}

/* Names begin differently by how a model of several parts was saved. */
static const char *find_prefix(const qk_checkpoint *checkpoint)
{
    static const char *const prefixes[] = {"model.", "language_model.model.",
                                           "model.language_model.", "language_model.", ""};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char name[NAME_SIZE];
        snprintf(name, sizeof name, "%sembed_tokens.weight", prefixes[i]);
        if (qk__checkpoint_has(checkpoint, name))
            return prefixes[i];
    }
    return NULL;
}

static qk_status get_tensors(qk_model *model, qk_error *err)
{
    const qk_model_config *c = &model->config;
    lookup l = {.checkpoint = model->checkpoint, .layer = -1};
    l.prefix = find_prefix(model->checkpoint);
    if (!l.prefix)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "the weights have no tensor model.embed_tokens.weight, or one whose "
                        "name ends so");
    int64_t rows = (int64_t)c->vocab_size + c->architecture->extra_embeddings;
    QK_TRY(get_tensor(&l, "embed_tokens", ".weight", rows, c->hidden_size, &model->embedding,
                      err));
    model->layers = qk__calloc((size_t)c->num_layers, sizeof *model->layers);
    if (!model->layers)
        return qk__nomem(err);
    for (int i = 0; i < c->num_layers; i++)
        QK_TRY(get_layer(&l, model, i, err));
    model->facts.weight_bytes = l.bytes;
    model->facts.parameters = l.parameters;
    return QK_OK;
}

/* ---- rotation
 * --------------------------------------------------------------------------------- */

static int count_ropes(const qk_model_config *c)
{
    return c->architecture->local_rope ? QK_NUM_ROPES : 1;
}

/* The frequencies also in double precision, for the facts. */
static qk_status make_ropes(qk_model *model, qk_error *err)
{
    const qk_model_config *c = &model->config;
    size_t most = (size_t)c->rope[QK_ROPE_FULL].width / 2;
    model->frequencies = qk__calloc(QK_NUM_ROPES * most, sizeof *model->frequencies);
    if (!model->frequencies)
        return qk__nomem(err);
    for (int r = 0; r < count_ropes(c); r++) {
        qk_rope *rope = &model->ropes[r];
        QK_TRY(qk__rope_init(rope, &c->rope[r], err));
        for (int i = 0; i < rope->pairs; i++)
            model->frequencies[(size_t)r * most + (size_t)i] = (double)rope->frequencies[i];
    }
    return QK_OK;
}

/* ---- facts
 * ------------------------------------------------------------------------------------ */

static qk_status make_layer_facts(qk_model *model, qk_error *err)
{
    const qk_model_config *c = &model->config;
    model->layer_facts = qk__calloc((size_t)c->num_layers, sizeof *model->layer_facts);
    if (!model->layer_facts)
        return qk__nomem(err);
    for (int i = 0; i < c->num_layers; i++) {
        const qk_layer_config *rules = &c->layers[i];
        size_t pairs = rules->rope >= 0 ? (size_t)model->ropes[rules->rope].pairs : 0;
        model->layer_facts[i] = (qk_layer_facts){
            .attends = rules->attends,
            .rope = rules->rope >= 0,
            .window = rules->window,
            .sliding = rules->sliding,
            .frequencies = pairs > 0 ? model->frequencies + (size_t)rules->rope * pairs : NULL,
            .num_frequencies = pairs,
        };
    }
    return QK_OK;
}

static qk_status hash_config(const char *folder, const char *overrides, uint64_t *hash,
                             qk_error *err)
{
    char *path = qk__path_join(folder, "config.json");
    if (!path)
        return qk__nomem(err);
    qk_buffer text;
    qk_status status = qk__read_file(path, MAX_CONFIG_BYTES, &text, err);
    free(path);
    if (status != QK_OK)
        return status;
    *hash = XXH3_64bits(text.data, text.size);
    if (overrides)
        *hash = XXH3_64bits_withSeed(overrides, strlen(overrides), *hash);
    qk__buffer_free(&text);
    return QK_OK;
}

static qk_status make_facts(qk_model *model, const char *folder, const char *overrides,
                            qk_error *err)
{
    const qk_model_config *c = &model->config;
    const qk_rope_settings *rope = &c->rope[QK_ROPE_FULL];
    uint64_t hash = 0;
    QK_TRY(make_layer_facts(model, err));
    QK_TRY(hash_config(folder, overrides, &hash, err));
    qk_model_facts *f = &model->facts;
    f->architecture = c->architecture->name;
    f->num_layers = c->num_layers;
    f->num_q_heads = c->num_q_heads;
    f->num_k_heads = c->num_k_heads;
    f->head_dim = c->head_dim;
    f->hidden_size = c->hidden_size;
    f->intermediate_size = c->intermediate_size;
    f->vocab_size = c->vocab_size;
    f->max_positions = c->max_positions;
    f->rope_type = qk__rope_type_name(rope->type);
    f->rope_theta = rope->theta;
    f->attention_factor = rope->attention_factor;
    f->dtype = model->embedding.dtype;
    f->layers = model->layer_facts;
    return qk__checkpoint_fingerprint(model->checkpoint, hash, &f->fingerprint, err);
}

/* ---- opening
 * ---------------------------------------------------------------------------------- */

static qk_status open_parts(qk_model *model, const char *folder, const char *overrides,
                            qk_error *err)
{
    QK_TRY(qk__model_config_read(&model->config, folder, overrides, err));
    qk_status status = make_ropes(model, err);
    if (status != QK_OK)
        return qk__context(err, status, "%s/config.json", folder);
    QK_TRY(qk__checkpoint_open(&model->checkpoint, folder, err));
    status = get_tensors(model, err);
    if (status != QK_OK)
        return qk__context(err, status, "%s", folder);
    return make_facts(model, folder, overrides, err);
}

qk_status qk_model_open(qk_model **model, const char *folder, const char *overrides,
                        qk_error *err)
{
    QK_NEED(err, model);
    *model = NULL;
    QK_NEED(err, folder);
    qk_model *m = qk__calloc(1, sizeof *m);
    if (!m)
        return qk__nomem(err);
    qk_status status = open_parts(m, folder, overrides, err);
    if (status == QK_OK)
        *model = m;
    else
        qk_model_close(&m);
    return status;
}

void qk_model_close(qk_model **model)
{
    assert(model);
    qk_model *m = *model;
    if (!m)
        return;
    for (int r = 0; r < QK_NUM_ROPES; r++)
        qk__rope_free(&m->ropes[r]);
    qk__checkpoint_close(&m->checkpoint);
    qk__model_config_free(&m->config);
    free(m->layers);
    free(m->layer_facts);
    free(m->frequencies);
    free(m);
    *model = NULL;
}

const qk_model_facts *qk_model_get_facts(const qk_model *model)
{
    assert(model);
    return &model->facts;
}

const char *const *qk_model_architectures(void)
{
    return qk__architecture_names();
}
