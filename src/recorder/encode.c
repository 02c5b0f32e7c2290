/* SPDX-License-Identifier: Apache-2.0 */
/* Turns texts into tokens for the model; splits, cuts or skips texts with too many. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "recorder/recording.h"
#include "tokenizer/tokenizer.h"

static qk_status check_vocabulary(const qk__recording *r, const qk_tokens *tokens,
                                  qk_error *err)
{
    for (size_t i = 0; i < tokens->count; i++)
        if (tokens->ids[i] < 0 || tokens->ids[i] >= r->facts->vocab_size)
            return qk__fail(
                err, QK_ERR_INCONSISTENT,
                "token %d of the tokenizer is not in the model's vocabulary of %d: is it this "
                "model's tokenizer?",
                tokens->ids[i], r->facts->vocab_size);
    return QK_OK;
}

/* The text's own tokens in a window. */
static size_t window_room(const qk__recording *r)
{
    size_t special = r->specials_before + r->specials_after;
    return (size_t)r->max_length > special ? (size_t)r->max_length - special : 0;
}

static size_t count_own(const qk__recording *r, const qk__encoded *e)
{
    return e->tokens.count - r->specials_before - r->specials_after;
}

static qk_status split(const qk__recording *r, qk__encoded *e, qk_error *err)
{
    size_t room = window_room(r);
    if (room == 0)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "a length of %lld has no room for text beside the special tokens",
                        (long long)r->max_length);
    e->windows = (count_own(r, e) - 1) / room + 1;
    return QK_OK;
}

static qk_status tokenize(const qk__recording *r, const qk__input_text *text, size_t max_length,
                          qk_tokens *tokens, qk_error *err)
{
    const qk_recorder_engine *engine = r->settings->engine;
    qk_tokens theirs = {0};
    *tokens = (qk_tokens){0};
    if (!engine && !r->tokenizer) /* made-up texts need no tokenizer */
        return QK_OK;
    if (!engine)
        return qk_tokenizer_encode(r->tokenizer, text->data, text->size, true, max_length,
                                   tokens, err);
    if (!engine->encode(engine->user, text->data, text->size, max_length, &theirs))
        return qk__engine_failed(r, "encode", err);
    if (theirs.count == 0)
        return QK_OK;
    tokens->ids = qk__calloc(theirs.count, sizeof *tokens->ids);
    if (!tokens->ids)
        return qk__nomem(err);
    memcpy(tokens->ids, theirs.ids, theirs.count * sizeof *theirs.ids);
    tokens->count = theirs.count;
    return QK_OK;
}

/* The tokens of a made-up text, and around them what is put around every text. */
static qk_status make_tokens(const qk__recording *r, const qk__input_text *text,
                             size_t max_length, qk_tokens *tokens, qk_error *err)
{
    size_t before = r->specials_before, special = before + r->specials_after;
    size_t own = (size_t)(text->repeat->length * text->repeat->times);
    if (max_length > 0 && special + own > max_length)
        own = max_length > special ? max_length - special : 0;
    qk_tokens round;
    QK_TRY(tokenize(r, text, 0, &round, err));
    *tokens = (qk_tokens){qk__calloc(special + own + 1, sizeof *tokens->ids), special + own};
    qk_status status = tokens->ids ? QK_OK : qk__nomem(err);
    if (status == QK_OK && round.count != special)
        status =
            qk__fail(err, QK_ERR_UNSUPPORTED,
                     "the tokenizer makes %zu tokens of an empty text, not the %zu that it "
                     "puts round others: texts cannot be made",
                     round.count, special);
    if (status == QK_OK && special > 0) {
        memcpy(tokens->ids, round.ids, before * sizeof *round.ids);
        memcpy(tokens->ids + before + own, round.ids + before,
               r->specials_after * sizeof *round.ids);
    }
    if (status == QK_OK)
        qk__draw_tokens(text, (const int32_t *)(const void *)r->drawn.data,
                        r->drawn.size / sizeof(int32_t), tokens->ids + before, own);
    else
        qk_tokens_free(tokens);
    qk_tokens_free(&round);
    return status;
}

static qk_status take_tokens(const qk__recording *r, const qk__input_text *text,
                             size_t max_length, qk_tokens *tokens, qk_error *err)
{
    return text->repeat ? make_tokens(r, text, max_length, tokens, err)
                        : tokenize(r, text, max_length, tokens, err);
}

qk_status qk__list_drawn(qk__recording *r, qk_error *err)
{
    const qk_recorder_engine *engine = r->settings->engine;
    size_t count = (size_t)r->facts->vocab_size;
    bool *special = qk__calloc(count, sizeof *special);
    qk_status status = special ? QK_OK : qk__nomem(err);
    if (special && engine)
        for (size_t i = 0; i < engine->num_special; i++)
            if (engine->special[i] >= 0 && (size_t)engine->special[i] < count)
                special[engine->special[i]] = true;
    if (special && r->tokenizer)
        qk__tokenizer_mark_special(r->tokenizer, special, count);
    for (int32_t id = 0; status == QK_OK && (size_t)id < count; id++)
        if (!special[id])
            status = qk__buffer_append(&r->drawn, &id, sizeof id, err);
    free(special);
    if (status == QK_OK && r->drawn.size == 0)
        status = qk__fail(err, QK_ERR_DEGENERATE,
                          "all tokens of the vocabulary are special: there are none to make "
                          "texts of");
    return status;
}

static qk_status encode(const qk__recording *r, const qk__input_text *text, qk__encoded *e,
                        qk_error *err)
{
    size_t limit = (size_t)r->max_length;
    bool whole = r->settings->long_texts == QK_LONG_SPLIT;
    QK_TRY(take_tokens(r, text, whole ? 0 : limit + 1, &e->tokens, err));
    e->windows = e->tokens.count > 0;
    if (e->tokens.count > limit && r->settings->long_texts == QK_LONG_SKIP) {
        e->skipped = true;
        e->windows = 0;
    } else if (e->tokens.count > limit && whole) {
        QK_TRY(split(r, e, err));
    } else if (e->tokens.count > limit) { /* the tokenizer says which end is cut */
        e->cut = true;
        qk_tokens_free(&e->tokens);
        QK_TRY(take_tokens(r, text, limit, &e->tokens, err));
    }
    return check_vocabulary(r, &e->tokens, err);
}

qk_status qk__encode(const qk__recording *r, const qk__input_text *text, qk__encoded *encoded,
                     qk_error *err)
{
    *encoded = (qk__encoded){0};
    qk_status status = encode(r, text, encoded, err);
    if (status != QK_OK)
        qk_tokens_free(&encoded->tokens);
    return status;
}

size_t qk__window_start(const qk__recording *r, size_t window)
{
    return window * window_room(r);
}

size_t qk__window_tokens(const qk__recording *r, const qk__encoded *encoded, size_t window)
{
    if (encoded->windows == 1)
        return encoded->tokens.count;
    size_t rest = count_own(r, encoded) - qk__window_start(r, window);
    size_t room = window_room(r);
    return (rest < room ? rest : room) + r->specials_before + r->specials_after;
}

qk_status qk__take_window(const qk__recording *r, qk__encoded *encoded, size_t window,
                          qk_tokens *tokens, qk_error *err)
{
    if (encoded->windows == 1) {
        *tokens = encoded->tokens;
        encoded->tokens = (qk_tokens){0};
        return QK_OK;
    }
    const int32_t *all = encoded->tokens.ids;
    size_t before = r->specials_before;
    size_t after = r->specials_after;
    tokens->count = qk__window_tokens(r, encoded, window);
    tokens->ids = malloc(tokens->count * sizeof *tokens->ids);
    if (!tokens->ids)
        return qk__nomem(err);
    size_t own = tokens->count - before - after;
    memcpy(tokens->ids, all, before * sizeof *all);
    memcpy(tokens->ids + before, all + before + qk__window_start(r, window), own * sizeof *all);
    memcpy(tokens->ids + before + own, all + encoded->tokens.count - after,
           after * sizeof *all);
    return QK_OK;
}
