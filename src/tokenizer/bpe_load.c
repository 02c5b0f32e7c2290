/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a BPE model from tokenizer.json: its vocabulary and its merges. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/bpe.h"

enum { MAX_MERGES = 1 << 25, NUM_CHARACTERS = 1 << 16 };

/* ---- merges ----------------------------------------------------------------------------- */

/* The two halves of a merge, written "a b" or ["a", "b"]. */
typedef struct halves {
    const char *left, *right;
    size_t left_length, right_length;
} halves;

static qk_status split_merge(const qk__node *at, halves *h, qk_error *err)
{
    const json_t *item = qk__node_json(at);
    if (json_is_array(item)) {
        const json_t *left = json_array_get(item, 0), *right = json_array_get(item, 1);
        if (json_array_size(item) != 2 || !json_is_string(left) || !json_is_string(right))
            return qk__fail_at(at, err, QK_ERR_MALFORMED, "expected two strings");
        *h = (halves){json_string_value(left), json_string_value(right),
                      json_string_length(left), json_string_length(right)};
        return QK_OK;
    }
    const char *text = json_string_value(item), *end = text + json_string_length(item);
    const char *space = text ? memchr(text, ' ', (size_t)(end - text)) : NULL;
    if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1)))
        return qk__fail_at(at, err, QK_ERR_MALFORMED, "expected \"left right\"");
    *h = (halves){text, space + 1, (size_t)(space - text), (size_t)(end - space - 1)};
    return QK_OK;
}

/* The id of text[0 .. length), which is zero-terminated. */
static qk_status find_half(const qk__bpe *bpe, const char *text, size_t length,
                           const qk__node *at, int32_t *id, qk_error *err)
{
    *id = qk__vocab_find(&bpe->vocab, text, length);
    return *id >= 0 ? QK_OK
                    : qk__fail_at(at, err, QK_ERR_INCONSISTENT,
                                  "\"%.80s\" is not in model.vocab", text);
}

/* A pair listed twice has its later place. */
static void insert(qk__bpe *bpe, qk__merge merge)
{
    size_t i = qk__merge_hash(merge.left, merge.right) & bpe->merge_mask;
    while (bpe->merges[i].left >= 0 &&
           (bpe->merges[i].left != merge.left || bpe->merges[i].right != merge.right))
        i = (i + 1) & bpe->merge_mask;
    bpe->num_merges += bpe->merges[i].left < 0;
    bpe->merges[i] = merge;
}

static qk_status add_merge(qk__bpe *bpe, const qk__node *at, uint32_t rank, qk__buffer *joined,
                           qk_error *err)
{
    halves h;
    qk__merge merge = {.rank = rank};
    QK_TRY(split_merge(at, &h, err));
    QK_TRY(find_half(bpe, h.left, h.left_length, at, &merge.left, err));
    QK_TRY(find_half(bpe, h.right, h.right_length, at, &merge.right, err));
    joined->size = 0;
    QK_TRY(qk__buffer_append(joined, h.left, h.left_length, err));
    QK_TRY(qk__buffer_append(joined, h.right, h.right_length, err));
    QK_TRY(qk__buffer_append(joined, "", 1, err));
    QK_TRY(find_half(bpe, (const char *)joined->data, joined->size - 1, at, &merge.id, err));
    insert(bpe, merge);
    return QK_OK;
}

static qk_status load_merges(qk__bpe *bpe, const qk__node *model, qk_error *err)
{
    qk__node list;
    qk_status status = QK_OK;
    qk__buffer joined = {0};
    size_t slots = 16, count;
    QK_TRY(qk__need_kind(model, "merges", QK__LIST, &list, err));
    count = qk__node_count(&list);
    if (count > MAX_MERGES)
        return qk__fail_at(&list, err, QK_ERR_UNSUPPORTED, "more than %d", MAX_MERGES);
    while (slots < 2 * count)
        slots *= 2;
    bpe->merges = qk__calloc(slots, sizeof *bpe->merges);
    if (!bpe->merges)
        return qk__nomem(err);
    bpe->merge_mask = slots - 1;
    for (size_t i = 0; i < slots; i++)
        bpe->merges[i].left = -1;
    for (size_t i = 0; i < count && status == QK_OK; i++) {
        qk__node item = qk__node_item(&list, i);
        const char *text = json_string_value(qk__node_json(&item));
        if (text && strncmp(text, "#version", strlen("#version")) == 0)
            continue; /* the first line of merges.txt */
        status = add_merge(bpe, &item, (uint32_t)i, &joined, err);
    }
    qk__buffer_free(&joined);
    return status;
}

/* ---- the rest --------------------------------------------------------------------------- */

static qk_status load_characters(qk__bpe *bpe, qk_error *err)
{
    bpe->characters = malloc(NUM_CHARACTERS * sizeof *bpe->characters);
    if (!bpe->characters)
        return qk__nomem(err);
    for (size_t c = 0; c < NUM_CHARACTERS; c++)
        bpe->characters[c] = -1;
    for (size_t i = 0; i < bpe->vocab.count; i++) {
        const qk__vocab_entry *entry = &bpe->vocab.entries[i];
        const uint8_t *text = (const uint8_t *)bpe->vocab.text + entry->offset;
        size_t length;
        if (entry->length == 0 || entry->length != qk__utf8_length(text))
            continue;
        uint32_t c = qk__utf8_read(text, &length);
        if (c < NUM_CHARACTERS)
            bpe->characters[c] = entry->id;
    }
    return QK_OK;
}

static void load_bytes(qk__bpe *bpe, bool fallback)
{
    bpe->every_byte = fallback;
    for (unsigned b = 0; b < 256; b++) {
        char text[8];
        int length = snprintf(text, sizeof text, "<0x%02X>", b);
        bpe->bytes[b] = fallback ? qk__vocab_find(&bpe->vocab, text, (size_t)length) : -1;
        if (bpe->bytes[b] < 0)
            bpe->every_byte = false;
    }
}

static qk_status refuse_affixes(const qk__node *model, qk_error *err)
{
    static const char *const KEYS[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        const char *text = "";
        QK_TRY(qk__read_text(model, KEYS[i], &text, err));
        if (*text)
            return qk__fail_in(model, KEYS[i], err, QK_ERR_UNSUPPORTED,
                               "there is no support for it");
    }
    double dropout = 0;
    QK_TRY(qk__read_real(model, "dropout", 0, 1, &dropout, err));
    return dropout == 0 ? QK_OK
                        : qk__fail_in(model, "dropout", err, QK_ERR_UNSUPPORTED,
                                      "merges left out at random would make every run another");
}

static qk_status load_unknown(qk__bpe *bpe, const qk__node *model, qk_error *err)
{
    const char *text = NULL;
    bpe->unknown = -1;
    QK_TRY(qk__read_text(model, "unk_token", &text, err));
    QK_TRY(qk__read_bool(model, "fuse_unk", &bpe->fuse_unknown, err));
    if (!text)
        return QK_OK;
    bpe->unknown_text = qk__strdup(text);
    if (!bpe->unknown_text)
        return qk__nomem(err);
    bpe->unknown_length = strlen(text);
    bpe->unknown = qk__vocab_find(&bpe->vocab, text, bpe->unknown_length);
    return QK_OK;
}

/* "BPE"; files of old have no type, but merges. */
static qk_status check_type(const qk__node *model, qk_error *err)
{
    const char *type;
    if (qk__node_kind_in(model, "type") == QK__NOTHING &&
        qk__node_kind_in(model, "merges") != QK__NOTHING)
        return QK_OK;
    QK_TRY(qk__need_text(model, "type", &type, err));
    if (strcmp(type, "BPE") != 0)
        return qk__fail_in(model, "type", err, QK_ERR_UNSUPPORTED,
                           "there is support for \"BPE\", not for \"%.60s\"", type);
    return QK_OK;
}

qk_status qk__bpe_load(qk__bpe *bpe, const qk__node *root, qk_error *err)
{
    qk__node model, vocab;
    bool fallback = false;
    *bpe = (qk__bpe){.unknown = -1};
    QK_TRY(qk__need_kind(root, "model", QK__OBJECT, &model, err));
    QK_TRY(check_type(&model, err));
    QK_TRY(refuse_affixes(&model, err));
    QK_TRY(qk__need_kind(&model, "vocab", QK__OBJECT, &vocab, err));
    QK_TRY(qk__vocab_load(&bpe->vocab, &vocab, err));
    QK_TRY(qk__read_bool(&model, "byte_fallback", &fallback, err));
    QK_TRY(qk__read_bool(&model, "ignore_merges", &bpe->ignore_merges, err));
    QK_TRY(load_unknown(bpe, &model, err));
    load_bytes(bpe, fallback);
    QK_TRY(load_characters(bpe, err));
    QK_TRY(load_merges(bpe, &model, err));
    return qk__bpe_note_seams(bpe, err);
}

void qk__bpe_free(qk__bpe *bpe)
{
    qk__vocab_free(&bpe->vocab);
    free(bpe->merges);
    free(bpe->characters);
    free(bpe->unknown_text);
    free(bpe->seams);
    *bpe = (qk__bpe){.unknown = -1};
}
