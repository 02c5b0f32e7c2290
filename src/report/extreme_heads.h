/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of a model that stand out most: those that a reader wants to see. */
#ifndef QK_REPORT_EXTREME_HEADS_H
#define QK_REPORT_EXTREME_HEADS_H

#include <qkscope/report.h>

#include "results/results.h"

enum { QK__NUM_EXTREMES = 6 };

/* The heads with the highest and the lowest r_q, r_k, bias and plasticity, as far as they have
 * numbers, by layer and head, each once; of the many the first QK__NUM_EXTREMES of that list. Returns how
 * many. */
size_t qk__extreme_heads(const qk__result_model *model, qk_head_range heads[QK__NUM_EXTREMES]);

#endif
