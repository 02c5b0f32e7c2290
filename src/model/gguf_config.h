/* SPDX-License-Identifier: Apache-2.0 */
/* What config.json would say of the model in a GGUF file. */
#ifndef QK_MODEL_GGUF_CONFIG_H
#define QK_MODEL_GGUF_CONFIG_H

#include <stdbool.h>

#include <jansson.h>

#include <qkscope/common.h>

#include "model/checkpoint.h"

typedef struct qk__gguf_model {
    json_t *config; /* an object as in config.json, owned */
    bool paired;    /* rows of queries and keys have rotated pairs side by side */
} qk__gguf_model;

/* metadata: as qk__gguf has it. Messages name the key. Nothing to release after a failure. */
QK_MUST_CHECK qk_status qk__gguf_config(qk__gguf_model *model, const json_t *metadata,
                                        const qk__checkpoint *checkpoint, qk_error *err);

#endif
