/* SPDX-License-Identifier: Apache-2.0 */
/* An open model (model.c opens it), as the forward pass sees it: sizes, one record a layer with its tensors by
 * what they do, and its rotation.
 *
 *     const qk__model_config *c = &model->config;
 *     for (int i = 0; i < c->num_layers; i++) {
 *         const qk__layer *layer = &model->layers[i];
 *         if (!layer->attends)
 *             continue;                        // x passes through unchanged
 *         h = norm(x, layer->attention_norm);
 *         q = linear(h, &layer->q); k = ...; v = ...;
 *         q = head_norm(q, layer->q_norm);     // where there is one
 *         rotate(q, layer->rope);              // where there is one
 *         scale(q, c->query_scale_beta);       // where it is not 0
 *         a = linear(attention(q, k, v, layer->window), &layer->o);
 *         x += norm(a, layer->attention_out_norm);   // where there is one
 *         ...                                  // the same around gate, up, down
 *     }
 *
 * A tensor is a view into a mapped file: checked for its shape when the model was opened, and
 * converted by qk__tensor_rows when it is needed. One that an architecture does not have has
 * data == NULL. All of it is constant once open, and may be read from any thread. */
#ifndef QK_MODEL_MODEL_H
#define QK_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <qkscope/model.h>

#include "model/checkpoint.h"
#include "model/config_values.h"
#include "model/rope.h"

/* y = weight x + bias; weight is [outputs][inputs], bias [1][outputs] or absent. */
typedef struct qk__linear {
    qk__tensor weight;
    qk__tensor bias;
} qk__linear;

typedef struct qk__layer {
    bool attends;         /* false: the whole layer is passed by, its tensors are not there */
    int64_t window;       /* keys that a query sees, its own included; 0 = all before it */
    const qk__rope *rope; /* NULL: no position embedding */

    qk__linear q, k, v, o;     /* q: [num_q_heads * head_dim][hidden], k, v: num_k_heads */
    qk__tensor q_norm, k_norm; /* [1][head_dim], shared by the heads, before rotation */

    qk__linear gate, up, down; /* gate and up are [intermediate][hidden], also where the file
                                 has both in one tensor */

    /* Norms by their place. Those behind a block are absent but in "sandwich" models. */
    qk__tensor attention_norm, attention_out_norm;
    qk__tensor mlp_norm, mlp_out_norm;
} qk__layer;

struct qk_model {
    qk__model_config config;
    qk__checkpoint *checkpoint; /* owns the mapped files */
    const char *prefix;         /* of the names of tensors; NULL: as in GGUF files */
    qk__tensor embedding;       /* [at least vocab_size][hidden] */
    qk__layer *layers;          /* [config.num_layers] */
    qk__rope ropes[QK_NUM_ROPES];
    qk_model_facts facts; /* its arrays are owned by the model */
    char dtype[80];       /* facts.dtype */
    qk_layer_facts *layer_facts;
    double *frequencies;
};

/* Asks a checkpoint for the tensors of a model that is opened as a shape, by the names of safetensors files. */
QK_MUST_CHECK qk_status qk__model_take_tensors(qk_model *model,
                                               const qk__checkpoint *checkpoint, qk_error *err);

/* What comes behind the layers, of which only losses have need: the norm, and the output layer, which may be
 * the embedding (output_layer.c). Messages name what is not there. */
typedef struct qk__output_layer {
    qk__tensor norm;   /* [1][hidden] */
    qk__linear logits; /* [vocab_size][hidden] */
} qk__output_layer;
enum { QK__TENSOR_NAME_SIZE = 160 };
void qk__model_name_head(const char *prefix, char name[QK__TENSOR_NAME_SIZE]);
/* Notes an output layer in the file that is not the embedding, where config.json says that they are tied. */
void qk__model_note_head(qk_model *model);
QK_MUST_CHECK qk_status qk__model_output(const qk_model *model, qk__output_layer *output,
                                         qk_error *err);

#endif
