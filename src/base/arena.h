/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is released at once. */
#ifndef QK_BASE_ARENA_H
#define QK_BASE_ARENA_H

#include <stddef.h>

/* Memory that lives as long as the arena. Zero-initialise it. */
typedef struct qk__arena {
    struct qk__arena_block *blocks;
} qk__arena;
void *qk__arena_alloc(qk__arena *arena, size_t count,
                      size_t size); /* zeroed; NULL: no memory */
char *qk__arena_strdup(qk__arena *arena, const char *text);
void qk__arena_free(qk__arena *arena);

#endif
