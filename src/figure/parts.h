/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of figures that know text from outside and phases of training. */
#ifndef QK_FIGURE_PARTS_H
#define QK_FIGURE_PARTS_H

#include "figure/figure.h"
#include "results/results.h"

/* Width of a text in characters; those of Chinese, Japanese and Korean count twice. */
size_t qk__count_columns(const char *text);
/* At most limit (> 0) such characters of text, the last an ellipsis where there are more, cut
 * to size bytes. The result is still text from outside: quote it. */
void qk__shorten(const char *text, size_t limit, char *out, size_t size);

/* Over an axis of checkpoints (all models in order at 0, 1, ...) of a plot that is that many
 * nominal pixels wide, without what lies beside it: dashed lines between phases, and their
 * names along the top, between plot and title; shortened or left out where they have no room.
 * Nothing where the models are no checkpoints. Once per panel: `unset arrow` and `unset label`
 * before the next. */
void qk__figure_panel_phases(qk__figure *figure, const qk__results *results, double width);

#endif
