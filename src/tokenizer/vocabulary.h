/* SPDX-License-Identifier: Apache-2.0 */
/* The model's vocabulary: texts and their ids. */
#ifndef QK_TOKENIZER_VOCABULARY_H
#define QK_TOKENIZER_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "base/tree.h"

typedef struct qk__vocab_entry {
    uint32_t offset, length; /* in text; a zero byte follows */
    int32_t id;
} qk__vocab_entry;

typedef struct qk__vocab {
    char *text;
    qk__vocab_entry *entries;
    size_t count;
    uint32_t *slots; /* entry + 1 by hash, 0 = empty */
    size_t mask;
    size_t num_ids;  /* largest id + 1 */
    uint32_t *by_id; /* entry + 1, 0 = none */
} qk__vocab;

/* object: {"text": id, ...}. On failure, too, released by qk__vocab_free. */
QK_MUST_CHECK qk_status qk__vocab_load(qk__vocab *vocab, const qk__node *object, qk_error *err);
void qk__vocab_free(qk__vocab *vocab);

/* The id of a text, -1 if it has none. */
int32_t qk__vocab_find(const qk__vocab *vocab, const void *text, size_t length);

/* The text of an id, NULL if there is none. */
const char *qk__vocab_text(const qk__vocab *vocab, int32_t id, size_t *length);

#endif
