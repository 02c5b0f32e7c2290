/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints a figure shows that has no room for all: the first and the last of each phase, then those in
 * the widest gaps. */
#ifndef QK_FIGURE_MILESTONES_H
#define QK_FIGURE_MILESTONES_H

#include "results/results.h"

enum { QK__MILESTONES = 6 };

/* In order of training, of those that have something to show, of which there is one at least; returns how
 * many. */
size_t qk__choose_milestones(const qk__results *results,
                             bool (*has)(const void *of, const qk__result_model *model),
                             const void *of, size_t chosen[QK__MILESTONES]);

#endif
