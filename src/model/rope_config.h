/* SPDX-License-Identifier: Apache-2.0 */
/* The RoPE parameters of config.json, in the several forms that they have had. */
#ifndef QK_MODEL_ROPE_CONFIG_H
#define QK_MODEL_ROPE_CONFIG_H

#include <jansson.h>

#include <qkscope/common.h>

#include "model/architectures.h"
#include "model/rope.h"

/* Replaces rope_scaling, rope_theta and the like of a text model's object by one
 * rope_parameters in the form of transformers 5: with rope_type and rope_theta, or two such
 * objects by layer type where the architecture has local_rope. */
QK_MUST_CHECK qk_status qk__rope_normalize(const qk__node *text,
                                           const qk__architecture *architecture, qk_error *err);

/* Merges an override of rope_scaling, rope_parameters or rope_theta into what
 * qk__rope_normalize left; *taken is false if the key is another. */
QK_MUST_CHECK qk_status qk__rope_override(json_t *text, const char *key, json_t *value,
                                          const qk__architecture *architecture, bool *taken,
                                          qk_error *err);

/* Reads config->rope; head_dim and max_positions are known. */
QK_MUST_CHECK qk_status qk__rope_read(qk__model_config *config, const qk__node *text,
                                      qk_error *err);

#endif
