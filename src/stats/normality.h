/* SPDX-License-Identifier: Apache-2.0 */
/* How far the queries of a head are from the query model. */
#ifndef QK_STATS_NORMALITY_H
#define QK_STATS_NORMALITY_H

#include <qkscope/stats.h>

#include "stats/query_model.h"

/* Sets q_r2_scalar, q_mae_*, resid0_* and noise_* of *out (docs/methods.md#plasticity); nothing else of
 * it is read or written. `model` is that of these very rows, with its own mirror; no value is
 * NaN or infinite; queries->group is ignored. Coordinates whose variance in the model is 0 have
 * no shape. Only QK_ERR_NOMEM. */
QK_MUST_CHECK qk_status qk__describe_queries(const qk__query_model *model,
                                             const qk_block *queries,
                                             const qk_plasticity_settings *settings,
                                             qk_plasticity *out, qk_error *err);

#endif
