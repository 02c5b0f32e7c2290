/* SPDX-License-Identifier: Apache-2.0 */
/* The classes of characters that tokenizers ask for. Texts inside the tokenizer are valid
 * UTF-8: qk__utf8_clean sees to it once, at the entrance. */
#ifndef QK_TOKENIZER_CHARACTERS_H
#define QK_TOKENIZER_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/utf8.h"

enum { QK__MAX_GROWTH = 64 };

/* A text of `size` bytes may not become longer than this on its way to the model: parts of a
 * tokenizer that each make it longer would take all memory together. Known models stay below
 * three times the length. */
static inline size_t qk__growth_limit(size_t size)
{
    return QK__MAX_GROWTH * size + 4096;
}

/* Unicode's White_Space. */
bool qk__is_space(uint32_t c);

/* What \w means to Rust's regular expressions: letters, marks, decimal digits, connecting
 * punctuation, the two joiners and what else is alphabetic. */
bool qk__is_word(uint32_t c);

/* A number of any kind (Unicode N). */
bool qk__is_numeric(uint32_t c);

#endif
