/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a model: config.json or the metadata of a GGUF file, the tensors that it asks for,
 * and the facts about both. */
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
#include "model/gguf.h"
#include "model/model_config.h"

enum { NUM_TYPES = 64 };

/* ---- tensors ---------------------------------------------------------------------------- */

/* While tensors are looked up: what the names begin with. */
typedef struct lookup {
    const qk__checkpoint *checkpoint;
    const qk__model_config *config;
    const char *prefix;  /* NULL: tensors are named as in GGUF files */
    int layer;           /* -1: no layer's */
    int64_t paired_head; /* of queries and keys, see qk__tensor; 0: they are not paired */
    int64_t bytes, parameters;
    int64_t of_type[NUM_TYPES]; /* of matrices: parameters by number of the type */
} lookup;

/* The name that this checkpoint has for it. */
static const char *pick(const lookup *l, const char *name, const char *gguf)
{
    return l->prefix ? name : gguf;
}

static void full_name(const lookup *l, char text[QK__TENSOR_NAME_SIZE], const char *name,
                      const char *suffix)
{
    const char *prefix = l->prefix ? l->prefix : "";
    if (l->layer < 0)
        snprintf(text, QK__TENSOR_NAME_SIZE, "%s%s%s", prefix, name, suffix);
    else if (!l->prefix)
        snprintf(text, QK__TENSOR_NAME_SIZE, "blk.%d.%s%s", l->layer, name, suffix);
    else
        snprintf(text, QK__TENSOR_NAME_SIZE, "%slayers.%d.%s%s", prefix, l->layer, name,
                 suffix);
}

static qk_status get_named(lookup *l, const char *name, int64_t rows, int64_t columns,
                           qk__tensor *tensor, qk_error *err)
{
    QK_TRY(qk__checkpoint_get(l->checkpoint, name, rows, columns, tensor, err));
    const qk__quant *type = tensor->type;
    l->parameters += rows * columns;
    l->bytes += rows * columns / (int64_t)type->block_values * (int64_t)type->block_bytes;
    l->of_type[type->id] += rows > 1 ? rows * columns : 0;
    return QK_OK;
}

static qk_status get_tensor(lookup *l, const char *name, const char *suffix, int64_t rows,
                            int64_t columns, qk__tensor *tensor, qk_error *err)
{
    char text[QK__TENSOR_NAME_SIZE];
    full_name(l, text, name, suffix);
    return get_named(l, text, rows, columns, tensor, err);
}

/* A bias that config.json does not know of would be left out without a word. */
static qk_status get_bias(lookup *l, const char *name, int64_t columns, bool wanted,
                          qk__tensor *tensor, qk_error *err)
{
    if (wanted)
        return get_tensor(l, name, ".bias", 1, columns, tensor, err);
    char text[QK__TENSOR_NAME_SIZE];
    full_name(l, text, name, ".bias");
    return qk__checkpoint_has(l->checkpoint, text)
               ? qk__fail(err, QK_ERR_INCONSISTENT,
                          "the weights have a tensor %s, but this model has no such bias", text)
               : QK_OK;
}

static qk_status get_linear(lookup *l, const char *name, int64_t outputs, int64_t inputs,
                            bool bias, qk__linear *linear, qk_error *err)
{
    QK_TRY(get_tensor(l, name, ".weight", outputs, inputs, &linear->weight, err));
    return get_bias(l, name, outputs, bias, &linear->bias, err);
}

/* ---- layers ----------------------------------------------------------------------------- */

/* Queries, keys and values one below the other. */
static qk_status get_fused(lookup *l, qk__layer *layer, int64_t q, int64_t k, qk_error *err)
{
    const qk__model_config *c = l->config;
    qk__linear all = {0};
    qk__linear *parts[] = {&layer->q, &layer->k, &layer->v};
    const int64_t rows[] = {q, k, k};
    QK_TRY(get_linear(l, "attn_qkv", q + 2 * k, c->hidden_size, c->qkv_bias, &all, err));
    for (int64_t i = 0, first = 0; i < 3; first += rows[i++]) {
        parts[i]->weight = qk__tensor_slice(&all.weight, first, rows[i]);
        if (all.bias.data)
            parts[i]->bias = qk__tensor_slice(&all.bias, first, rows[i]);
    }
    return QK_OK;
}

static qk_status get_projections(lookup *l, qk__layer *layer, int64_t q, int64_t k,
                                 qk_error *err)
{
    int64_t hidden = l->config->hidden_size;
    bool bias = l->config->qkv_bias;
    char fused[QK__TENSOR_NAME_SIZE];
    full_name(l, fused, "attn_qkv", ".weight");
    if (!l->prefix && qk__checkpoint_has(l->checkpoint, fused))
        return get_fused(l, layer, q, k, err);
    const char *q_name = pick(l, "self_attn.q_proj", "attn_q");
    const char *k_name = pick(l, "self_attn.k_proj", "attn_k");
    const char *v_name = pick(l, "self_attn.v_proj", "attn_v");
    QK_TRY(get_linear(l, q_name, q, hidden, bias, &layer->q, err));
    QK_TRY(get_linear(l, k_name, k, hidden, bias, &layer->k, err));
    return get_linear(l, v_name, k, hidden, bias, &layer->v, err);
}

/* name is NULL where the architecture has no such norm. */
static qk_status get_norm(lookup *l, const char *name, const char *gguf, int64_t width,
                          qk__tensor *norm, qk_error *err)
{
    return name ? get_tensor(l, pick(l, name, gguf), ".weight", 1, width, norm, err) : QK_OK;
}

static qk_status get_attention(lookup *l, qk__layer *layer, qk_error *err)
{
    const qk__model_config *c = l->config;
    int64_t q = (int64_t)c->num_q_heads * c->head_dim;
    int64_t k = (int64_t)c->num_k_heads * c->head_dim;
    QK_TRY(get_projections(l, layer, q, k, err));
    layer->q.weight.paired_head = layer->q.bias.paired_head = l->paired_head;
    layer->k.weight.paired_head = layer->k.bias.paired_head = l->paired_head;
    QK_TRY(get_linear(l, pick(l, "self_attn.o_proj", "attn_output"), c->hidden_size, q,
                      c->o_bias, &layer->o, err));
    if (!c->qk_norm)
        return QK_OK;
    int64_t width = c->head_dim;
    QK_TRY(get_norm(l, "self_attn.q_norm", "attn_q_norm", width, &layer->q_norm, err));
    return get_norm(l, "self_attn.k_norm", "attn_k_norm", width, &layer->k_norm, err);
}

static qk_status get_mlp(lookup *l, qk__layer *layer, qk_error *err)
{
    const qk__model_config *c = l->config;
    int64_t hidden = c->hidden_size, wide = c->intermediate_size;
    const char *fused = c->architecture->fused_gate_up;
    QK_TRY(get_linear(l, pick(l, "mlp.down_proj", "ffn_down"), hidden, wide, c->mlp_bias,
                      &layer->down, err));
    if (fused) {
        qk__tensor both;
        QK_TRY(
            get_tensor(l, pick(l, fused, "ffn_up"), ".weight", 2 * wide, hidden, &both, err));
        layer->gate.weight = qk__tensor_slice(&both, 0, wide);
        layer->up.weight = qk__tensor_slice(&both, wide, wide);
        return QK_OK;
    }
    QK_TRY(get_linear(l, pick(l, "mlp.gate_proj", "ffn_gate"), wide, hidden, c->mlp_bias,
                      &layer->gate, err));
    return get_linear(l, pick(l, "mlp.up_proj", "ffn_up"), wide, hidden, c->mlp_bias,
                      &layer->up, err);
}

static qk_status get_norms(lookup *l, qk__layer *layer, qk_error *err)
{
    const qk__architecture *a = l->config->architecture;
    int64_t width = l->config->hidden_size;
    QK_TRY(get_norm(l, "input_layernorm", "attn_norm", width, &layer->attention_norm, err));
    QK_TRY(get_norm(l, a->attention_out_norm, "post_attention_norm", width,
                    &layer->attention_out_norm, err));
    QK_TRY(get_norm(l, a->mlp_norm, "ffn_norm", width, &layer->mlp_norm, err));
    return get_norm(l, a->mlp_out_norm, "post_ffw_norm", width, &layer->mlp_out_norm, err);
}

static qk_status get_layer(lookup *l, qk_model *model, int i, qk_error *err)
{
    qk__layer *layer = &model->layers[i];
    if (!layer->attends)
        return QK_OK;
    l->layer = i;
    QK_TRY(get_attention(l, layer, err));
    QK_TRY(get_mlp(l, layer, err));
    return get_norms(l, layer, err);
}

/* Names begin differently by how a model of several parts was saved, and after torch.compile. */
static const char *find_prefix(const qk__checkpoint *checkpoint, const char *tensor)
{
    static const char *const prefixes[] = {
        "model.",          "language_model.model.", "model.language_model.",
        "language_model.", "_orig_mod.model.",      ""};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char name[QK__TENSOR_NAME_SIZE];
        snprintf(name, sizeof name, "%s%s", prefixes[i], tensor);
        if (qk__checkpoint_has(checkpoint, name))
            return prefixes[i];
    }
    return NULL;
}

static const char *name_type(uint32_t type)
{
    return type == QK_TYPE_F32    ? "float32"
           : type == QK_TYPE_F16  ? "float16"
           : type == QK_TYPE_BF16 ? "bfloat16"
                                  : qk__quant_name(type);
}

/* The types of matrices, that of most weights first. */
static void name_types(lookup *l, char *text, size_t size)
{
    for (size_t used = 0;;) {
        uint32_t most = 0;
        for (uint32_t id = 1; id < NUM_TYPES; id++)
            if (l->of_type[id] > l->of_type[most])
                most = id;
        if (l->of_type[most] == 0 || used >= size)
            return;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "+" : "",
                                 name_type(most));
        l->of_type[most] = 0;
    }
}

/* Of two matrices that are tied, a file may have kept the output layer. */
static qk_status get_embedding(qk_model *model, lookup *l, qk_error *err)
{
    const qk__model_config *c = &model->config;
    int64_t rows = (int64_t)c->vocab_size + c->architecture->extra_embeddings;
    char name[QK__TENSOR_NAME_SIZE], head[QK__TENSOR_NAME_SIZE];
    full_name(l, name, pick(l, "embed_tokens", "token_embd"), ".weight");
    qk__model_name_head(l->prefix, head);
    bool kept = c->tie == QK_TIE_NEVER || qk__checkpoint_has(l->checkpoint, name) ||
                !qk__checkpoint_has(l->checkpoint, head);
    return get_named(l, kept ? name : head, rows, c->hidden_size, &model->embedding, err);
}

static qk_status get_tensors(qk_model *model, lookup *l, qk_error *err)
{
    const qk__model_config *c = &model->config;
    l->layer = -1;
    QK_TRY(get_embedding(model, l, err));
    for (int i = 0; i < c->num_layers; i++)
        QK_TRY(get_layer(l, model, i, err));
    model->facts.weight_bytes = l->bytes;
    model->facts.parameters = l->parameters;
    name_types(l, model->dtype, sizeof model->dtype);
    model->facts.dtype = model->dtype;
    return QK_OK;
}

qk_status qk__model_take_tensors(qk_model *model, const qk__checkpoint *checkpoint,
                                 qk_error *err)
{
    lookup l = {.checkpoint = checkpoint, .config = &model->config, .prefix = "model."};
    return get_tensors(model, &l, err);
}

/* ---- rotation --------------------------------------------------------------------------- */

static int count_ropes(const qk__model_config *c)
{
    return c->architecture->local_rope ? QK_NUM_ROPES : 1;
}

/* The frequencies also in double precision, for the facts. */
static qk_status make_ropes(qk_model *model, qk_error *err)
{
    const qk__model_config *c = &model->config;
    size_t most = (size_t)c->rope[QK_ROPE_FULL].width / 2;
    model->frequencies = qk__calloc(QK_NUM_ROPES * most, sizeof *model->frequencies);
    if (!model->frequencies)
        return qk__nomem(err);
    for (int r = 0; r < count_ropes(c); r++) {
        qk__rope *rope = &model->ropes[r];
        QK_TRY(qk__rope_init(rope, &c->rope[r], err));
        for (int i = 0; i < rope->pairs; i++)
            model->frequencies[(size_t)r * most + (size_t)i] = (double)rope->frequencies[i];
    }
    return QK_OK;
}

/* ---- facts ------------------------------------------------------------------------------ */

/* What they do with positions; weights come later. */
static qk_status make_layers(qk_model *model, qk_error *err)
{
    const qk__model_config *c = &model->config;
    model->layers = qk__calloc((size_t)c->num_layers, sizeof *model->layers);
    if (!model->layers)
        return qk__nomem(err);
    for (int i = 0; i < c->num_layers; i++) {
        const qk__layer_config *rules = &c->layers[i];
        model->layers[i].attends = rules->attends;
        model->layers[i].window = rules->window;
        model->layers[i].rope = rules->rope >= 0 ? &model->ropes[rules->rope] : NULL;
    }
    return QK_OK;
}

static qk_status make_layer_facts(qk_model *model, qk_error *err)
{
    const qk__model_config *c = &model->config;
    model->layer_facts = qk__calloc((size_t)c->num_layers, sizeof *model->layer_facts);
    if (!model->layer_facts)
        return qk__nomem(err);
    for (int i = 0; i < c->num_layers; i++) {
        const qk__layer_config *rules = &c->layers[i];
        size_t pairs = rules->rope >= 0 ? (size_t)model->ropes[rules->rope].pairs : 0;
        model->layer_facts[i] = (qk_layer_facts){
            .attends = rules->attends,
            .rope = rules->rope >= 0,
            .window = rules->window,
            .sliding = rules->sliding,
            .frequencies = pairs > 0 ? model->frequencies + (size_t)rules->rope * pairs : NULL,
            .num_frequencies = pairs,
            .attention_factor = pairs > 0 ? model->ropes[rules->rope].attention_factor : 0,
        };
    }
    return QK_OK;
}

static qk_status make_facts(qk_model *model, uint64_t seed, qk_error *err)
{
    const qk__model_config *c = &model->config;
    const qk__rope_settings *rope = &c->rope[QK_ROPE_FULL];
    QK_TRY(make_layer_facts(model, err));
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
    f->rope_interleaved = c->interleaved_rope;
    f->attention_scale = c->attention_scale;
    f->rope_theta_sliding = c->architecture->local_rope ? c->rope[QK_ROPE_SLIDING].theta : 0;
    f->notice = c->notice[0] ? c->notice : NULL;
    f->defaults = c->defaults[0] ? c->defaults : NULL;
    f->layers = model->layer_facts;
    f->fingerprint = seed;
    return model->checkpoint
               ? qk__checkpoint_fingerprint(model->checkpoint, seed, &f->fingerprint, err)
               : QK_OK;
}

/* ---- opening ---------------------------------------------------------------------------- */

static qk_status open_config(qk_model *model, const char *folder, const char *overrides,
                             uint64_t *seed, qk_error *err)
{
    QK_TRY(qk__model_config_read(&model->config, folder, overrides, seed, err));
    return qk__context(err, make_ropes(model, err), "%s/config.json", folder);
}

static qk_status open_folder(qk_model *model, const char *folder, const char *overrides,
                             lookup *l, uint64_t *seed, qk_error *err)
{
    QK_TRY(open_config(model, folder, overrides, seed, err));
    QK_TRY(qk__checkpoint_open_folder(&model->checkpoint, folder, err));
    l->prefix = find_prefix(model->checkpoint, "embed_tokens.weight");
    if (!l->prefix)
        l->prefix = find_prefix(model->checkpoint, "layers.0.input_layernorm.weight");
    return l->prefix ? QK_OK
                     : qk__fail(err, QK_ERR_NOT_FOUND,
                                "%s: the weights have no tensor model.embed_tokens.weight, nor "
                                "one of the names in docs/dev/engine.md",
                                folder);
}

static qk_status configure(qk_model *model, const json_t *metadata, const char *overrides,
                           lookup *l, qk_error *err)
{
    qk__gguf_model gguf;
    QK_TRY(qk__gguf_config(&gguf, metadata, model->checkpoint, err));
    qk_status status = qk__model_config_build(&model->config, gguf.config, overrides, err);
    json_decref(gguf.config);
    if (status != QK_OK)
        return qk__context(err, status, "its metadata, as config.json would have it");
    if (model->config.norm == QK_NORM_GEMMA)
        model->config.norm = QK_NORM_GEMMA_SUM;
    l->paired_head = gguf.paired ? model->config.head_dim : 0;
    return make_ropes(model, err);
}

/* Everything about the model is in the file, and so in the fingerprint of the checkpoint. */
static qk_status open_gguf(qk_model *model, const char *path, const char *overrides, lookup *l,
                           uint64_t *seed, qk_error *err)
{
    json_t *metadata;
    QK_TRY(qk__checkpoint_open_gguf(&model->checkpoint, path, &metadata, err));
    qk_status status = configure(model, metadata, overrides, l, err);
    json_decref(metadata);
    *seed = overrides ? XXH3_64bits(overrides, strlen(overrides)) : 0;
    return qk__context(err, status, "%s", path);
}

static qk_status open_parts(qk_model *model, const char *path, const char *overrides,
                            qk_error *err)
{
    uint64_t seed = 0;
    lookup l = {0};
    QK_TRY(
        (qk__is_file(path) ? open_gguf : open_folder)(model, path, overrides, &l, &seed, err));
    l.checkpoint = model->checkpoint;
    l.config = &model->config;
    model->prefix = l.prefix;
    QK_TRY(make_layers(model, err));
    QK_TRY(qk__context(err, get_tensors(model, &l, err), "%s", path));
    qk__model_note_head(model);
    return make_facts(model, seed, err);
}

static qk_status open_shape(qk_model *model, const char *path, const char *overrides,
                            qk_error *err)
{
    uint64_t seed = 0;
    if (qk__is_file(path))
        return open_parts(model, path, overrides, err);
    QK_TRY(open_config(model, path, overrides, &seed, err));
    QK_TRY(make_layers(model, err));
    QK_TRY(qk__model_take_tensors(model, &qk__checkpoint_of_shapes, err));
    model->facts.weight_bytes = 0;
    model->facts.dtype = "";
    return make_facts(model, seed, err);
}

typedef qk_status open_fn(qk_model *model, const char *path, const char *overrides,
                          qk_error *err);

static qk_status open_by(open_fn *open, qk_model **model, const char *path,
                         const char *overrides, qk_error *err)
{
    qk_model *m = qk__calloc(1, sizeof *m);
    if (!m)
        return qk__nomem(err);
    qk_status status = open(m, path, overrides, err);
    if (status == QK_OK)
        *model = m;
    else
        qk_model_close(&m);
    return status;
}

qk_status qk_model_open(qk_model **model, const char *path, const char *overrides,
                        qk_error *err)
{
    QK_NEED(err, model);
    *model = NULL;
    QK_NEED(err, path);
    return open_by(open_parts, model, path, overrides, err);
}

qk_status qk_model_open_shape(qk_model **model, const char *path, const char *overrides,
                              qk_error *err)
{
    QK_NEED(err, model);
    *model = NULL;
    QK_NEED(err, path);
    return open_by(open_shape, model, path, overrides, err);
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
