/* SPDX-License-Identifier: Apache-2.0 */
/* What tokenizer.json would say of the tokenizer in a GGUF file. gguf_tokenizer.c leads;
 * gguf_merges.c makes merges from scores. */
#ifndef QK_TOKENIZER_GGUF_TOKENIZER_H
#define QK_TOKENIZER_GGUF_TOKENIZER_H

#include <stdbool.h>

#include <jansson.h>

#include <qkscope/common.h>

/* Whether a file begins as a GGUF file does. */
bool qk__is_gguf(const char *path);

/* metadata: as qk__gguf has it; *text is allocated. Messages name the key. */
QK_MUST_CHECK qk_status qk__gguf_tokenizer(const json_t *metadata, char **text, qk_error *err);

/* Of a vocabulary of pieces with scores ("llama"): tokens and scores are lists of the metadata,
 * scores NULL if the order of the pieces ranks them. *merges is a list as in tokenizer.json. */
QK_MUST_CHECK qk_status qk__gguf_merges(const json_t *tokens, const json_t *scores,
                                        json_t *vocabulary, json_t **merges, qk_error *err);

#endif
