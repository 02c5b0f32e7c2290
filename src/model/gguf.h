/* SPDX-License-Identifier: Apache-2.0 */
/* The header of one GGUF file (versions 2 and 3): metadata, and which tensors lie where. */
#ifndef QK_MODEL_GGUF_H
#define QK_MODEL_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/common.h>

#include "tensors/tensor_list.h"

typedef struct qk__gguf {
    json_t *metadata; /* an object: numbers, strings, booleans, arrays of them; null where a
                         number is not finite or above 2^63 */
    qk__tensor_list tensors; /* named as in the file; shapes as [rows, columns] */
} qk__gguf;

/* bytes is a whole file, which must outlive the result. After success every tensor lies within
 * it, none overlaps another, and its size is that of its type and shape, if the type is known.
 * Messages name the key or the tensor, not the file. Empty after a failure. */
QK_MUST_CHECK qk_status qk__gguf_parse(qk__gguf *gguf, const uint8_t *bytes, size_t size,
                                       qk_error *err);
void qk__gguf_free(qk__gguf *gguf);

#endif
