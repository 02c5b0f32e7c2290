/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens from tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

enum { MAX_ADDED = 1 << 20 };

static const qk__json_place LIST = {NULL, "added_tokens", 0};

/* Hugging Face's tokenizers number a token that the vocabulary lacks themselves, the next free
 * number from the size of the vocabulary on, whatever the file says. A file that says otherwise
 * is refused rather than read one way or the other. `seen` has those so far as its keys. */
static qk_status check_id(const qk_tokenizer *t, const qk__added_token *token, int32_t *next,
                          json_t *seen, const qk__json_place *at, qk_error *err)
{
    const qk__json_place place = {at, "id", 0};
    int32_t wanted = qk__vocab_find(&t->bpe.vocab, token->content, token->length);
    if (wanted < 0) {
        if (json_object_set_new_nocheck(seen, token->content, json_null()) != 0)
            return qk__nomem(err);
        wanted = (*next)++;
        if (json_object_size(seen) != (size_t)*next - t->bpe.vocab.count)
            return qk__fail_at(at, err, QK_ERR_INCONSISTENT, "\"%.60s\" is listed twice",
                               token->content);
    }
    if (wanted != token->id)
        return qk__fail_at(&place, err, QK_ERR_INCONSISTENT,
                           "%d, where the token \"%.60s\" would get %d", token->id,
                           token->content, wanted);
    return QK_OK;
}

static qk_status load_token(qk_tokenizer *t, const json_t *item, int32_t *next, json_t *seen,
                            const qk__json_place *at, qk_error *err)
{
    const char *content;
    size_t length;
    qk__added_token token = {0};
    const qk__json_place id_place = {at, "id", 0};
    if (!json_is_object(item))
        return qk__fail_at(at, err, QK_ERR_MALFORMED, "expected an object");
    QK_TRY(qk__need_string(item, "content", at, &content, &length, err));
    QK_TRY(qk__token_id(json_object_get(item, "id"), &id_place, &token.id, err));
    QK_TRY(qk__get_bool(item, "single_word", false, at, &token.single_word, err));
    QK_TRY(qk__get_bool(item, "lstrip", false, at, &token.lstrip, err));
    QK_TRY(qk__get_bool(item, "rstrip", false, at, &token.rstrip, err));
    QK_TRY(qk__get_bool(item, "special", false, at, &token.special, err));
    QK_TRY(qk__get_bool(item, "normalized", !token.special, at, &token.normalized, err));
    if (length == 0)
        return QK_OK;
    if (length > QK__MAX_ADDED_BYTES)
        return qk__fail_at(at, err, QK_ERR_UNSUPPORTED, "a token of %zu bytes, more than %d",
                           length, QK__MAX_ADDED_BYTES);
    if (strlen(content) != length)
        return qk__fail_at(at, err, QK_ERR_UNSUPPORTED, "a token with a zero byte");
    token.content = qk__strdup(content);
    token.length = length;
    if (!token.content)
        return qk__nomem(err);
    qk_status status = check_id(t, &token, next, seen, at, err);
    if (status != QK_OK) {
        free(token.content);
        return status;
    }
    t->added[t->num_added++] = token;
    return QK_OK;
}

/* ---- what is looked for ----------------------------------------------------------------- */

static qk_status normalize_token(const qk_tokenizer *t, const qk__added_token *token,
                                 qk__regex_run *run, qk__buffer *out, qk_error *err)
{
    qk__buffer text = {0}, other = {0};
    bool at_start = true;
    qk_status status = qk__buffer_append(&text, token->content, token->length, err);
    if (status == QK_OK)
        status = qk__normalize(&t->normalizers, run, &text, &other, &at_start, err);
    if (status == QK_OK)
        status = qk__buffer_append(out, text.data, text.size, err);
    qk__buffer_free(&text);
    qk__buffer_free(&other);
    return status;
}

/* The normalized texts one after the other; patterns' lengths are set, their texts not yet. */
static qk_status normalize_tokens(qk_tokenizer *t, qk__added_pattern *patterns, size_t *count,
                                  qk_error *err)
{
    qk__regex_run *run;
    qk_status status = qk__regex_run_new(&run, 0, err);
    *count = 0;
    for (size_t i = 0; i < t->num_added && status == QK_OK; i++) {
        const qk__added_token *token = &t->added[i];
        const qk__json_place place = {&LIST, NULL, i};
        size_t before = t->added_text.size;
        if (!token->normalized)
            continue;
        status = normalize_token(t, token, run, &t->added_text, err);
        size_t length = t->added_text.size - before;
        if (status == QK_OK && (length == 0 || length > QK__MAX_ADDED_BYTES))
            status = qk__fail_at(&place, err, QK_ERR_UNSUPPORTED,
                                 "the normalizer makes %zu bytes of \"%.60s\"", length,
                                 token->content);
        patterns[(*count)++] = (qk__added_pattern){NULL, length, token};
    }
    qk__regex_run_free(run);
    return status;
}

static qk_status make_sets(qk_tokenizer *t, qk_error *err)
{
    size_t count = 0;
    qk__added_pattern *before = qk__calloc(t->num_added + 1, sizeof *before);
    qk__added_pattern *after = qk__calloc(t->num_added + 1, sizeof *after);
    t->before.patterns = before; /* released with the tokenizer, whatever happens */
    t->after.patterns = after;
    if (!before || !after)
        return qk__nomem(err);
    for (size_t i = 0; i < t->num_added; i++)
        if (!t->added[i].normalized)
            before[count++] = (qk__added_pattern){(const uint8_t *)t->added[i].content,
                                                  t->added[i].length, &t->added[i]};
    QK_TRY(qk__added_set_init(&t->before, before, count, err));
    QK_TRY(normalize_tokens(t, after, &count, err));
    const uint8_t *text = t->added_text.data;
    for (size_t i = 0; i < count; i++) {
        after[i].text = text;
        text += after[i].length;
    }
    return qk__added_set_init(&t->after, after, count, err);
}

qk_status qk__added_load(qk_tokenizer *t, const json_t *list, qk_error *err)
{
    size_t count = json_array_size(list);
    int32_t next = (int32_t)t->bpe.vocab.count;
    if (list && !json_is_null(list) && !json_is_array(list))
        return qk__fail_at(&LIST, err, QK_ERR_MALFORMED, "expected a list");
    if (count > MAX_ADDED)
        return qk__fail_at(&LIST, err, QK_ERR_UNSUPPORTED, "more than %d", MAX_ADDED);
    t->added = qk__calloc(count + 1, sizeof *t->added);
    if (!t->added)
        return qk__nomem(err);
    json_t *seen = json_object();
    qk_status status = seen ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < count && status == QK_OK; i++) {
        const qk__json_place place = {&LIST, NULL, i};
        status = load_token(t, json_array_get(list, i), &next, seen, &place, err);
    }
    json_decref(seen);
    return status == QK_OK ? make_sets(t, err) : status;
}

void qk__added_free(qk_tokenizer *t)
{
    for (size_t i = 0; i < t->num_added; i++)
        free(t->added[i].content);
    free(t->added);
    free(t->before.patterns);
    free(t->after.patterns);
    qk__buffer_free(&t->added_text);
}
