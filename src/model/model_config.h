/* SPDX-License-Identifier: Apache-2.0 */
/* Reading config.json: every number and rule is checked. model_config.c leads; rope_config.c reads
 * what it says of RoPE. */
#ifndef QK_MODEL_MODEL_CONFIG_H
#define QK_MODEL_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/common.h>

#include "base/tree.h"
#include "model/config_values.h"

/* Reads folder/config.json; overrides is a JSON object merged into the text model's part of it
 * (NULL: none), as docs/dev/engine.md#models says. *hash is the XXH3 of both. Messages name the file and
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
/* Adds to config->notice, as long as there is room. */
void qk__model_config_note(qk__model_config *config, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void qk__model_config_free(qk__model_config *config);

/* Refuses keys that change what is computed in a way that is not known, and notes those that nothing reads,
 * though their names look as if they did (config_keys.c). After qk__rope_normalize. */
QK_MUST_CHECK qk_status qk__config_check_keys(qk__model_config *config, const qk__node *text,
                                              const qk__node *root, qk_error *err);
/* Keys and architectures (NULL: all) in words; use is "used", "refused", "refused if false", "without effect" or
 * "rope" (a key of rope_parameters). Ended by {0}. */
typedef struct qk__config_rule {
    const char *use, *keys, *of, *why;
} qk__config_rule;
extern const qk__config_rule qk__config_rules[];

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
