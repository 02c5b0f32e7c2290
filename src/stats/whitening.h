/* SPDX-License-Identifier: Apache-2.0 */
/* What the pair kernels need to know of a query model. */
#ifndef QK_STATS_WHITENING_H
#define QK_STATS_WHITENING_H

#include <qkscope/stats.h>

#include "stats/pair_kernel.h"
#include "stats/query_model.h"

/* With the residual variances of all queries. */
QK_MUST_CHECK qk_status qk__whitening_create(qk__whitening **whitening,
                                             const qk__query_model *model, qk_error *err);
void qk__whitening_free(qk__whitening **whitening);

#endif
