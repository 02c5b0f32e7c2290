/* SPDX-License-Identifier: Apache-2.0 */
/* The dictionary of a column chunk that is written: its distinct values, numbered in the order
 * in which they appear. */
#ifndef QK_PARQUET_DICTIONARY_H
#define QK_PARQUET_DICTIONARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "base/buffer.h"

enum {
    /* Indices fit uint16_t. All finite values of a bfloat16 or float16 model fit, too. */
    QK_DICTIONARY_LIMIT = 65536,
};

typedef struct qk__dictionary_slot {
    uint64_t key;
    uint32_t next; /* index + 1; 0 = free */
} qk__dictionary_slot;

/* Zero-initialise. */
typedef struct qk__dictionary {
    qk__dictionary_slot *slots; /* open addressing, at most half full */
    size_t capacity;            /* a power of two */
    uint64_t *keys;             /* [count] in order of first appearance */
    size_t count;
} qk__dictionary;

void qk__dictionary_free(qk__dictionary *dictionary);

/* Forgets the keys, keeps the memory. */
void qk__dictionary_clear(qk__dictionary *dictionary);

/* Looks up `count` values of `size` bytes (4 or 8) and adds those that are new.
 * *fits is false when there are more than the limit; indices are then incomplete. */
QK_MUST_CHECK qk_status qk__dictionary_index(qk__dictionary *dictionary, const uint8_t *values,
                                             size_t count, size_t size, uint16_t *indices,
                                             bool *fits, qk_error *err);

#endif
