/* SPDX-License-Identifier: Apache-2.0 */
/* Merging the symbols of a word. */
#ifndef QK_TOKENIZER_BPE_MERGE_H
#define QK_TOKENIZER_BPE_MERGE_H

#include "tokenizer/bpe.h"

typedef struct qk__symbol {
    int32_t id;        /* -1: merged into the one before */
    uint32_t previous; /* QK__NO_SYMBOL: none */
    uint32_t next;
} qk__symbol;
#define QK__NO_SYMBOL UINT32_MAX

/* A pair that can merge: by rank, then by place. */
typedef struct qk__candidate {
    uint64_t order; /* rank << 32 | place of the left symbol */
    int32_t id;     /* what it becomes */
} qk__candidate;

typedef struct qk__merger {
    qk__symbol *symbols; /* fewer than 2^31: no text has more bytes when it comes here */
    size_t count, capacity;
    qk__candidate *heap;
    size_t heap_count, heap_capacity;
} qk__merger;

/* Merges what can be merged; symbols with id -1 are gone then. */
QK_MUST_CHECK qk_status qk__bpe_merge_all(const qk__bpe *bpe, qk__merger *merger,
                                          qk_error *err);

#endif
