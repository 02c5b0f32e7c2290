/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder model as it lies on disk in Hugging Face form (config.json, *.safetensors).
 * docs/model.md
 *
 *     qk_model *model;
 *     qk_status status = qk_model_open(&model, "kjv-tiny", NULL, &err);
 *     const qk_model_facts *facts = qk_model_get_facts(model);
 *     ...
 *     qk_model_close(&model);
 *
 * Opening maps the weights and checks every tensor that a run would read: names, shapes, types
 * and that offsets lie within the file. Nothing is converted before it is needed. The files
 * must not be changed while the model is open. An open model may be used by several threads. */
#ifndef QKSCOPE_MODEL_H
#define QKSCOPE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/capture.h>
#include <qkscope/status.h>

QK_BEGIN_DECLS

typedef enum qk_dtype { QK_DTYPE_F32, QK_DTYPE_F16, QK_DTYPE_BF16 } qk_dtype;

/* What one layer does with positions. */
typedef struct qk_layer_facts {
    bool attends;   /* false: a cross-attention layer, passed by (mllama) */
    bool rope;      /* false: no position embedding here (NoPE) */
    int64_t window; /* tokens a query sees, itself included; 0 = all before it */
    bool sliding; /* layer_types calls it sliding: what the choice of heads looks at, which may
                     differ from window > 0 (docs/model.md) */
    /* Radians per token, one for each pair of dimensions; NULL without RoPE. Where they depend
     * on the length of a text (dynamic, longrope): of a short one. */
    const double *frequencies;
    size_t num_frequencies;
} qk_layer_facts;

typedef struct qk_model_facts {
    const char *architecture; /* model_type of the text model: "llama", "qwen3", ... */
    int num_layers, num_q_heads, num_k_heads, head_dim;
    int hidden_size, intermediate_size, vocab_size;
    int64_t max_positions;
    const char *rope_type;   /* "default", "yarn", ...; of full attention where there are two */
    double rope_theta;       /* of the same */
    double attention_factor; /* on cos and sin, so on q and k after RoPE; of the same */
    qk_dtype dtype;          /* of the weights on disk */
    /* Of what a run reads: embedding and decoder layers, nothing for images, no output layer.
     */
    int64_t weight_bytes, parameters;
    /* XXH3 of config.json, overrides, and the weight files' sizes, headers and the ends of each
     * tensor: steps of one training differ. */
    uint64_t fingerprint;
    const qk_layer_facts *layers; /* [num_layers] */
} qk_model_facts;

typedef struct qk_model qk_model;

/* folder holds config.json and model.safetensors, or model.safetensors.index.json and shards.
 * overrides: a JSON object merged into the text model's config (docs/model.md), NULL = none.
 * QK_ERR_UNSUPPORTED names an architecture, RoPE type, activation or number format that is not
 * known; QK_ERR_MALFORMED a file that is not what it says; QK_ERR_NOT_FOUND a missing tensor or
 * file; QK_ERR_INCONSISTENT a tensor of another shape than config.json says. */
QK_API QK_MUST_CHECK qk_status qk_model_open(qk_model **model, const char *folder,
                                             const char *overrides, qk_error *err);
QK_API void qk_model_close(qk_model **model);

/* They belong to the model. */
QK_API const qk_model_facts *qk_model_get_facts(const qk_model *model);

/* Values of model_type that qk_model_open knows, NULL at the end. */
QK_API const char *const *qk_model_architectures(void);

QK_END_DECLS

#endif
