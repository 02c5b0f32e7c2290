/* SPDX-License-Identifier: Apache-2.0 */
/* What the PCA figures over heads and those over checkpoints have in common: the plane of
 * (r_q, r_k) on PC0, and heatmaps over depth. */
#ifndef QK_FIGURE_PCA_PARTS_H
#define QK_FIGURE_PCA_PARTS_H

#include "figure/figure.h"
#include "results/results.h"

/* Whether a head has both r_q and r_k, and how many heads of all models do. */
bool qk__has_signal(const qk__result_head *head);
size_t qk__count_signals(const qk__results *results);

/* The heading of a figure of one plot, which finds its own margins below it; qk__end_panels
 * (panels.h) ends the figure. */
void qk__start_one(qk__figure *figure, const qk__results *results, const char *title);

/* Ranges, tics, zero lines and guides at the thresholds, for r_q along x and r_k along y; the
 * same for every plot of the same results. */
void qk__set_signal_plane(qk__figure *figure, const qk__results *results);

/* Of the points of that many heads in a plot that high: few are drawn large. */
double qk__point_size(size_t heads, double height);

/* Means of a field ("r_q" in blues, "r_k" in reds) in tenths of the depth, a row per model; the
 * whole figure, with its height. */
void qk__build_depth_map(qk__figure *figure, const qk__results *results, const char *field,
                         const char *title);

#endif
