/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of a figure (figure_text.c; symbols.c: labels without words): how wide they are, about, how they
 * are broken into lines or cut, and where they stand. Lengths are nominal pixels, from the top left. */
#ifndef QK_FIGURE_FIGURE_TEXT_H
#define QK_FIGURE_FIGURE_TEXT_H

#include "figure/figure.h"

/* What 1 pixel beside type of 13 pixels is beside the theme's type. */
double qk__em(const qk__figure *figure);
/* Labels and legends have this part of the theme's size. */
#define QK__SMALL 0.8
/* Width of text of that size, about. */
double qk__text_width(const qk__figure *figure, size_t characters);
/* Width of a text in characters; those of Chinese, Japanese and Korean count twice. */
size_t qk__count_columns(const char *text);
/* At most limit (> 0) such characters of text, the last an ellipsis where there are more, cut
 * to size bytes. The result is still text from outside: quote it. */
void qk__shorten(const char *text, size_t limit, char *out, size_t size);
/* A literal (qk__figure_quote) of at most limit characters. */
const char *qk__brief(qk__figure *figure, const char *text, int limit);

/* Text cut into lines of at most `room` characters, at spaces where there are any; what does not
 * fit the last line ends with an ellipsis. Of markup, what is shown counts. */
enum { QK__MAX_LINES = 6, QK__LINE_SIZE = 400 };
typedef struct qk__lines {
    size_t count;
    char text[QK__MAX_LINES][QK__LINE_SIZE];
} qk__lines;
void qk__break_lines(const char *text, bool markup, size_t room, size_t most, qk__lines *lines);

/* A text (a gnuplot expression) about a place, or beside it, or turned; a note is small and muted.
 * Labels of the figure: how far `title` and `xlabel` lie from a plot differs between formats. */
enum {
    QK__CENTRED = 0,
    QK__NOTE = 1 << 0,
    QK__SMALL_TYPE = 1 << 1,
    QK__MUTED = 1 << 2,
    QK__TURNED = 1 << 3,
    QK__RIGHT_OF = 1 << 4, /* the text begins there */
    QK__LEFT_OF = 1 << 5,  /* it ends there */
};
void qk__put_text(qk__figure *figure, const char *text, double x, double y, unsigned how);
/* A label of ours, markup without quotes, as the figure is to show it: with --symbols, what has a symbol
 * without its words. Whoever measures a label asks first; qk__put_markup does, but for notes. */
const char *qk__in_symbols(const qk__figure *figure, const char *markup,
                           char out[QK__LINE_SIZE]);
/* qk__put_text of markup without quotes. */
void qk__put_markup(qk__figure *figure, const char *markup, double x, double y, unsigned how);

#endif
