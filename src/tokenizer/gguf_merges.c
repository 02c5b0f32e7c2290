/* SPDX-License-Identifier: Apache-2.0 */
/* Merges from scores. SentencePiece joins the two neighbours whose union has the best score;
 * published tokenizer.json files of such models have all pairs of pieces whose union is a
 * piece, best union first; of one union, the pair with the longest left half. */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "base/utf8.h"
#include "tokenizer/gguf_tokenizer.h"

/* No piece that was trained is longer; longer ones were added by hand and are found whole. */
enum { MAX_PIECE_BYTES = 256 };

typedef struct pair {
    double score;
    uint32_t piece;
    uint16_t bytes;       /* of the left half */
    uint16_t left, right; /* characters */
} pair;

typedef struct pairs {
    pair *items;
    size_t count, capacity;
} pairs;

static qk_status add_pair(pairs *p, pair item, qk_error *err)
{
    if (p->count == p->capacity) {
        pair *items = qk__grow(p->items, &p->capacity, sizeof *items);
        if (!items)
            return qk__nomem(err);
        p->items = items;
    }
    p->items[p->count++] = item;
    return QK_OK;
}

static int compare_pairs(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->left != y->left)
        return x->left > y->left ? -1 : 1;
    if (x->right != y->right)
        return x->right > y->right ? -1 : 1;
    return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static uint16_t count_characters(const char *text, size_t size)
{
    uint16_t count = 0;
    for (size_t at = 0; at < size; at += qk__utf8_length((const uint8_t *)text + at))
        count++;
    return count;
}

static qk_status split_piece(pairs *p, const char *text, size_t size, pair item,
                             json_t *vocabulary, qk_error *err)
{
    uint16_t characters = count_characters(text, size);
    size_t at = 0;
    for (item.left = 1; item.left < characters; item.left++) {
        at += qk__utf8_length((const uint8_t *)text + at);
        item.bytes = (uint16_t)at;
        item.right = (uint16_t)(characters - item.left);
        if (json_object_getn(vocabulary, text, at) &&
            json_object_getn(vocabulary, text + at, size - at))
            QK_TRY(add_pair(p, item, err));
    }
    return QK_OK;
}

static qk_status collect(pairs *p, const json_t *tokens, const json_t *scores,
                         json_t *vocabulary, qk_error *err)
{
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *token = json_array_get(tokens, i);
        size_t size = json_string_length(token);
        const char *text = json_string_value(token);
        double score =
            scores ? json_number_value(json_array_get(scores, i)) : -(double)(uint32_t)i;
        if (size <= MAX_PIECE_BYTES && json_object_getn(vocabulary, text, size))
            QK_TRY(split_piece(p, text, size, (pair){.score = score, .piece = (uint32_t)i},
                               vocabulary, err));
    }
    return QK_OK;
}

/* NULL: out of memory. */
static json_t *list(const pairs *p, const json_t *tokens)
{
    json_t *merges = json_array();
    for (size_t i = 0; merges && i < p->count; i++) {
        const pair *item = &p->items[i];
        const json_t *token = json_array_get(tokens, item->piece);
        const char *text = json_string_value(token);
        merges = qk__json_append(merges, json_pack("[s%, s%]", text, (size_t)item->bytes,
                                                   text + item->bytes,
                                                   json_string_length(token) - item->bytes));
    }
    return merges;
}

qk_status qk__gguf_merges(const json_t *tokens, const json_t *scores, json_t *vocabulary,
                          json_t **merges, qk_error *err)
{
    pairs p = {0};
    qk_status status = collect(&p, tokens, scores, vocabulary, err);
    if (p.count > 1)
        qsort(p.items, p.count, sizeof *p.items, compare_pairs);
    *merges = status == QK_OK ? list(&p, tokens) : NULL;
    free(p.items);
    return *merges ? QK_OK : qk__nomem(err);
}
