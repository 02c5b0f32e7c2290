/* SPDX-License-Identifier: Apache-2.0 */
/* config.json: the numbers and rules of a model, every one checked, with the defaults of its
 * architecture. model_config.c leads; rope_config.c reads what it says of RoPE. */
#ifndef QK_MODEL_MODEL_CONFIG_H
#define QK_MODEL_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/common.h>

#include "base/tree.h"
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
    bool interleaved_rope; /* pairs (2j, 2j+1) instead of (j, j + width/2) */
    float attention_scale; /* times q.k */
    float embedding_scale; /* 1, or sqrt(hidden_size) as a float32 */

    /* q *= 1 + beta ln(1 + floor(position / original)) after rotation, position / original in
     * float32; beta 0 = no such scaling. */
    double query_scale_beta;
    int64_t query_scale_original;

    qk__rope_settings rope[QK_NUM_ROPES]; /* of SLIDING only where the layers differ */
    qk__layer_config *layers;             /* [num_layers] */
} qk__model_config;

/* Reads folder/config.json; overrides is a JSON object merged into the text model's part of it
 * (NULL: none), as docs/model.md says. *hash is the XXH3 of both. Messages name the file and
 * the key. */
QK_MUST_CHECK qk_status qk__model_config_read(qk__model_config *config, const char *folder,
                                              const char *overrides, uint64_t *hash,
                                              qk_error *err);
/* The same from memory; messages do not name a file. */
QK_MUST_CHECK qk_status qk__model_config_parse(qk__model_config *config, const char *text,
                                               size_t size, const char *overrides,
                                               qk_error *err);
/* The same from an object, which is changed; overrides first make of it what they say. */
QK_MUST_CHECK qk_status qk__model_config_build(qk__model_config *config, json_t *root,
                                               const char *overrides, qk_error *err);
void qk__model_config_free(qk__model_config *config);

/* ---- the RoPE parameters, in the several forms that they have had (rope_config.c) -------- */

/* Replaces rope_scaling, rope_theta and the like of a text model's object by one
 * rope_parameters in the form of transformers 5: with rope_type and rope_theta, or two such
 * objects by layer type where the architecture has local_rope. */
QK_MUST_CHECK qk_status qk__rope_normalize(const qk__node *text,
                                           const struct qk__architecture *architecture,
                                           qk_error *err);

/* Merges an override of rope_scaling, rope_parameters or rope_theta into what
 * qk__rope_normalize left; *taken is false if the key is another. */
QK_MUST_CHECK qk_status qk__rope_override(json_t *text, const char *key, json_t *value,
                                          const struct qk__architecture *architecture,
                                          bool *taken, qk_error *err);

/* Reads config->rope; head_dim and max_positions are known. */
QK_MUST_CHECK qk_status qk__rope_read(qk__model_config *config, const qk__node *text,
                                      qk_error *err);

#endif
