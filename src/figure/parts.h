/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of figures that know what a study is: its title and its phases of training. */
#ifndef QK_FIGURE_PARTS_H
#define QK_FIGURE_PARTS_H

#include "figure/figure.h"
#include "results/results.h"

/* At most limit (> 0) characters of text, the last an ellipsis where there are more, cut to
 * size bytes. The result is still text from outside: quote it. */
void qk__shorten(const char *text, size_t limit, char *out, size_t size);

/* A title as a gnuplot expression: "TITLE OF THE STUDY: rest", or rest alone where the study
 * has no title; in two lines where one would be too long. rest is markup, without quotes. */
enum { QK__TITLE_SIZE = 1024 };
void qk__study_title(qk__figure *figure, const qk__results *results, const char *rest,
                     char title[QK__TITLE_SIZE]);
/* `set title` to it. */
void qk__figure_study_title(qk__figure *figure, const qk__results *results, const char *rest);

/* Over an axis of checkpoints (qk__figure_label_axis over the models in order): dashed lines
 * between phases, and their names along the top, between plot and title; shortened where they
 * have no room. Nothing where the models are no checkpoints. Once per panel: `unset arrow` and
 * `unset label` before the next. */
void qk__figure_phases(qk__figure *figure, const qk__results *results);
/* The same in a plot that is that many nominal pixels wide, axes included. */
void qk__figure_panel_phases(qk__figure *figure, const qk__results *results, double width);

#endif
