/* SPDX-License-Identifier: Apache-2.0 */
/* Writes base64 (RFC 4648). */
#include "base/base64.h"

#include "base/buffer.h"

char *qk__base64(const void *data, size_t size)
{
    static const char DIGITS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = data;
    char *text = qk__calloc(size / 3 + 2, 4), *out = text;
    for (; out && size > 0; size -= size < 3 ? size : 3, p += 3) {
        unsigned bits = (unsigned)p[0] << 16 | (size > 1 ? (unsigned)p[1] << 8 : 0) |
                        (size > 2 ? (unsigned)p[2] : 0);
        *out++ = DIGITS[bits >> 18];
        *out++ = DIGITS[bits >> 12 & 63];
        *out++ = size > 1 ? DIGITS[bits >> 6 & 63] : '=';
        *out++ = size > 2 ? DIGITS[bits & 63] : '=';
    }
    return text;
}
