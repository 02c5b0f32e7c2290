/* SPDX-License-Identifier: Apache-2.0 */
/* What a figure is called: its title, and below it of which study and model, in as many lines as
 * they need (heading.c). Also how texts are broken into lines. */
#ifndef QK_FIGURE_HEADING_H
#define QK_FIGURE_HEADING_H

#include "figure/figure.h"
#include "results/results.h"

/* Text cut into lines of at most `room` characters, at spaces where there are any; what does not
 * fit the last line ends with an ellipsis. Of markup, what is shown counts. */
enum { QK__MAX_LINES = 6, QK__LINE_SIZE = 400 };
typedef struct qk__lines {
    size_t count;
    char text[QK__MAX_LINES][QK__LINE_SIZE];
} qk__lines;
void qk__break_lines(const char *text, bool markup, size_t room, size_t most, qk__lines *lines);

/* The heading: title is markup without quotes. Its subject is the study's title and the label of
 * the model, or of the only one where model is NULL. To be set before qk__heading_height is asked for, when the figure's
 * width is final. */
void qk__set_heading(qk__figure *figure, const qk__results *results,
                     const qk__result_model *model, const char *title);
/* The same for a title from outside. */
void qk__set_plain_heading(qk__figure *figure, const qk__results *results, const char *title);

/* Takes the first qk__heading_height of the figure. Where no heading is set yet, it is that of
 * one line and a subject. */
double qk__heading_height(const qk__figure *figure);
void qk__put_heading(qk__figure *figure);

#endif
