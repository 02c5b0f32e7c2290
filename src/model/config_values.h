/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers and rules of a model: what config.json says, with the defaults of its architecture. */
#ifndef QK_MODEL_CONFIG_VALUES_H
#define QK_MODEL_CONFIG_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "model/rope.h"

struct qk__architecture;

typedef enum qk__norm_kind {
    QK_NORM_LLAMA,     /* cast to the run's format, then times w */
    QK_NORM_GEMMA,     /* times (1 + w) in float32, then cast */
    QK_NORM_GEMMA_SUM, /* the same; the weight is the sum, in float32 */
} qk__norm_kind;

typedef enum qk__activation {
    QK_SILU,
    QK_GELU_TANH, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
} qk__activation;

/* Whether the output layer's weights are the embedding's, where the file has none of its own. */
typedef enum qk__output_tie {
    QK_TIE_UNSAID, /* they are */
    QK_TIE_NEVER,
    QK_TIE_ALWAYS,
} qk__output_tie;

/* Which of qk_model.ropes a layer rotates by. */
enum { QK_ROPE_FULL, QK_ROPE_SLIDING, QK_NUM_ROPES };

typedef struct qk__layer_config {
    bool attends;
    bool sliding;   /* layer_types says so: for the choice of heads, not for attention */
    int64_t window; /* 0 = all before */
    int rope;       /* index, -1 = none */
} qk__layer_config;

typedef struct qk__model_config {
    const struct qk__architecture *architecture;
    int num_layers, num_q_heads, num_k_heads, head_dim;
    int hidden_size, intermediate_size, vocab_size;
    int64_t max_positions;

    qk__norm_kind norm;
    float norm_eps;
    qk__activation activation;
    bool qkv_bias, o_bias, mlp_bias, qk_norm;
    bool interleaved_rope;  /* pairs (2j, 2j+1) instead of (j, j + width/2) */
    double attention_scale; /* times q.k */
    float embedding_scale;  /* 1, or sqrt(hidden_size) as a float32 */
    qk__output_tie tie;
    char notice[400];   /* what the user should know, "" = nothing */
    char defaults[300]; /* "KEY VALUE, KEY VALUE" of sizes that config.json lacks */
    double logit_cap;   /* logits become cap tanh(logit / cap); 0 = they stay */

    /* q *= 1 + beta ln(1 + floor(position / original)) after rotation, position / original in
     * float32; beta 0 = no such scaling. */
    double query_scale_beta;
    int64_t query_scale_original;

    qk__rope_settings rope[QK_NUM_ROPES]; /* of SLIDING only where the layers differ */
    qk__layer_config *layers;             /* [num_layers] */
} qk__model_config;

#endif
