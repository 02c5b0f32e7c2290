/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a tokenizer.json, a zero byte, and a text to encode with it. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const qk_tokenizer *tokenizer, const qk_tokens *tokens, size_t max_length)
{
    if (max_length > 0 && tokens->count > max_length)
        __builtin_trap();
    for (size_t i = 0; i < tokens->count; i++)
        if (!qk_tokenizer_piece(tokenizer, tokens->ids[i]))
            __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t json = zero ? (size_t)(zero - data) : size;
    const char *text = zero ? (const char *)zero + 1 : "";
    qk_tokenizer *tokenizer;
    qk_error err;
    if (qk__tokenizer_parse(&tokenizer, data, json, &err) != QK_OK)
        return 0;
    for (size_t max_length = 0; max_length <= 4; max_length += 4) {
        qk_tokens tokens;
        if (qk_tokenizer_encode(tokenizer, text, zero ? size - json - 1 : 0, max_length == 0,
                                max_length, &tokens, &err) == QK_OK) {
            check(tokenizer, &tokens, max_length);
            qk_tokens_free(&tokens);
        }
    }
    qk_tokenizer_close(&tokenizer);
    return 0;
}
