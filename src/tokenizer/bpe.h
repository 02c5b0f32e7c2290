/* SPDX-License-Identifier: Apache-2.0 */
/* Byte pair encoding: the characters of a word are merged, pair by pair, in the order of the
 * list of merges; of the pairs with the same place in the list, the leftmost first.
 *
 *     bpe_load.c    reads vocabulary and merges; it calls bpe_seams.c
 *     bpe_seams.c   finds where a word can be cut before it is merged
 *     bpe_merge.c   merges the symbols of a word
 *     bpe_words.c   words to ids; it calls bpe_merge.c */
#ifndef QK_TOKENIZER_BPE_H
#define QK_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "tokenizer/vocabulary.h"

/* ---- the model (bpe_load.c) ------------------------------------------------------------- */

/* What two neighbouring tokens become. A hash table by left and right id. */
typedef struct qk__merge {
    int32_t left, right; /* left -1: empty */
    uint32_t rank;
    int32_t id;
} qk__merge;

typedef struct qk__bpe {
    qk__vocab vocab;
    qk__merge *merges;
    size_t num_merges, merge_mask;
    int32_t *characters; /* ids of the characters below U+10000, -1: none */
    int32_t bytes[256];  /* ids of <0x00> ..., -1: none; all -1 without byte_fallback */
    bool every_byte;     /* none of them is -1 */
    int32_t unknown;     /* id of unk_token, -1: there is none */
    char *unknown_text;  /* unk_token, NULL: not given */
    size_t unknown_length;
    bool fuse_unknown, ignore_merges;
    uint64_t *seams; /* bits by hash; see bpe_seams.c */
    size_t seam_mask;
} qk__bpe;

/* From "model" of the file. On failure, too, released by qk__bpe_free. */
QK_MUST_CHECK qk_status qk__bpe_load(qk__bpe *bpe, const qk__node *root, qk_error *err);
void qk__bpe_free(qk__bpe *bpe);

static inline size_t qk__merge_hash(int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(key ^ key >> 32);
}

/* NULL: the pair does not merge. */
static inline const qk__merge *qk__bpe_merge(const qk__bpe *bpe, int32_t left, int32_t right)
{
    for (size_t i = qk__merge_hash(left, right) & bpe->merge_mask;;
         i = (i + 1) & bpe->merge_mask) {
        const qk__merge *merge = &bpe->merges[i];
        if (merge->left < 0)
            return NULL;
        if (merge->left == left && merge->right == right)
            return merge;
    }
}

/* The id of one character, -1: it has none. */
static inline int32_t qk__bpe_character(const qk__bpe *bpe, uint32_t c, const uint8_t *text,
                                        size_t length)
{
    return c < 0x10000 ? bpe->characters[c] : qk__vocab_find(&bpe->vocab, text, length);
}

/* ---- seams (bpe_seams.c) ---------------------------------------------------------------- */

/* Notes for every merge which single symbols may meet where its halves do. */
QK_MUST_CHECK qk_status qk__bpe_note_seams(qk__bpe *bpe, qk_error *err);

/* False: no merge ever joins what ends with symbol left to what begins with symbol right. */
static inline bool qk__bpe_may_join(const qk__bpe *bpe, int32_t left, int32_t right)
{
    size_t bit = qk__merge_hash(left, right) & bpe->seam_mask;
    return bpe->seams[bit / 64] >> bit % 64 & 1;
}

#endif
