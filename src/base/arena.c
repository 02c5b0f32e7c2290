/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in blocks, which are released together. */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 16, ALIGNMENT = 16 };

struct qk__arena_block {
    struct qk__arena_block *next;
    size_t used, size; /* of what follows, from the next multiple of ALIGNMENT */
};

static size_t round_up(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Large pieces get a block of their own behind the one being filled. */
static struct qk__arena_block *new_block(qk__arena *arena, size_t size)
{
    bool own = size > BLOCK_BYTES / 4;
    size_t bytes = own ? size : BLOCK_BYTES;
    struct qk__arena_block *block = calloc(1, round_up(sizeof *block) + bytes);
    if (!block)
        return NULL;
    block->size = bytes;
    struct qk__arena_block **place =
        own && arena->blocks ? &arena->blocks->next : &arena->blocks;
    block->next = *place;
    *place = block;
    return block;
}

void *qk__arena_alloc(qk__arena *arena, size_t count, size_t size)
{
    if (size > 0 && count > (SIZE_MAX / 2) / size)
        return NULL;
    size_t bytes = round_up(count * size > 0 ? count * size : 1);
    struct qk__arena_block *block = arena->blocks;
    if (!block || block->size - block->used < bytes)
        block = new_block(arena, bytes);
    if (!block)
        return NULL;
    void *memory = (char *)block + round_up(sizeof *block) + block->used;
    block->used += bytes;
    return memory;
}

char *qk__arena_strdup(qk__arena *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = qk__arena_alloc(arena, size, 1);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void qk__arena_free(qk__arena *arena)
{
    while (arena->blocks) {
        struct qk__arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}
