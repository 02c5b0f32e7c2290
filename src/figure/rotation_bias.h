/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of bias_strength head by head, a panel per family. */
#ifndef QK_FIGURE_ROTATION_BIAS_H
#define QK_FIGURE_ROTATION_BIAS_H

#include "figure/catalog.h"

/* Densities of bias_strength, an outline per model. */
bool qk__has_bias(const qk__subject *subject);
void qk__build_bias_histograms(qk__figure *figure, const qk__subject *subject);

/* bias_strength against separation_strength, a point per head. */
bool qk__has_bias_pairs(const qk__subject *subject);
void qk__build_bias_scatter(qk__figure *figure, const qk__subject *subject);

#endif
