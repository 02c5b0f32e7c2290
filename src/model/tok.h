/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer's parts, as tokenizer.json has them. */
#ifndef QK_MODEL_TOK_H
#define QK_MODEL_TOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/tokenizer.h>

#include "model/bpe.h"
#include "model/normalize.h"
#include "model/pretokenize.h"
#include "model/tok_added.h"

struct qk_tokenizer {
    qk_normalizers normalizers;
    qk_cutters cutters;
    qk_bpe bpe;
    qk_added_token *added;
    size_t num_added;
    qk_added_set before, after; /* found before and after normalization */
    qk_buffer added_text;       /* what the tokens of `after` look like then */
    int32_t *prefix, *suffix;   /* special tokens around a text */
    size_t num_prefix, num_suffix;
    bool cut_left;      /* a text that is too long loses its beginning */
    const char **names; /* pieces by id, NULL: none */
    size_t num_names;
    uint64_t fingerprint;
};

/* What a tokenizer.json says. On failure *tokenizer is NULL. */
QK_MUST_CHECK qk_status qk__tokenizer_parse(qk_tokenizer **tokenizer, const void *json,
                                            size_t size, qk_error *err);

/* The parts after those that have loaders of their own (tok_added_load.c, tok_post.c). The
 * vocabulary and the normalizers are there. */
QK_MUST_CHECK qk_status qk__added_load(qk_tokenizer *t, const json_t *list, qk_error *err);
void qk__added_free(qk_tokenizer *t);
/* The names are there. */
QK_MUST_CHECK qk_status qk__post_load(qk_tokenizer *t, const json_t *part, qk_error *err);

#endif
