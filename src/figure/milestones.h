/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints a figure shows that has no room for all: the first, the last of each phase, then those in the
 * widest gaps. */
#ifndef QK_FIGURE_MILESTONES_H
#define QK_FIGURE_MILESTONES_H

#include "results/results.h"

enum { QK__MILESTONES = 6 };

/* Leaves at most so many of the checkpoints with something to show, in order of training; returns their number. */
size_t qk__keep_milestones(const qk__result_model **checkpoints, size_t count);

#endif
