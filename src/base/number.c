/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as the shortest text that reads back as the same number, and fields of CSV tables. */
#include "base/number.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include "base/error.h"

/* Replaces the decimal point of the locale (a comma, or several bytes) by '.'. */
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

/* ---- the usual range, in whole numbers -------------------------------------------------- */

__extension__ typedef unsigned __int128 wide;

static const uint64_t POWERS[] = {
    1e0, 1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,
    1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17}; /* all exact */

enum { MOST_DIGITS = 17 };

/* A number as mantissa / 2^shift = (whole + part / 2^shift) / 10^scale, with 17 digits in
 * `whole`. */
typedef struct decimal {
    uint64_t mantissa, whole;
    wide part, unit; /* unit: 10^scale, a step of the mantissa in parts */
    int shift, scale;
} decimal;

static wide power_of_ten(int exponent)
{
    return exponent < MOST_DIGITS ? POWERS[exponent]
                                  : (wide)POWERS[MOST_DIGITS] * POWERS[exponent - MOST_DIGITS];
}

/* False unless 1e-4 <= value < 1e15, and for powers of two, whose lower neighbours are
 * nearer. */
static bool split(double value, decimal *d)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    d->mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (!(value >= 1e-4 && value < 1e15) || d->mantissa == 0)
        return false;
    d->mantissa |= UINT64_C(1) << 52;
    d->shift = 1075 - (int)(bits >> 52);
    d->scale = 20; /* 1e-4 */
    double next = 1e-3;
    while (next <= value) {
        d->scale--;
        next *= 10;
    }
    for (;;) { /* the powers above are rounded: another time at most */
        d->unit = power_of_ten(d->scale);
        wide product = d->mantissa * d->unit;
        d->whole = (uint64_t)(product >> d->shift);
        d->part = product - ((wide)d->whole << d->shift);
        if (d->whole >= POWERS[MOST_DIGITS])
            d->scale--;
        else if (d->whole < POWERS[MOST_DIGITS - 1])
            d->scale++;
        else
            return true;
    }
}

/* Rounds to `digits` digits, ties to even, as printf does, and appends zeros. */
static uint64_t round_to(const decimal *d, int digits)
{
    uint64_t step = POWERS[MOST_DIGITS - digits], rest = d->whole % step;
    uint64_t down = d->whole - rest;
    bool odd = down / step % 2 == 1, more = d->part > 0;
    if (step > 1)
        return rest > step / 2 || (rest == step / 2 && (more || odd)) ? down + step : down;
    wide half = (wide)1 << (d->shift - 1);
    return d->part > half || (d->part == half && odd) ? down + 1 : down;
}

/* Whether the text of these digits would be read back as the number. */
static bool reads_back(const decimal *d, uint64_t rounded)
{
    wide off = rounded > d->whole ? ((wide)(rounded - d->whole) << d->shift) - d->part
                                  : ((wide)(d->whole - rounded) << d->shift) + d->part;
    return 2 * off < d->unit || (2 * off == d->unit && d->mantissa % 2 == 0);
}

/* rounded / 10^scale without an exponent. */
static size_t write_digits(uint64_t rounded, int scale, char *text)
{
    char digits[24], *out = text;
    int count = 0;
    for (; rounded % 10 == 0; scale--)
        rounded /= 10;
    do
        digits[count++] = (char)('0' + rounded % 10);
    while ((rounded /= 10) > 0 || count <= scale);
    while (count > 0) {
        *out++ = digits[--count];
        if (count == scale)
            *out++ = '.';
    }
    *out = 0;
    return (size_t)(out - text);
}

static size_t format_whole(long long value, char *text)
{
    char digits[24], *out = text;
    size_t count = 0;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        digits[count++] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (value < 0)
        *out++ = '-';
    while (count > 0)
        *out++ = digits[--count];
    *out = 0;
    return (size_t)(out - text);
}

/* ---- any number ------------------------------------------------------------------------- */

static size_t format_by_printf(double value, char text[QK_NUMBER_SIZE])
{
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

int qk__print_plain(char *out, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = plain ? uselocale(plain) : plain;
    const int length = vsnprintf(out, size, fmt, args);
    if (plain) {
        uselocale(before);
        freelocale(plain);
    }
    va_end(args);
    return length;
}

size_t qk__format_number(double value, char text[QK_NUMBER_SIZE])
{
    decimal d;
    text[0] = 0;
    if (!isfinite(value))
        return 0;
    if (fabs(value) < 1e15 && value == floor(value)) /* counts and zeros, -0 among them */
        return format_whole((long long)value, text);
    if (!split(fabs(value), &d))
        return format_by_printf(value, text);
    uint64_t best = round_to(&d, MOST_DIGITS);
    for (int digits = MOST_DIGITS - 1; digits > 0; digits--) {
        uint64_t rounded = round_to(&d, digits);
        if (!reads_back(&d, rounded))
            break;
        best = rounded;
    }
    text[0] = '-';
    return write_digits(best, d.scale, text + (value < 0)) + (value < 0);
}

/* ---- fields ----------------------------------------------------------------------------- */

static qk_status append(qk__buffer *row, const char *text, size_t size, char separator,
                        qk_error *err)
{
    QK_TRY(qk__buffer_append(row, text, size, err));
    return qk__buffer_append(row, &separator, 1, err);
}

qk_status qk__csv_number(qk__buffer *row, double value, char separator, qk_error *err)
{
    char text[QK_NUMBER_SIZE];
    return append(row, text, qk__format_number(value, text), separator, err);
}

qk_status qk__csv_integer(qk__buffer *row, long long value, char separator, qk_error *err)
{
    char text[QK_NUMBER_SIZE];
    return append(row, text, format_whole(value, text), separator, err);
}

qk_status qk__csv_text(qk__buffer *row, const char *text, char separator, qk_error *err)
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

int qk__group_digits(int64_t value, char text[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)value), out = 0;
    for (int i = 0; i < length; i++) {
        text[out++] = digits[i];
        int left = length - 1 - i;
        if (left > 0 && left % 3 == 0 && digits[i] != '-')
            text[out++] = ',';
    }
    text[out] = 0;
    return out;
}
