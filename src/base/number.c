/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and fields as the tables show them. */
#include "base/number.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Whatever printf put for the decimal point (a comma, or several bytes) becomes '.'. */
static size_t undo_locale(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        bool number = (*in >= '0' && *in <= '9') || *in == 'e' || *in == '-' || *in == '+';
        if (number)
            *out++ = *in;
        else if (out == text || out[-1] != '.')
            *out++ = '.';
    }
    *out = 0;
    return (size_t)(out - text);
}

size_t qk__format_number(double value, char text[QK_NUMBER_SIZE])
{
    text[0] = 0;
    if (!isfinite(value))
        return 0;
    if (fabs(value) < 1e15 && value == floor(value)) /* counts and zeros, -0 among them */
        return (size_t)snprintf(text, QK_NUMBER_SIZE, "%lld", (long long)value);
    /* 17 digits always suffice; about half of all doubles need them, so try 16 first and
     * 15 only when 16 were enough. */
    int digits = 16;
    snprintf(text, QK_NUMBER_SIZE, "%.16g", value);
    if (strtod(text, NULL) == value) {
        char shorter[QK_NUMBER_SIZE];
        while (--digits > 0) {
            snprintf(shorter, sizeof shorter, "%.*g", digits, value);
            if (strtod(shorter, NULL) != value)
                break;
            memcpy(text, shorter, sizeof shorter);
        }
    } else {
        snprintf(text, QK_NUMBER_SIZE, "%.17g", value);
    }
    return undo_locale(text);
}

static qk_status append(qk_buffer *row, const char *text, size_t size, char separator,
                        qk_error *err)
{
    QK_TRY(qk__buffer_append(row, text, size, err));
    return qk__buffer_append(row, &separator, 1, err);
}

qk_status qk__csv_number(qk_buffer *row, double value, char separator, qk_error *err)
{
    char text[QK_NUMBER_SIZE];
    return append(row, text, qk__format_number(value, text), separator, err);
}

qk_status qk__csv_integer(qk_buffer *row, long long value, char separator, qk_error *err)
{
    char text[QK_NUMBER_SIZE];
    return append(row, text, (size_t)snprintf(text, sizeof text, "%lld", value), separator,
                  err);
}

qk_status qk__csv_text(qk_buffer *row, const char *text, char separator, qk_error *err)
{
    if (!strpbrk(text, ",\"\r\n"))
        return append(row, text, strlen(text), separator, err);
    QK_TRY(qk__buffer_append(row, "\"", 1, err));
    for (; *text; text++) {
        if (*text == '"')
            QK_TRY(qk__buffer_append(row, "\"", 1, err));
        QK_TRY(qk__buffer_append(row, text, 1, err));
    }
    return append(row, "\"", 1, separator, err);
}
