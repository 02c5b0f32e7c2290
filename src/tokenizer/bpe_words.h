/* SPDX-License-Identifier: Apache-2.0 */
/* Words to ids, by the merges of a model. */
#ifndef QK_TOKENIZER_BPE_WORDS_H
#define QK_TOKENIZER_BPE_WORDS_H

#include "tokenizer/bpe.h"

/* Scratch and output of one text. */
typedef struct qk__bpe_run qk__bpe_run;
/* On failure, too, released by qk__bpe_run_free, which takes NULL. */
QK_MUST_CHECK qk_status qk__bpe_run_new(qk__bpe_run **run, const qk__bpe *bpe, qk_error *err);
void qk__bpe_run_free(qk__bpe_run *run);

/* Appends the ids of a word (valid UTF-8) to the run's. Words seen before are looked up. */
QK_MUST_CHECK qk_status qk__bpe_word(qk__bpe_run *run, const uint8_t *word, size_t size,
                                     qk_error *err);
QK_MUST_CHECK qk_status qk__bpe_id(qk__bpe_run *run, int32_t id, qk_error *err);

/* The ids so far; owned by the run. */
const int32_t *qk__bpe_ids(const qk__bpe_run *run, size_t *count);

#endif
