/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of a figure (figure_text.c; symbols.c: labels without words): how wide they are, how they are broken into
 * lines or cut, and where they stand. Lengths are nominal pixels, from the top left. */
#ifndef QK_FIGURE_FIGURE_TEXT_H
#define QK_FIGURE_FIGURE_TEXT_H

#include "figure/figure.h"
#include "results/results.h"

/* The theme's type as a multiple of 13 pixels. */
double qk__em(const qk__figure *figure);
/* The size of labels and legends as a share of the theme's, and in pixels. */
#define QK__SMALL 0.8
double qk__small_type(const qk__figure *figure);
/* The width of so many characters of that size, about; of markup, and of text from outside. */
double qk__text_width(const qk__figure *figure, size_t characters);
double qk__markup_width(const qk__figure *figure, const char *markup);
double qk__plain_width(const qk__figure *figure, const char *text);

/* Text from outside as markup of at most that width in small type, cut in the middle where it is longer. The figure
 * remembers the whole, which is shown under the mouse. */
const char *qk__brief(qk__figure *figure, const char *text, double width);
/* The whole text; NULL: it was not cut. */
const char *qk__whole_of(const qk__figure *figure, const char *markup);

/* The label of a model in the same way; different labels of a study never look alike. And the width of the longest. */
const char *qk__model_label(qk__figure *figure, const qk__results *results,
                            const qk__result_model *model);
double qk__longest_label(qk__figure *figure, const qk__results *results);

/* Text in lines of at most `width` in type of that size, broken at spaces where possible; what does not fit the last
 * line is cut. For markup, only what is shown counts. Lines of text from outside still need escaping. */
enum { QK__MAX_LINES = 6, QK__LINE_SIZE = 400 };
typedef struct qk__lines {
    size_t count;
    char text[QK__MAX_LINES][QK__LINE_SIZE];
} qk__lines;
void qk__break_lines(const char *text, bool markup, double width, double size, size_t most,
                     qk__lines *lines);

/* Markup centred at a place, or beside it, or turned; a note is small and muted. */
enum {
    QK__CENTRED = 0,
    QK__NOTE = 1 << 0,
    QK__SMALL_TYPE = 1 << 1,
    QK__MUTED = 1 << 2,
    QK__TURNED = 1 << 3,
    QK__RIGHT_OF = 1 << 4, /* the text begins there */
    QK__LEFT_OF = 1 << 5,  /* it ends there */
};
void qk__put_text(qk__figure *figure, const char *markup, double x, double y, unsigned how);
/* The same, type `size` times the theme's. */
void qk__put_sized(qk__figure *figure, const char *markup, double x, double y, unsigned how,
                   double size);
/* A label of ours, markup, as the figure is to show it: with --symbols, symbols in place of words. Whoever measures a
 * label asks first; qk__put_markup does, except for notes. */
const char *qk__in_symbols(const qk__figure *figure, const char *markup,
                           char out[QK__LINE_SIZE]);
/* qk__put_text for a label of ours. */
void qk__put_markup(qk__figure *figure, const char *markup, double x, double y, unsigned how);

#endif
