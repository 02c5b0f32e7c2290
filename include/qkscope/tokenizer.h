/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json of Hugging Face's tokenizers: byte-level BPE and BPE with byte fallback, with
 * the ids that tokenizers gives. docs/tokenizer.md lists the parts that are known; others are
 * refused by name. */
#ifndef QKSCOPE_TOKENIZER_H
#define QKSCOPE_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/status.h>

QK_BEGIN_DECLS

typedef struct qk_tokenizer qk_tokenizer;

/* path: a tokenizer.json, a folder with one (and perhaps a tokenizer_config.json, whose
 * truncation_side is obeyed), or a GGUF file, whose metadata hold one. What the file has and
 * this library has not is QK_ERR_UNSUPPORTED; messages name the key. */
QK_API QK_MUST_CHECK qk_status qk_tokenizer_open(qk_tokenizer **tokenizer, const char *path,
                                                 qk_error *err);
QK_API void qk_tokenizer_close(qk_tokenizer **tokenizer); /* sets NULL, takes NULL */

typedef struct qk_tokens {
    int32_t *ids;
    size_t count;
} qk_tokens;

/* Of one text. Tokens take several times the memory. */
#define QK_MAX_TEXT_BYTES ((size_t)256 << 20)

/* text: size bytes, at most QK_MAX_TEXT_BYTES; what is not UTF-8 becomes U+FFFD as Python's
 * errors="replace" does it. special: add what the post-processor adds (BOS, ...); the text of a
 * special token within text is that token either way. max_length: the total, special tokens
 * included; the end of the text is cut, or its beginning if the tokenizer truncates on the
 * left; 0 = no limit. Release *tokens with qk_tokens_free; on failure there is nothing to
 * release. Safe to call from several threads. */
QK_API QK_MUST_CHECK qk_status qk_tokenizer_encode(const qk_tokenizer *tokenizer,
                                                   const char *text, size_t size, bool special,
                                                   size_t max_length, qk_tokens *tokens,
                                                   qk_error *err);
/* Of a file that is one text: it is not read when it is larger than that, or no file but a
 * folder, a device or a pipe. */
QK_API QK_MUST_CHECK qk_status qk_tokenizer_encode_file(const qk_tokenizer *tokenizer,
                                                        const char *path, bool special,
                                                        size_t max_length, qk_tokens *tokens,
                                                        qk_error *err);
QK_API void qk_tokens_free(qk_tokens *tokens);

/* How many ids `special` puts before a text, and behind it. */
QK_API void qk_tokenizer_special(const qk_tokenizer *tokenizer, size_t *before, size_t *after);

/* The vocabulary piece as the file has it ("Ġthe", "▁the", "<0x0A>"), valid as long as the
 * tokenizer; NULL: no such id. */
QK_API const char *qk_tokenizer_piece(const qk_tokenizer *tokenizer, int32_t id);

/* Largest id + 1. */
QK_API size_t qk_tokenizer_vocabulary(const qk_tokenizer *tokenizer);

/* Differs, in all likelihood, for files that differ in a byte. */
QK_API uint64_t qk_tokenizer_fingerprint(const qk_tokenizer *tokenizer);

QK_END_DECLS

#endif
