/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of a model that stand out most. */
#ifndef QK_REPORT_EXTREME_HEADS_H
#define QK_REPORT_EXTREME_HEADS_H

#include <qkscope/report.h>

#include "tables/tables.h"

enum { QK__NUM_EXTREMES = 6 };

typedef struct qk__extremes {
    size_t count;
    qk_head_range heads[QK__NUM_EXTREMES]; /* in the order of the list below */
    char about[QK__NUM_EXTREMES][200];     /* markup: "max r_q, max bias" */
} qk__extremes;

/* The heads with the highest and the lowest r_q, r_k, bias and plasticity, as far as the model has these numbers, each
 * head once and at most QK__NUM_EXTREMES. Where there are fewer, heads with a median number follow. */
QK_MUST_CHECK qk_status qk__extreme_heads(qk__store *tables, const char *model,
                                          qk__extremes *extremes, qk_error *err);

#endif
