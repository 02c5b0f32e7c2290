/* SPDX-License-Identifier: Apache-2.0 */
/* Turns texts into tokens for the model, and splits, cuts or skips those that have too many. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "recorder/recording.h"

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

/* Tokens of a window that are the text's own. */
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

static qk_status take_tokens(const qk__recording *r, const qk__input_text *text,
                             size_t max_length, qk_tokens *tokens, qk_error *err)
{
    const qk_recorder_engine *engine = r->settings->engine;
    qk_tokens theirs = {0};
    if (!engine)
        return qk_tokenizer_encode(r->tokenizer, text->data, text->size, true, max_length,
                                   tokens, err);
    if (!engine->encode(engine->user, text->data, text->size, max_length, &theirs))
        return qk__engine_failed(r, "encode", err);
    *tokens = (qk_tokens){0};
    if (theirs.count == 0)
        return QK_OK;
    tokens->ids = qk__calloc(theirs.count, sizeof *tokens->ids);
    if (!tokens->ids)
        return qk__nomem(err);
    memcpy(tokens->ids, theirs.ids, theirs.count * sizeof *theirs.ids);
    tokens->count = theirs.count;
    return QK_OK;
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
    } else if (e->tokens.count > limit) { /* which end is cut is for the tokenizer to say */
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
