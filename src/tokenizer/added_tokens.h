/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens: texts that are found before the model sees anything, and are tokens whole. */
#ifndef QK_TOKENIZER_ADDED_TOKENS_H
#define QK_TOKENIZER_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

typedef struct qk__added_token {
    char *content; /* owned; zero-terminated */
    size_t length;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} qk__added_token;

/* What is looked for: a token's content, or what the normalizer makes of it. */
typedef struct qk__added_pattern {
    const uint8_t *text;
    size_t length;
    const qk__added_token *token;
} qk__added_pattern;

/* Patterns in the order of their bytes; those that begin with byte b are first[b] to
 * first[b + 1] - 1. */
typedef struct qk__added_set {
    qk__added_pattern *patterns;
    size_t count;
    uint32_t first[257];
} qk__added_set;

/* A hostile text makes every place cost as much as the longest pattern. */
enum { QK__MAX_ADDED_BYTES = 1024 };

/* Takes patterns (not what they point to) and sorts them. Two alike are QK_ERR_INCONSISTENT. */
QK_MUST_CHECK qk_status qk__added_set_init(qk__added_set *set, qk__added_pattern *patterns,
                                           size_t count, qk_error *err);

/* One stretch of a text: a token (then the bytes do not matter), or what lies between. */
typedef struct qk__stretch {
    size_t start, end;
    const qk__added_token *token; /* NULL: text */
} qk__stretch;

/* Walks a text from stretch to stretch. Zero-initialise, then set set, text and size. */
typedef struct qk__added_walk {
    const qk__added_set *set;
    const uint8_t *text;
    size_t size;
    size_t done;       /* the stretches so far cover this much */
    size_t next;       /* where to look for the next token */
    size_t spaces_end; /* of those that the last token with rstrip took */
    qk__stretch token; /* found, but the text before it came first */
    bool waiting, finished;
} qk__added_walk;

bool qk__added_next(qk__added_walk *walk, qk__stretch *stretch);

#endif
