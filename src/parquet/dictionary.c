/* SPDX-License-Identifier: Apache-2.0 */
/* Numbering the distinct values of a column chunk, by a hash table. */
#include "parquet/dictionary.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "parquet/encoders.h"

/* Small at first: a bfloat16 head has some thousand distinct values, and a table that
 * stays in the second-level cache is what makes indexing cheap. */
enum { FIRST_CAPACITY = 4096 };

void qk__dictionary_free(qk__dictionary *dictionary)
{
    free(dictionary->slots);
    free(dictionary->keys);
    *dictionary = (qk__dictionary){0};
}

void qk__dictionary_clear(qk__dictionary *dictionary)
{
    if (dictionary->capacity > 0)
        memset(dictionary->slots, 0, dictionary->capacity * sizeof *dictionary->slots);
    dictionary->count = 0;
}

static size_t slot_of(const qk__dictionary *d, uint64_t key)
{
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    size_t mask = d->capacity - 1;
    size_t i = (size_t)(hash >> 32) & mask;
    while (d->slots[i].next != 0 && d->slots[i].key != key)
        i = (i + 1) & mask;
    return i;
}

static qk_status grow(qk__dictionary *d, qk_error *err)
{
    size_t capacity = d->capacity ? 2 * d->capacity : FIRST_CAPACITY;
    uint64_t *keys = realloc(d->keys, capacity / 2 * sizeof *keys);
    if (!keys)
        return qk__nomem(err);
    d->keys = keys;
    qk__dictionary_slot *slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return qk__nomem(err);
    free(d->slots);
    d->slots = slots;
    d->capacity = capacity;
    for (size_t i = 0; i < d->count; i++)
        slots[slot_of(d, keys[i])] =
            (qk__dictionary_slot){.key = keys[i], .next = (uint32_t)i + 1};
    return QK_OK;
}

qk_status qk__dictionary_index(qk__dictionary *dictionary, const uint8_t *values, size_t count,
                               size_t size, uint16_t *indices, bool *fits, qk_error *err)
{
    *fits = true;
    for (size_t i = 0; i < count; i++) {
        if (2 * dictionary->count >= dictionary->capacity)
            QK_TRY(grow(dictionary, err));
        uint64_t key = (uint64_t)qk__load_integer(values, i, size);
        qk__dictionary_slot *slot = &dictionary->slots[slot_of(dictionary, key)];
        if (slot->next == 0) {
            if (dictionary->count == QK_DICTIONARY_LIMIT) {
                *fits = false;
                return QK_OK;
            }
            dictionary->keys[dictionary->count++] = key;
            *slot = (qk__dictionary_slot){.key = key, .next = (uint32_t)dictionary->count};
        }
        indices[i] = (uint16_t)(slot->next - 1);
    }
    return QK_OK;
}
