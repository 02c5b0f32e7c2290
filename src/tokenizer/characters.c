/* SPDX-License-Identifier: Apache-2.0 */
/* Says to which classes a character belongs. */
#include "tokenizer/characters.h"

#include <utf8proc.h>

#include "tokenizer/regex.h"

bool qk__is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 0x09 && c <= 0x0d);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Symbols that count as letters: circled, squared and parenthesised ones. */
static bool is_letter_symbol(uint32_t c)
{
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

#define BIT(category) (1u << UTF8PROC_CATEGORY_##category)

static bool is_among(uint32_t c, uint32_t categories)
{
    return categories >> utf8proc_category((utf8proc_int32_t)qk__older_character(c)) & 1;
}

bool qk__is_word(uint32_t c)
{
    const uint32_t letters = BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO);
    const uint32_t marks = BIT(MN) | BIT(MC) | BIT(ME);
    return is_among(c, letters | marks | BIT(ND) | BIT(NL) | BIT(PC)) || c == 0x200c ||
           c == 0x200d || is_letter_symbol(c);
}

bool qk__is_numeric(uint32_t c)
{
    return is_among(c, BIT(ND) | BIT(NL) | BIT(NO));
}
