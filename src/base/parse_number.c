/* SPDX-License-Identifier: Apache-2.0 */
/* Strict decimal numbers: the syntax is checked here, short numbers are computed here, and
 * strtod sees only long ones whose syntax is right. */
#include "base/parse_number.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TEXT = 1000,
    MAX_DIGITS = 19,    /* any number of so many digits fits 64 bits */
    EXACT_POWERS = 22,  /* 10^22 is the last power of ten that is a double */
    MAX_EXPONENT = 9999 /* enough to overflow or vanish whatever the digits */
};

typedef struct decimal {
    bool negative;
    bool truncated; /* there are more digits than `digits` holds */
    uint64_t digits;
    int exponent; /* value = digits * 10^exponent */
    size_t point; /* where the '.' is, or SIZE_MAX */
    size_t length;
} decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes digits up to the first other character; returns how many. */
static size_t scan_digits(const char *text, decimal *d, int *used)
{
    const char *p = text;
    for (; is_digit(*p); p++) {
        if (*used == MAX_DIGITS) {
            d->truncated = true;
            continue;
        }
        d->digits = d->digits * 10 + (uint64_t)(*p - '0');
        *used += d->digits > 0; /* leading zeros are no digits */
    }
    return (size_t)(p - text);
}

static bool scan_exponent(const char *text, size_t *length, int *exponent)
{
    const char *p = text;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    if (!is_digit(*p))
        return false;
    int value = 0;
    for (; is_digit(*p); p++)
        value = value < MAX_EXPONENT ? value * 10 + (*p - '0') : MAX_EXPONENT;
    *length = (size_t)(p - text);
    *exponent = negative ? -value : value;
    return true;
}

static bool scan(const char *text, decimal *d)
{
    *d = (decimal){.point = SIZE_MAX};
    const char *p = text;
    d->negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    int used = 0, exponent = 0;
    size_t whole = scan_digits(p, d, &used), fraction = 0;
    p += whole;
    if (*p == '.') {
        d->point = (size_t)(p - text);
        fraction = scan_digits(++p, d, &used);
        p += fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (*p == 'e' || *p == 'E') {
        size_t length;
        if (!scan_exponent(++p, &length, &exponent))
            return false;
        p += length;
    }
    d->length = (size_t)(p - text);
    if (*p != 0 || d->length > MAX_TEXT)
        return false;
    d->exponent = exponent - (int)fraction;
    return true;
}

/* Digits and power are both doubles without rounding, so that one operation rounds once. */
static bool convert_exactly(const decimal *d, double *value)
{
    static const double powers[EXACT_POWERS + 1] = {
        1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (FLT_EVAL_METHOD != 0 || d->truncated || d->digits > UINT64_C(1) << 53 ||
        d->exponent < -EXACT_POWERS || d->exponent > EXACT_POWERS)
        return false;
    double digits = (double)d->digits;
    double size =
        d->exponent < 0 ? digits / powers[-d->exponent] : digits * powers[d->exponent];
    *value = d->negative ? -size : size;
    return true;
}

/* strtod wants the decimal point of the locale. */
static bool convert_by_strtod(const char *text, const decimal *d, double *value)
{
    const char *source = text;
    char copy[MAX_TEXT + 32];
    const char *point = localeconv()->decimal_point;
    size_t point_size = strlen(point);
    if (d->point != SIZE_MAX && strcmp(point, ".") != 0) {
        if (point_size > 16)
            return false;
        memcpy(copy, text, d->point);
        memcpy(copy + d->point, point, point_size);
        size_t rest = d->length - d->point - 1;
        memcpy(copy + d->point + point_size, text + d->point + 1, rest);
        copy[d->point + point_size + rest] = 0;
        source = copy;
    }
    char *end;
    double number = strtod(source, &end);
    if (*end != 0 || !isfinite(number))
        return false;
    *value = number;
    return true;
}

bool qk__parse_number(const char *text, double *value)
{
    decimal d;
    return scan(text, &d) && (convert_exactly(&d, value) || convert_by_strtod(text, &d, value));
}

const char *qk__read_number(const char *text, double *value)
{
    char number[64];
    const size_t length = strspn(text, "0123456789.eE+-");
    if (length >= sizeof number)
        return NULL;
    memcpy(number, text, length);
    number[length] = 0;
    return qk__parse_number(number, value) ? text + length : NULL;
}

bool qk__parse_integer(const char *text, int64_t *value)
{
    const char *p = text;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    if (*p == 0)
        return false;
    uint64_t size = 0, most = (uint64_t)INT64_MAX + negative;
    for (; is_digit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (size > (most - digit) / 10)
            return false;
        size = size * 10 + digit;
    }
    *value = (int64_t)(negative ? 0 - size : size);
    return *p == 0;
}
