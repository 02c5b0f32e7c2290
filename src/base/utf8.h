/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of UTF-8 text. */
#ifndef QK_BASE_UTF8_H
#define QK_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <qkscope/common.h>

#include "base/buffer.h"

/* Bytes of the character at p, which is the start of one in valid UTF-8. */
static inline size_t qk__utf8_length(const uint8_t *p)
{
    return *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
}

/* The character at p and its length; p is the start of one in valid UTF-8. */
static inline uint32_t qk__utf8_read(const uint8_t *p, size_t *length)
{
    *length = qk__utf8_length(p);
    switch (*length) {
    case 1:
        return p[0];
    case 2:
        return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    case 3:
        return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    default:
        return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 |
               (p[3] & 0x3fu);
    }
}

/* Writes c as UTF-8; returns the number of bytes, at most 4. */
size_t qk__utf8_write(uint32_t c, uint8_t out[4]);

/* Characters of so many bytes. */
static inline int qk__utf8_count(const char *text, int size)
{
    int count = 0;
    for (int i = 0; i < size; i++)
        count += ((uint8_t)text[i] & 0xc0) != 0x80;
    return count;
}

/* The size of the mark at the beginning of some files, which is no text. */
static inline size_t qk__utf8_mark(const void *text, size_t size)
{
    return size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Where the character that ends before p begins; start < p. */
static inline const uint8_t *qk__utf8_previous(const uint8_t *start, const uint8_t *p)
{
    do
        p--;
    while (p > start && (*p & 0xc0) == 0x80);
    return p;
}

/* Bytes of the character at the start of a text that a zero byte ends; 0: it is not valid. */
size_t qk__utf8_first(const char *text);

/* The next character of *text, which does not end here, and its size, as a line of text may hold it: control
 * characters and separators of lines are spaces, invalid bytes are U+FFFD. *text goes on behind it. */
const char *qk__utf8_shown(const char **text, size_t *size);

/* Prints as snprintf does; a text that is too long ends behind a whole character, with "…". */
void qk__utf8_print(char *out, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Length of the longest prefix that is valid UTF-8. */
size_t qk__utf8_valid(const uint8_t *text, size_t size);

/* Appends text. Each longest cut-short beginning of a character, and each byte that cannot begin one, becomes U+FFFD,
 * as with Python's errors="replace". */
QK_MUST_CHECK qk_status qk__utf8_clean(const uint8_t *text, size_t size, qk__buffer *out,
                                       qk_error *err);

#endif
