/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Unicode properties in patterns. */
#ifndef QK_TOKENIZER_UNICODE_PROPERTIES_H
#define QK_TOKENIZER_UNICODE_PROPERTIES_H

#include <stdbool.h>
#include <stddef.h>

/* PCRE2's name for what Oniguruma calls `name`, whatever its case, blanks, '-' and '_': a
 * general category, a property of characters, or a script. Any other word is taken for a
 * script, which PCRE2 knows or not. False: not a word. */
bool qk__property_name(const char *name, char *out, size_t size);

#endif
