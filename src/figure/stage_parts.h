/* SPDX-License-Identifier: Apache-2.0 */
/* What the figures of RoPE share. */
#ifndef QK_FIGURE_STAGE_PARTS_H
#define QK_FIGURE_STAGE_PARTS_H

#include "figure/catalog.h"

/* The curves of some heads (stage_curves.c). */
bool qk__has_score_curves(const qk__subject *subject);
void qk__build_score_curves(qk__figure *figure, const qk__subject *subject);

#endif
