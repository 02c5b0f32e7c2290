/* SPDX-License-Identifier: Apache-2.0 */
/* An arena and a hash table. */
#include "results/grow.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/error.h"

enum { FIRST_CAPACITY = 16, BLOCK_BYTES = 1 << 16, ALIGNMENT = 16 };

/* ---- arena ------------------------------------------------------------------------------ */

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

/* ---- lookup: open addressing, at most half full ----------------------------------------- */

struct qk__lookup_slot {
    uint64_t hash;
    size_t next_index; /* index + 1; 0 = free */
};

uint64_t qk__hash(const void *key, size_t size)
{
    return XXH3_64bits(key, size);
}

size_t qk__lookup_find(const qk__lookup *lookup, uint64_t hash, qk__is_key *is_key,
                       const void *items, const void *key)
{
    if (lookup->capacity == 0)
        return QK__NOT_THERE;
    size_t mask = lookup->capacity - 1;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        const struct qk__lookup_slot *slot = &lookup->slots[i];
        if (slot->next_index == 0)
            return QK__NOT_THERE;
        if (slot->hash == hash && is_key(items, slot->next_index - 1, key))
            return slot->next_index - 1;
    }
}

static void put_slot(qk__lookup *lookup, struct qk__lookup_slot slot)
{
    size_t mask = lookup->capacity - 1, i = (size_t)slot.hash & mask;
    while (lookup->slots[i].next_index != 0)
        i = (i + 1) & mask;
    lookup->slots[i] = slot;
}

static qk_status enlarge(qk__lookup *lookup, qk_error *err)
{
    size_t capacity = lookup->capacity > 0 ? lookup->capacity * 2 : FIRST_CAPACITY;
    struct qk__lookup_slot *slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return qk__nomem(err);
    qk__lookup larger = {slots, capacity, lookup->count};
    for (size_t i = 0; i < lookup->capacity; i++)
        if (lookup->slots[i].next_index != 0)
            put_slot(&larger, lookup->slots[i]);
    free(lookup->slots);
    *lookup = larger;
    return QK_OK;
}

qk_status qk__lookup_add(qk__lookup *lookup, uint64_t hash, size_t index, qk_error *err)
{
    if (lookup->count >= lookup->capacity / 2)
        QK_TRY(enlarge(lookup, err));
    put_slot(lookup, (struct qk__lookup_slot){hash, index + 1});
    lookup->count++;
    return QK_OK;
}

void qk__lookup_free(qk__lookup *lookup)
{
    free(lookup->slots);
    *lookup = (qk__lookup){0};
}

/* ---- texts ------------------------------------------------------------------------------ */

static bool is_text(const void *items, size_t index, const void *key)
{
    const char *const *texts = items;
    return strcmp(texts[index], key) == 0;
}

size_t qk__text_set_find(const qk__text_set *set, const char *text)
{
    return qk__lookup_find(&set->lookup, qk__hash(text, strlen(text)), is_text, set->items,
                           text);
}

qk_status qk__text_set_add(qk__text_set *set, qk__arena *arena, const char *text, size_t *index,
                           qk_error *err)
{
    *index = qk__text_set_find(set, text);
    if (*index != QK__NOT_THERE)
        return QK_OK;
    if (set->count == set->capacity) {
        const char **items = qk__grow((void *)set->items, &set->capacity, sizeof *items);
        if (!items)
            return qk__nomem(err);
        set->items = items;
    }
    const char *copy = qk__arena_strdup(arena, text);
    if (!copy)
        return qk__nomem(err);
    QK_TRY(qk__lookup_add(&set->lookup, qk__hash(text, strlen(text)), set->count, err));
    *index = set->count;
    set->items[set->count++] = copy;
    return QK_OK;
}

void qk__text_set_free(qk__text_set *set)
{
    free((void *)set->items);
    qk__lookup_free(&set->lookup);
    *set = (qk__text_set){0};
}
