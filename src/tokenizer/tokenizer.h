/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer's parts, as tokenizer.json has them.
 *
 *     tokenizer_load.c      opens it: calls all that read a part
 *     tokenizer.c           encodes: calls all that apply one
 *     added_tokens_load.c, post_process.c   read the parts that need others */
#ifndef QK_TOKENIZER_TOKENIZER_H
#define QK_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/model.h>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pretokenize.h"

struct qk_tokenizer {
    qk__normalizers normalizers;
    qk__cutters cutters;
    qk__bpe bpe;
    qk__added_token *added;
    size_t num_added;
    qk__added_set before, after; /* found before and after normalization */
    qk__buffer added_text;       /* what the tokens of `after` look like then */
    int32_t *prefix, *suffix;    /* special tokens around a text */
    size_t num_prefix, num_suffix;
    bool cut_left;      /* a text that is too long loses its beginning */
    const char **names; /* pieces by id, NULL: none */
    size_t num_names;
    uint64_t fingerprint;
};

/* Sets those of `count` ids that stand for no text: special tokens, and ids without a piece. */
void qk__tokenizer_mark_special(const qk_tokenizer *t, bool *special, size_t count);

/* What a tokenizer.json says. On failure *tokenizer is NULL. */
QK_MUST_CHECK qk_status qk__tokenizer_parse(qk_tokenizer **tokenizer, const void *json,
                                            size_t size, qk_error *err);

/* The vocabulary and the normalizers are there. */
QK_MUST_CHECK qk_status qk__added_load(qk_tokenizer *t, const qk__node *root, qk_error *err);
void qk__added_free(qk_tokenizer *t);
/* The names are there. */
QK_MUST_CHECK qk_status qk__post_load(qk_tokenizer *t, const qk__node *part, qk_error *err);

/* Differs, in all likelihood, for files that differ in a byte. */
uint64_t qk__tokenizer_fingerprint(const qk_tokenizer *tokenizer);

/* How many ids `special` puts before a text, and behind it. */
void qk__tokenizer_special(const qk_tokenizer *tokenizer, size_t *before, size_t *after);

#endif
