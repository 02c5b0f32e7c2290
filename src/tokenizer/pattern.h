/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of tokenizer.json are written for Oniguruma; this rewrites them for PCRE2. */
#ifndef QK_TOKENIZER_PATTERN_H
#define QK_TOKENIZER_PATTERN_H

#include <stddef.h>

#include <qkscope/common.h>

#include "base/buffer.h"

/* Appends to out the PCRE2 pattern (for UTF, UCP, MULTILINE, newline LF) that matches what
 * Oniguruma's default syntax makes of pattern. What has no counterpart is
 * QK_ERR_UNSUPPORTED, named. */
QK_MUST_CHECK qk_status qk__pattern_translate(const char *pattern, size_t size, qk__buffer *out,
                                              qk_error *err);

#endif
