/* SPDX-License-Identifier: Apache-2.0 */
/* Byte pair encoding: the characters of a word are merged, pair by pair, in the order of the
 * list of merges; of the pairs with the same place in the list, the leftmost first.
 *
 *     bpe.c         words to ids; it leads the others
 *     bpe_merge.c   merges the symbols of a word
 *     bpe_model.h   vocabulary, merges and seams, which both look at */
#ifndef QK_TOKENIZER_BPE_H
#define QK_TOKENIZER_BPE_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "tokenizer/bpe_model.h"

/* Scratch and output of one thread. */
typedef struct qk__bpe_run qk__bpe_run;
QK_MUST_CHECK qk_status qk__bpe_run_new(qk__bpe_run **run, const qk__bpe *bpe, qk_error *err);
void qk__bpe_run_free(qk__bpe_run *run); /* takes NULL */

/* Appends the ids of a word (valid UTF-8) to the run's. Words seen before are looked up. */
QK_MUST_CHECK qk_status qk__bpe_word(qk__bpe_run *run, const uint8_t *word, size_t size,
                                     qk_error *err);
QK_MUST_CHECK qk_status qk__bpe_id(qk__bpe_run *run, int32_t id, qk_error *err);

/* The ids so far; owned by the run. */
const int32_t *qk__bpe_ids(const qk__bpe_run *run, size_t *count);

#endif
