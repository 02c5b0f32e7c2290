/* SPDX-License-Identifier: Apache-2.0 */
/* Reads added tokens from tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/json_parts.h"
#include "tokenizer/tokenizer.h"

enum { MAX_ADDED = 1 << 20 };

/* Hugging Face's tokenizers number a token that the vocabulary lacks themselves, the next free
 * number from the size of the vocabulary on, whatever the file says. A file that says otherwise
 * is refused rather than read one way or the other. `seen` has those so far as its keys. */
static qk_status check_id(const qk_tokenizer *t, const qk__added_token *token, int32_t *next,
                          json_t *seen, const qk__node *at, qk_error *err)
{
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
        return qk__fail_in(at, "id", err, QK_ERR_INCONSISTENT,
                           "%d, where the token \"%.60s\" would get %d", token->id,
                           token->content, wanted);
    return QK_OK;
}

static qk_status load_token(qk_tokenizer *t, qk__node *item, int32_t *next, json_t *seen,
                            qk_error *err)
{
    const char *content;
    qk__added_token token = {0};
    QK_TRY(qk__need_kind(item, NULL, QK__OBJECT, item, err));
    QK_TRY(qk__need_text(item, "content", &content, err));
    QK_TRY(qk__token_id(item, "id", &token.id, err));
    QK_TRY(qk__read_bool(item, "single_word", &token.single_word, err));
    QK_TRY(qk__read_bool(item, "lstrip", &token.lstrip, err));
    QK_TRY(qk__read_bool(item, "rstrip", &token.rstrip, err));
    QK_TRY(qk__read_bool(item, "special", &token.special, err));
    token.normalized = !token.special;
    QK_TRY(qk__read_bool(item, "normalized", &token.normalized, err));
    token.length = strlen(content);
    if (token.length == 0)
        return QK_OK;
    if (token.length > QK__MAX_ADDED_BYTES)
        return qk__fail_at(item, err, QK_ERR_UNSUPPORTED, "a token of %zu bytes, more than %d",
                           token.length, QK__MAX_ADDED_BYTES);
    token.content = qk__strdup(content);
    if (!token.content)
        return qk__nomem(err);
    qk_status status = check_id(t, &token, next, seen, item, err);
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
    qk_status status = qk__regex_run_new(&run, t->num_added * QK__MAX_ADDED_BYTES, err);
    *count = 0;
    for (size_t i = 0; i < t->num_added && status == QK_OK; i++) {
        const qk__added_token *token = &t->added[i];
        size_t before = t->added_text.size;
        if (!token->normalized)
            continue;
        status = normalize_token(t, token, run, &t->added_text, err);
        size_t length = t->added_text.size - before;
        if (status == QK_OK && (length == 0 || length > QK__MAX_ADDED_BYTES))
            status = qk__fail(err, QK_ERR_UNSUPPORTED,
                              "added_tokens[%zu]: the normalizer makes %zu bytes of \"%.60s\"",
                              i, length, token->content);
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

qk_status qk__added_load(qk_tokenizer *t, const qk__node *root, qk_error *err)
{
    qk__node list;
    int32_t next = (int32_t)t->bpe.vocab.count;
    QK_TRY(qk__read_list(root, "added_tokens", 0, &list, err));
    size_t count = qk__node_count(&list);
    if (count > MAX_ADDED)
        return qk__fail_at(&list, err, QK_ERR_UNSUPPORTED, "more than %d", MAX_ADDED);
    t->added = qk__calloc(count + 1, sizeof *t->added);
    if (!t->added)
        return qk__nomem(err);
    json_t *seen = json_object();
    qk_status status = seen ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < count && status == QK_OK; i++) {
        qk__node item = qk__node_item(&list, i);
        status = load_token(t, &item, &next, seen, err);
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
