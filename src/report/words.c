/* SPDX-License-Identifier: Apache-2.0 */
/* Puts numbers and names into words, by formats. */
#include "report/words.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/utf8.h"

qk__short_name qk__short_name_of(const char *name)
{
    qk__short_name out = {"\xE2\x81\xA8"};
    char *p = out.text + 3;
    for (int n = 0; *name && n < QK__NAME_POINTS; n++) {
        size_t size;
        const char *character = qk__utf8_shown(&name, &size);
        memcpy(p, character, size);
        p += size;
    }
    sprintf(p, "%s\xE2\x81\xA9", *name ? "…" : "");
    return out;
}

/* ---- numbers ---------------------------------------------------------------------------- */

/* A number with that many decimals, with '.' whatever the locale. */
static size_t print_fixed(char *out, size_t size, double value, int decimals)
{
    int length = snprintf(out, size, "%.*f", decimals, value);
    for (char *p = out; *p; p++)
        if (*p == ',')
            *p = '.';
    return (size_t)length;
}

qk__shown qk__show(double value, int digits)
{
    static const char *const SUPERSCRIPTS[] = {"⁰", "¹", "²", "³", "⁴",
                                               "⁵", "⁶", "⁷", "⁸", "⁹"};
    qk__shown out = {"–"};
    char *p = out.text;
    if (!isfinite(value))
        return out;
    if (value < 0)
        p += sprintf(p, "−");
    int exponent = 0;
    if (value != 0) { /* of the rounded number: 0.9996 shows as 1.00 */
        char rounded[QK_NUMBER_SIZE];
        snprintf(rounded, sizeof rounded, "%.*e", digits - 1, fabs(value));
        exponent = atoi(strchr(rounded, 'e') + 1);
    }
    if (exponent >= -4 && exponent < 5) {
        int decimals = digits - 1 - exponent;
        print_fixed(p, 40, fabs(value), decimals > 0 ? decimals : 0);
        return out;
    }
    p += print_fixed(p, 24, fabs(value / pow(10, exponent)), digits - 1);
    p += sprintf(p, "×10%s", exponent < 0 ? "⁻" : "");
    char power[8];
    snprintf(power, sizeof power, "%d", abs(exponent) % 10000);
    for (const char *c = power; *c; c++)
        p += sprintf(p, "%s", SUPERSCRIPTS[*c - '0']);
    return out;
}

qk__shown qk__show_percent(double share)
{
    qk__shown out = {"–"};
    if (!isfinite(share))
        return out;
    double percent = 100 * share;
    char *p = out.text + sprintf(out.text, "%s", percent < 0 ? "−" : "");
    bool whole = percent == 0 || percent == 100;
    p += print_fixed(p, 40, fabs(percent), whole ? 0 : fabs(percent) < 9.995 ? 2 : 1);
    sprintf(p, "%s", "\xC2\xA0%"); /* a non-breaking space */
    return out;
}

qk__shown qk__show_count(size_t count)
{
    qk__shown out = {""};
    qk__group_digits((int64_t)count, out.text);
    return out;
}

static qk__shown show_p_value(double p)
{
    const double least = 1e-300; /* a smaller value shows as 0 */
    qk__shown out = {"below 10⁻³⁰⁰"};
    return p < least ? out : qk__show(p, 2);
}

/* As programs read it. */
static qk__shown show_plain(double value, int digits, char kind)
{
    qk__shown out = {"null"};
    char rounded[QK_NUMBER_SIZE];
    if (kind == 'f') {
        print_fixed(out.text, sizeof out.text, value, digits);
    } else if (isfinite(value)) {
        snprintf(rounded, sizeof rounded, "%.*e", digits - 1, value);
        qk__format_number(strtod(rounded, NULL), out.text);
    }
    return out;
}

/* ---- formats ---------------------------------------------------------------------------- */

static qk__shown show_count(long long value, bool plain)
{
    qk__shown out;
    snprintf(out.text, sizeof out.text, "%lld", value);
    return plain || value < 0 ? out : qk__show_count((size_t)value);
}

/* The number of a conversion; `spec` has no '%'. */
static qk__shown next_number(qk__words *words, const char *spec, char kind)
{
    const char *point = spec + strcspn(spec, ".diuegf");
    int digits = *point == '.' ? atoi(point + 1) : 0;
    if (kind == 'u')
        return show_count((long long)va_arg(words->args, size_t), words->plain);
    if (kind == 'd')
        return *spec == 'l' ? show_count(va_arg(words->args, long long), true)
                            : show_count(va_arg(words->args, int), words->plain);
    double value = va_arg(words->args, double);
    if (words->plain)
        return show_plain(value, digits, kind);
    if (kind == 'g' && digits == 0) {
        words->rest += strncmp(words->rest, "%%", 2) == 0 ? 2 : 0;
        return qk__show_percent(value);
    }
    return kind == 'e' ? show_p_value(value) : qk__show(value, digits);
}

bool qk__next_piece(qk__words *words, qk__word_piece *piece)
{
    const char *start = words->rest;
    *piece = (qk__word_piece){start, strcspn(start, "%"), false};
    words->rest += piece->size;
    if (piece->size > 0 || !*start)
        return piece->size > 0;
    const char *spec = start + 1, *kind = spec + strcspn(spec, "sduegf%");
    words->rest = kind + 1;
    piece->given = *kind != '%';
    if (*kind == '%') {
        piece->size = 1;
    } else if (*kind == 's') {
        int most = *spec == '.' ? va_arg(words->args, int) : -1;
        piece->text = va_arg(words->args, const char *);
        piece->size = most < 0 ? strlen(piece->text) : strnlen(piece->text, (size_t)most);
    } else {
        qk__shown number = next_number(words, spec, *kind);
        memcpy(words->own, number.text, sizeof words->own);
        piece->text = words->own;
        piece->size = strlen(words->own);
    }
    return true;
}

void qk__add_words_v(char *text, size_t size, const char *fmt, va_list args)
{
    qk__words words = {.rest = fmt};
    qk__word_piece piece;
    size_t used = strlen(text);
    va_copy(words.args, args);
    while (qk__next_piece(&words, &piece)) {
        size_t fits = piece.size < size - used - 1 ? piece.size : size - used - 1;
        memcpy(text + used, piece.text, fits);
        used += fits;
    }
    text[used] = 0;
    va_end(words.args);
}

void qk__add_words(char *text, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    qk__add_words_v(text, size, fmt, args);
    va_end(args);
}

qk__phrase qk__phrase_of(const char *fmt, ...)
{
    qk__phrase out = {""};
    va_list args;
    va_start(args, fmt);
    qk__add_words_v(out.text, sizeof out.text, fmt, args);
    va_end(args);
    return out;
}
