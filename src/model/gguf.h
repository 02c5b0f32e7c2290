/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files, versions 2 and 3.
 *
 *     gguf.c          the header of one: metadata, and which tensors lie where
 *     gguf_config.c   what config.json would say of the model; it does without gguf.c
 *     gguf_keys.c     which keys it may read, leave, or must refuse */
#ifndef QK_MODEL_GGUF_H
#define QK_MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/common.h>

#include "model/checkpoint.h"
#include "tensors/tensor_list.h"

typedef struct qk__gguf {
    json_t *metadata; /* an object: numbers, strings, booleans, arrays of them; null where a
                         number is not finite or above 2^63 */
    qk__tensor_list tensors; /* named as in the file; shapes as [rows, columns] */
} qk__gguf;

/* bytes is a whole file, which must outlive the result. After success every tensor lies within
 * it, none overlaps another, and its size is that of its type and shape, if the type is known.
 * Messages name the key or the tensor, not the file. What is in it is the caller's; it is empty
 * after a failure. */
QK_MUST_CHECK qk_status qk__gguf_parse(qk__gguf *gguf, const uint8_t *bytes, size_t size,
                                       qk_error *err);

/* Refuses keys that change what is computed in a way that is not known (gguf_keys.c). config gets those behind the
 * architecture's name that nobody knows: who reads it says which of them look like rules. */
QK_MUST_CHECK qk_status qk__gguf_check_keys(json_t *metadata, const char *architecture,
                                            json_t *config, qk_error *err);

/* ---- the configuration (gguf_config.c) -------------------------------------------------- */

typedef struct qk__gguf_model {
    json_t *config; /* an object as in config.json, owned */
    bool paired;    /* rows of queries and keys have rotated pairs side by side */
} qk__gguf_model;

/* metadata: as qk__gguf has it. Messages name the key. Nothing to release after a failure. */
QK_MUST_CHECK qk_status qk__gguf_config(qk__gguf_model *model, const json_t *metadata,
                                        const qk__checkpoint *checkpoint, qk_error *err);

#endif
