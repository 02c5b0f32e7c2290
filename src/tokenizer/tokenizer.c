/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes a text: finds added tokens, normalizes what lies between, cuts it into words, turns
 * these into ids, and puts special tokens around them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "tokenizer/bpe_words.h"
#include "tokenizer/tokenizer.h"

/* One call's state: nothing of it is shared between threads. */
typedef struct encoder {
    const qk_tokenizer *t;
    qk__regex_run *regex;
    qk__bpe_run *bpe;
    qk__cutting cutting;
    qk__buffer clean;       /* the text, where it was not UTF-8 */
    qk__buffer text, other; /* a stretch being normalized */
    size_t enough;          /* ids after which the rest does not matter */
} encoder;

static bool has_enough(const encoder *e)
{
    size_t count;
    qk__bpe_ids(e->bpe, &count);
    return count >= e->enough;
}

static qk_status encode_pieces(encoder *e, qk_error *err)
{
    const qk__cutting *c = &e->cutting;
    for (size_t i = 0; i < c->pieces.count && !has_enough(e); i++) {
        qk__piece piece = c->pieces.items[i];
        QK_TRY(qk__bpe_word(e->bpe, c->text.data + piece.start, piece.end - piece.start, err));
    }
    return QK_OK;
}

/* e->text, normalized: tokens that are found only now, and the text between them. */
static qk_status encode_normalized(encoder *e, bool at_start, qk_error *err)
{
    qk__added_walk walk = {.set = &e->t->after, .text = e->text.data, .size = e->text.size};
    qk__stretch s;
    while (!has_enough(e) && qk__added_next(&walk, &s)) {
        if (s.token) {
            QK_TRY(qk__bpe_id(e->bpe, s.token->id, err));
            continue;
        }
        e->cutting.text.size = 0;
        QK_TRY(
            qk__buffer_append(&e->cutting.text, e->text.data + s.start, s.end - s.start, err));
        e->cutting.at_start = at_start && s.start == 0;
        QK_TRY(qk__cut(&e->t->cutters, e->regex, &e->cutting, err));
        QK_TRY(encode_pieces(e, err));
    }
    return QK_OK;
}

static qk_status encode_text(encoder *e, const uint8_t *text, size_t size, qk_error *err)
{
    qk__added_walk walk = {.set = &e->t->before, .text = text, .size = size};
    qk__stretch s;
    while (!has_enough(e) && qk__added_next(&walk, &s)) {
        if (s.token) {
            QK_TRY(qk__bpe_id(e->bpe, s.token->id, err));
            continue;
        }
        bool at_start = s.start == 0;
        e->text.size = 0;
        QK_TRY(qk__buffer_append(&e->text, text + s.start, s.end - s.start, err));
        QK_TRY(
            qk__normalize(&e->t->normalizers, e->regex, &e->text, &e->other, &at_start, err));
        QK_TRY(encode_normalized(e, at_start, err));
    }
    return QK_OK;
}

/* The special tokens and at most `room` of the ids between them. */
static qk_status surround(const encoder *e, bool special, size_t room, qk_tokens *tokens,
                          qk_error *err)
{
    const qk_tokenizer *t = e->t;
    size_t count, before = special ? t->num_prefix : 0, after = special ? t->num_suffix : 0;
    const int32_t *ids = qk__bpe_ids(e->bpe, &count);
    if (count > room) {
        ids += t->cut_left ? count - room : 0;
        count = room;
    }
    tokens->count = before + count + after;
    tokens->ids = malloc((tokens->count + 1) * sizeof *tokens->ids);
    if (!tokens->ids)
        return qk__nomem(err);
    if (before > 0)
        memcpy(tokens->ids, t->prefix, before * sizeof *ids);
    if (count > 0)
        memcpy(tokens->ids + before, ids, count * sizeof *ids);
    if (after > 0)
        memcpy(tokens->ids + before + count, t->suffix, after * sizeof *ids);
    return QK_OK;
}

static qk_status encode(encoder *e, const uint8_t *text, size_t size, bool special, size_t room,
                        qk_tokens *tokens, qk_error *err)
{
    QK_TRY(qk__regex_run_new(&e->regex, size, err));
    QK_TRY(qk__bpe_run_new(&e->bpe, &e->t->bpe, err));
    if (qk__utf8_valid(text, size) != size) {
        QK_TRY(qk__utf8_clean(text, size, &e->clean, err));
        text = e->clean.data;
        size = e->clean.size;
    }
    QK_TRY(encode_text(e, text, size, err));
    return surround(e, special, room, tokens, err);
}

qk_status qk_tokenizer_encode(const qk_tokenizer *tokenizer, const char *text, size_t size,
                              bool special, size_t max_length, qk_tokens *tokens, qk_error *err)
{
    QK_NEED(err, tokens);
    *tokens = (qk_tokens){0};
    QK_NEED(err, tokenizer);
    if (size > 0)
        QK_NEED(err, text);
    size_t added = special ? tokenizer->num_prefix + tokenizer->num_suffix : 0;
    if (size > QK_MAX_TEXT_BYTES)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "a text of %zu bytes, more than %zu", size,
                        QK_MAX_TEXT_BYTES);
    if (max_length > 0 && max_length < added)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "a length of %zu has no room for the %zu special tokens", max_length,
                        added);
    size_t room = max_length > 0 ? max_length - added : SIZE_MAX;
    encoder e = {.t = tokenizer, .enough = tokenizer->cut_left ? SIZE_MAX : room};
    qk_status status = encode(&e, (const uint8_t *)text, size, special, room, tokens, err);
    qk__regex_run_free(e.regex);
    qk__bpe_run_free(e.bpe);
    qk__cutting_free(&e.cutting);
    qk__buffer_free(&e.clean);
    qk__buffer_free(&e.text);
    qk__buffer_free(&e.other);
    return status;
}

void qk__tokenizer_special(const qk_tokenizer *tokenizer, size_t *before, size_t *after)
{
    assert(tokenizer && before && after);
    *before = tokenizer->num_prefix;
    *after = tokenizer->num_suffix;
}

void qk__tokenizer_mark_special(const qk_tokenizer *t, bool *special, size_t count)
{
    for (size_t id = 0; id < count; id++)
        special[id] = special[id] || !qk_tokenizer_piece(t, (int32_t)id);
    for (size_t i = 0; i < t->num_added; i++)
        if (t->added[i].special && (size_t)t->added[i].id < count)
            special[t->added[i].id] = true;
    for (size_t i = 0; i < t->num_prefix + t->num_suffix; i++) {
        int32_t id = i < t->num_prefix ? t->prefix[i] : t->suffix[i - t->num_prefix];
        if ((size_t)id < count)
            special[id] = true;
    }
}

qk_status qk_tokenizer_encode_file(const qk_tokenizer *tokenizer, const char *path,
                                   bool special, size_t max_length, qk_tokens *tokens,
                                   qk_error *err)
{
    QK_NEED(err, tokens);
    *tokens = (qk_tokens){0};
    QK_NEED(err, tokenizer, path);
    qk__buffer text;
    QK_TRY(qk__read_file(path, QK_MAX_TEXT_BYTES, &text, err));
    const size_t mark = qk__utf8_mark(text.data, text.size);
    qk_status status = qk_tokenizer_encode(tokenizer, (const char *)text.data + mark,
                                           text.size - mark, special, max_length, tokens, err);
    qk__buffer_free(&text);
    return qk__context(err, status, "%s", path);
}

void qk_tokens_free(qk_tokens *tokens)
{
    assert(tokens);
    free(tokens->ids);
    *tokens = (qk_tokens){0};
}

const char *qk_tokenizer_piece(const qk_tokenizer *tokenizer, int32_t id)
{
    assert(tokenizer);
    return id >= 0 && (size_t)id < tokenizer->num_names ? tokenizer->names[id] : NULL;
}

size_t qk_tokenizer_vocabulary(const qk_tokenizer *tokenizer)
{
    assert(tokenizer);
    return tokenizer->num_names;
}

uint64_t qk__tokenizer_fingerprint(const qk_tokenizer *tokenizer)
{
    assert(tokenizer);
    return tokenizer->fingerprint;
}
