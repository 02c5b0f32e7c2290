/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, names and sentences for reading. All that the page, its findings or a comparison says goes through
 * qk__next_piece: so a number has the same digits, minus sign and unit everywhere. */
#ifndef QK_REPORT_WORDS_H
#define QK_REPORT_WORDS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

enum { QK__NAME_POINTS = 48 };

/* A name inside a sentence: valid UTF-8, cut, between U+2068 and U+2069. */
typedef struct qk__short_name {
    char text[4 * QK__NAME_POINTS + 16];
} qk__short_name;
qk__short_name qk__short_name_of(const char *name);

/* A number for reading: `digits` significant digits, no exponent between 1e-4 and 1e5, a real minus sign; "1.2×10⁻⁵"
 * beyond; "–" for NaN. */
typedef struct qk__shown {
    char text[64];
} qk__shown;
qk__shown qk__show(double value, int digits);
/* A share as "12.3 %" (below 10 %: two digits after the point). */
qk__shown qk__show_percent(double share);
/* A count with thousands set apart: 3,239. */
qk__shown qk__show_count(size_t count);

/* ---- formats ---------------------------------------------------------------------------- */

/* A format of ours, which the compiler checks as printf's, piece by piece:
 *
 *     %s, %.*s    text             %.3g    number of three digits (qk__show)
 *     %zu, %d     count: 3,239     %g%%    share: 12.3 % (qk__show_percent)
 *     %lld        as it is         %e      p-value
 *
 * plain is for attributes and files: numbers as programs read them, and %.0f too. */
typedef struct qk__words {
    const char *rest;
    va_list args;
    bool plain;
    char own[64];
} qk__words;

typedef struct qk__word_piece {
    const char *text;
    size_t size;
    bool given; /* an argument, not a part of the format */
} qk__word_piece;

/* False at the end. A piece lives until the next one. */
bool qk__next_piece(qk__words *words, qk__word_piece *piece);

/* A part of a sentence; a longer one is cut. */
typedef struct qk__phrase {
    char text[640];
} qk__phrase;
qk__phrase qk__phrase_of(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Adds to a text of `size` bytes. */
void qk__add_words(char *text, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void qk__add_words_v(char *text, size_t size, const char *fmt, va_list args);

#endif
