/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is released at once, and finding things by key. */
#ifndef QK_RESULTS_GROW_H
#define QK_RESULTS_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "base/buffer.h"

/* Memory that lives as long as the arena. Zero-initialise it. */
typedef struct qk__arena {
    struct qk__arena_block *blocks;
} qk__arena;
void *qk__arena_alloc(qk__arena *arena, size_t count,
                      size_t size); /* zeroed; NULL: no memory */
char *qk__arena_strdup(qk__arena *arena, const char *text);
void qk__arena_free(qk__arena *arena);

/* A hash table from keys to the indices of an array that the caller keeps; the keys are in that
 * array, too. Zero-initialise it. */
typedef struct qk__lookup {
    struct qk__lookup_slot *slots;
    size_t capacity, count;
} qk__lookup;
#define QK__NOT_THERE SIZE_MAX
typedef bool qk__is_key(const void *items, size_t index, const void *key);
size_t qk__lookup_find(const qk__lookup *lookup, uint64_t hash, qk__is_key *is_key,
                       const void *items, const void *key);
QK_MUST_CHECK qk_status qk__lookup_add(qk__lookup *lookup, uint64_t hash, size_t index,
                                       qk_error *err);
void qk__lookup_free(qk__lookup *lookup);
uint64_t qk__hash(const void *key, size_t size);

/* Different texts in order of appearance, kept in an arena. Zero-initialise it. */
typedef struct qk__text_set {
    const char **items;
    size_t count, capacity;
    qk__lookup lookup;
} qk__text_set;
size_t qk__text_set_find(const qk__text_set *set, const char *text); /* or QK__NOT_THERE */
/* *index is that of the text, which is copied where it is new. */
QK_MUST_CHECK qk_status qk__text_set_add(qk__text_set *set, qk__arena *arena, const char *text,
                                         size_t *index, qk_error *err);
void qk__text_set_free(qk__text_set *set);

#endif
