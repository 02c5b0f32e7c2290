/* SPDX-License-Identifier: Apache-2.0 */
/* The heading of a figure: its title, and below it the study and model, in as many lines as they need (heading.c). */
#ifndef QK_FIGURE_HEADING_H
#define QK_FIGURE_HEADING_H

#include "figure/figure.h"
#include "results/results.h"

/* Sets the heading, before qk__heading_height is asked for, when the figure's width is final. The title is markup; if
 * it is from outside, set heading.plain. Below it stands the subject: the study's title and the label of the model, or
 * of the only model where model is NULL. */
void qk__set_heading(qk__figure *figure, const qk__results *results,
                     const qk__result_model *model, const char *title);

/* Says below that the heads of so many models are in one picture, where there are several. */
void qk__tell_pooled(qk__figure *figure, const qk__results *results, size_t models);

/* For a figure of no study: a title from outside, and markup below it; NULL: none. */
void qk__set_own_heading(qk__figure *figure, const char *title, const char *subject);

/* Draws in the first qk__heading_height of the figure, some pixels where there is no heading. */
double qk__heading_height(const qk__figure *figure);
void qk__put_heading(qk__figure *figure);

#endif
