/* SPDX-License-Identifier: Apache-2.0 */
/* Types of weights: plain numbers, and blocks of small integers as GGUF files hold them; and
 * how they become float32.
 *
 * A block is a few scales and its values' bits. A value is scale * integer (- minimum), in
 * float32 and rounded after each operation, so the result is the same on every processor and
 * equal to what the format's own tools compute. */
#ifndef QK_MODEL_QUANTS_H
#define QK_MODEL_QUANTS_H

#include <stddef.h>
#include <stdint.h>

/* Numbers of types that are told apart by more than the table. */
enum { QK_TYPE_F32 = 0, QK_TYPE_F16 = 1, QK_TYPE_BF16 = 30 };

typedef struct qk__quant {
    const char *name;    /* as the format spells it: "Q4_K" */
    uint32_t id;         /* in the file */
    size_t block_values; /* 1: no blocks */
    size_t block_bytes;
    /* `count` whole blocks, which need no alignment; NULL: plain numbers, see convert.h */
    void (*expand)(const uint8_t *blocks, size_t count, float *out);
} qk__quant;

/* NULL: not known or not supported (its name is then in qk__quant_name). */
const qk__quant *qk__quant_find(uint32_t id);

/* F32, F16 or BF16 by name; NULL for others. */
const qk__quant *qk__quant_plain(const char *name);

/* `count` numbers, whole blocks of them, as float32; source needs no alignment. */
void qk__quant_expand(const qk__quant *type, const void *source, size_t count, float *out);

/* Of every type that the format has had; NULL for an id that is none. */
const char *qk__quant_name(uint32_t id);

#endif
