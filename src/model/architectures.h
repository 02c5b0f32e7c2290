/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of each architecture: a row of facts, and a function for what its layers do. */
#ifndef QK_MODEL_ARCHITECTURES_H
#define QK_MODEL_ARCHITECTURES_H

#include <stdbool.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "base/tree.h"
#include "model/config_values.h"

typedef enum qk__bias_rule {
    QK_BIAS_NONE,
    QK_BIAS_ALWAYS,
    QK_BIAS_IF_SAID, /* attention_bias, mlp_bias of config.json */
} qk__bias_rule;

typedef struct qk__architecture {
    const char *name; /* model_type of the text model */
    /* What transformers takes it for where config.json has layer_types; NULL: for itself. Not in a part. */
    const char *with_layer_types;

    /* What config.json need not say; k_heads 0 = as many as query heads, head_dim 0 =
     * hidden / query heads, window 0 = none. */
    int hidden, intermediate, vocab, layers, q_heads, k_heads, head_dim;
    int64_t positions, window;
    double norm_eps, theta;
    bool attention_bias;
    const char *rope; /* JSON of rope_parameters, NULL = {} */

    qk__bias_rule qkv_bias, o_bias, mlp_bias;
    bool head_dim_derived; /* hidden / query heads, whatever config.json says */
    bool qk_norm;
    qk__norm_kind norm;
    const char *activation_key, *activation; /* and its default */
    double rotated_part; /* of head_dim; other shares are refused where it is 1 */
    bool interleaved_rope;
    bool local_rope; /* sliding layers have frequencies of their own */
    bool scaled_embedding, scaled_queries;
    bool capped_logits; /* final_logit_softcapping, where it is not null */
    /* The key of a number whose -1/2 power scales scores, and its default; NULL: head_dim. */
    const char *score_scale_key;
    int64_t score_scale;
    int extra_embeddings; /* rows beyond vocab_size */

    /* Names of a layer's tensors, by the place of what they hold; NULL = has none. */
    const char *attention_out_norm, *mlp_norm, *mlp_out_norm;
    const char *fused_gate_up;

    /* Sets config->layers, which come as layers of full attention with rotation; sliding is set
     * already where layer_types is there, which `types` tells. NULL: they stay so. */
    qk_status (*set_layers)(qk__model_config *config, const qk__node *text, bool types,
                            qk_error *err);
} qk__architecture;

/* NULL: not known. */
const qk__architecture *qk__architecture_find(const char *model_type);

/* For a model_type whose text model is a part of it: the model_type that the part has unless it
 * says another. NULL: no such type. */
const char *qk__architecture_part(const char *model_type);

/* The i-th name that is known; NULL beyond the last. */
const char *qk__architecture_name(size_t i);

#endif
