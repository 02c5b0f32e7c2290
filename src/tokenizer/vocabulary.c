/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the model's vocabulary; finds the id of a text and the text of an id. */
#include "tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/buffer.h"
#include "base/error.h"
#include "tokenizer/json_parts.h"

/* Room for all entries, at most half full. */
static qk_status reserve(qk__vocab *vocab, const qk__node *at, qk_error *err)
{
    json_t *object = qk__node_json(at), *value;
    size_t count = json_object_size(object), bytes = 0, slots = 16, length;
    const char *key;
    json_object_keylen_foreach(object, key, length, value) bytes += length + 1;
    if (bytes > UINT32_MAX || count > UINT32_MAX / 4)
        return qk__fail_at(at, err, QK_ERR_UNSUPPORTED, "more than 4 GB");
    while (slots < 2 * count)
        slots *= 2;
    vocab->text = malloc(bytes + 1);
    vocab->entries = qk__calloc(count + 1, sizeof *vocab->entries);
    vocab->slots = qk__calloc(slots, sizeof *vocab->slots);
    vocab->mask = slots - 1;
    return vocab->text && vocab->entries && vocab->slots ? QK_OK : qk__nomem(err);
}

static uint32_t *find_slot(const qk__vocab *vocab, const void *text, size_t length)
{
    size_t i = (size_t)XXH3_64bits(text, length) & vocab->mask;
    for (;; i = (i + 1) & vocab->mask) {
        uint32_t *slot = &vocab->slots[i];
        if (*slot == 0)
            return slot;
        const qk__vocab_entry *entry = &vocab->entries[*slot - 1];
        if (entry->length == length && memcmp(vocab->text + entry->offset, text, length) == 0)
            return slot;
    }
}

static qk_status index_ids(qk__vocab *vocab, const qk__node *at, qk_error *err)
{
    vocab->by_id = qk__calloc(vocab->num_ids + 1, sizeof *vocab->by_id);
    if (!vocab->by_id)
        return qk__nomem(err);
    for (size_t i = 0; i < vocab->count; i++) {
        uint32_t *place = &vocab->by_id[vocab->entries[i].id];
        if (*place != 0)
            return qk__fail_at(
                at, err, QK_ERR_INCONSISTENT, "id %d is that of \"%.60s\" and of \"%.60s\"",
                vocab->entries[i].id, vocab->text + vocab->entries[*place - 1].offset,
                vocab->text + vocab->entries[i].offset);
        *place = (uint32_t)i + 1;
    }
    return QK_OK;
}

qk_status qk__vocab_load(qk__vocab *vocab, const qk__node *at, qk_error *err)
{
    json_t *object = qk__node_json(at), *value; /* its keys may hold U+0000 */
    uint32_t used = 0;
    size_t length;
    const char *key;
    *vocab = (qk__vocab){0};
    QK_TRY(reserve(vocab, at, err));
    json_object_keylen_foreach(object, key, length, value)
    {
        const qk__node id = {.value = value, .parent = at, .name = key};
        qk__vocab_entry *entry = &vocab->entries[vocab->count];
        QK_TRY(qk__token_id(&id, NULL, &entry->id, err));
        memcpy(vocab->text + used, key, length + 1);
        entry->offset = used;
        entry->length = (uint32_t)length;
        *find_slot(vocab, vocab->text + used, length) = (uint32_t)++vocab->count;
        used += (uint32_t)length + 1;
        if ((size_t)entry->id >= vocab->num_ids)
            vocab->num_ids = (size_t)entry->id + 1;
    }
    return index_ids(vocab, at, err);
}

void qk__vocab_free(qk__vocab *vocab)
{
    free(vocab->text);
    free(vocab->entries);
    free(vocab->slots);
    free(vocab->by_id);
    *vocab = (qk__vocab){0};
}

int32_t qk__vocab_find(const qk__vocab *vocab, const void *text, size_t length)
{
    uint32_t entry = *find_slot(vocab, text, length);
    return entry == 0 ? -1 : vocab->entries[entry - 1].id;
}

const char *qk__vocab_text(const qk__vocab *vocab, int32_t id, size_t *length)
{
    if (id < 0 || (size_t)id >= vocab->num_ids || vocab->by_id[id] == 0)
        return NULL;
    const qk__vocab_entry *entry = &vocab->entries[vocab->by_id[id] - 1];
    *length = entry->length;
    return vocab->text + entry->offset;
}
