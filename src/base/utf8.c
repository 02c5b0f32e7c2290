/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: writing, checking and mending it. */
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define REPLACEMENT "\xef\xbf\xbd"
#define ELLIPSIS    "…"

size_t qk__utf8_write(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xc0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xe0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}

/* Bytes of the character that begins at p, 0 when there is none; *part is then the number of
 * bytes that began one, at least 1. */
static size_t character(const uint8_t *p, size_t left, size_t *part)
{
    uint8_t lead = p[0], low = 0x80, high = 0xbf;
    *part = 1;
    if (lead < 0x80)
        return 1;
    size_t length = lead >= 0xc2 && lead < 0xe0   ? 2
                    : lead >= 0xe0 && lead < 0xf0 ? 3
                    : lead >= 0xf0 && lead < 0xf5 ? 4
                                                  : 0;
    if (lead == 0xe0) /* overlong below */
        low = 0xa0;
    else if (lead == 0xed) /* surrogates above */
        high = 0x9f;
    else if (lead == 0xf0)
        low = 0x90;
    else if (lead == 0xf4) /* past U+10FFFF above */
        high = 0x8f;
    for (size_t i = 1; i < length; i++) {
        if (i >= left || p[i] < low || p[i] > high)
            return 0;
        low = 0x80;
        high = 0xbf;
        *part = i + 1;
    }
    return length;
}

size_t qk__utf8_first(const char *text)
{
    size_t part; /* the zero byte is in no character, so nothing behind it is read */
    return character((const uint8_t *)text, 4, &part);
}

const char *qk__utf8_shown(const char **text, size_t *size)
{
    const char *shown = *text;
    *size = qk__utf8_first(shown);
    *text += *size + !*size;
    size_t length;
    uint32_t c = *size > 0 ? qk__utf8_read((const uint8_t *)shown, &length) : 0xfffe;
    if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029)
        shown = " ";
    else if (c == 0xfffe || c == 0xffff) /* no characters of XML either */
        shown = REPLACEMENT;
    else
        return shown;
    *size = strlen(shown);
    return shown;
}

void qk__utf8_print(char *out, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int length = vsnprintf(out, size, fmt, args);
    va_end(args);
    if (length < 0 || (size_t)length < size)
        return;
    size_t kept = size >= sizeof ELLIPSIS ? size - sizeof ELLIPSIS : 0;
    while (kept > 0 && ((uint8_t)out[kept] & 0xc0) == 0x80)
        kept--;
    snprintf(out + kept, size - kept, "%s", size >= sizeof ELLIPSIS ? ELLIPSIS : "");
}

size_t qk__utf8_valid(const uint8_t *text, size_t size)
{
    size_t at = 0, part;
    while (at < size) {
        size_t length = character(text + at, size - at, &part);
        if (length == 0)
            break;
        at += length;
    }
    return at;
}

qk_status qk__utf8_clean(const uint8_t *text, size_t size, qk__buffer *out, qk_error *err)
{
    while (size > 0) {
        size_t good = qk__utf8_valid(text, size), part = 0;
        QK_TRY(qk__buffer_append(out, text, good, err));
        if (good < size) {
            character(text + good, size - good, &part);
            QK_TRY(qk__buffer_append(out, REPLACEMENT, 3, err));
        }
        text += good + part;
        size -= good + part;
    }
    return QK_OK;
}
