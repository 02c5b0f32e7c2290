/* SPDX-License-Identifier: Apache-2.0 */
/* Where a word can be cut before merging without a change to its tokens: between two symbols
 * that never meet in the middle of a merge. A merge of A and B joins the last symbol of A to
 * the first of B; the pairs that occur so are noted as bits in a table by their hash. A bit set
 * by another pair costs a cut, not correctness. SentencePiece-style models see whole documents
 * as one word; cut so, it falls into words that repeat. */
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/bpe.h"

enum { MAX_CANDIDATES = 3, BITS_PER_PAIR = 16 };

/* The symbols that a text may begin (end) with before anything merged: its first (last)
 * character; the byte token or the unknown token whose text it begins (ends) with. */
static size_t outer_symbols(const qk__bpe *bpe, const char *text, size_t length, bool last,
                            int32_t found[MAX_CANDIDATES])
{
    const uint8_t *bytes = (const uint8_t *)text;
    size_t count = 0, size, byte_size = strlen("<0x00>");
    const uint8_t *p = last ? qk__utf8_previous(bytes, bytes + length) : bytes;
    uint32_t c = qk__utf8_read(p, &size);
    int32_t id = qk__bpe_character(bpe, c, p, size);
    if (id >= 0)
        found[count++] = id;
    const char *byte = last && length >= byte_size ? text + length - byte_size : text;
    if (length >= byte_size && memcmp(byte, "<0x", 3) == 0) {
        id = qk__vocab_find(&bpe->vocab, byte, byte_size);
        for (size_t b = 0; id >= 0 && b < 256; b++)
            if (bpe->bytes[b] == id)
                found[count++] = id;
    }
    size_t unknown = bpe->unknown_length;
    if (bpe->unknown >= 0 && unknown <= length &&
        (unknown == 0 ||
         memcmp(last ? text + length - unknown : text, bpe->unknown_text, unknown) == 0))
        found[count++] = bpe->unknown;
    return count;
}

static void note_merge(qk__bpe *bpe, const qk__merge *merge)
{
    int32_t left[MAX_CANDIDATES], right[MAX_CANDIDATES];
    size_t left_length, right_length;
    const char *left_text = qk__vocab_text(&bpe->vocab, merge->left, &left_length);
    const char *right_text = qk__vocab_text(&bpe->vocab, merge->right, &right_length);
    if (left_length == 0 || right_length == 0)
        return; /* nothing becomes an empty token */
    size_t num_left = outer_symbols(bpe, left_text, left_length, true, left);
    size_t num_right = outer_symbols(bpe, right_text, right_length, false, right);
    for (size_t i = 0; i < num_left; i++) {
        for (size_t j = 0; j < num_right; j++) {
            size_t bit = qk__merge_hash(left[i], right[j]) & bpe->seam_mask;
            bpe->seams[bit / 64] |= UINT64_C(1) << bit % 64;
        }
    }
}

qk_status qk__bpe_note_seams(qk__bpe *bpe, qk_error *err)
{
    size_t bits = 1 << 12;
    while (bits < BITS_PER_PAIR * bpe->num_merges)
        bits *= 2;
    bpe->seams = qk__calloc(bits / 64, sizeof *bpe->seams);
    if (!bpe->seams)
        return qk__nomem(err);
    bpe->seam_mask = bits - 1;
    for (size_t i = 0; i <= bpe->merge_mask; i++)
        if (bpe->merges[i].left >= 0)
            note_merge(bpe, &bpe->merges[i]);
    return QK_OK;
}
