/* SPDX-License-Identifier: Apache-2.0 */
/* The plasticity figures by file: those of one model and the list of all of them are in
 * plasticity_figures.c. */
#ifndef QK_FIGURE_PLASTICITY_PARTS_H
#define QK_FIGURE_PLASTICITY_PARTS_H

#include "figure/catalog.h"

/* Over checkpoints, and by model (plasticity_models.c). */
bool qk__has_trajectory(const qk__subject *subject);
void qk__build_trajectory(qk__figure *figure, const qk__subject *subject);
bool qk__has_ap_by_model(const qk__subject *subject);
void qk__build_ap_by_model(qk__figure *figure, const qk__subject *subject);

/* Against an external score (score_figure.c). */
bool qk__has_scores(const qk__subject *subject);
void qk__build_scores(qk__figure *figure, const qk__subject *subject);

#endif
