/* SPDX-License-Identifier: Apache-2.0 */
/* What the pair kernels need to know of a query model. */
#ifndef QK_STATS_PROJECTION_H
#define QK_STATS_PROJECTION_H

#include <qkscope/plasticity.h>

#include "stats/pair_kernel.h"
#include "stats/query_grid.h"
#include "stats/query_model.h"

/* With the residual variances of all queries; room for a factor if asked for. */
QK_MUST_CHECK qk_status qk__projection_create(qk_projection **projection,
                                              const qk_query_model *model, bool with_factor,
                                              qk_error *err);
void qk__projection_free(qk_projection **projection);

/* Means and covariance of one query bucket (two queries at least) instead. */
QK_MUST_CHECK qk_status qk__projection_set_bucket(qk_projection *projection,
                                                  const qk_query_model *model,
                                                  const qk_sample *queries,
                                                  const qk_query_grid *grid,
                                                  const qk_query_bucket *bucket, qk_error *err);

#endif
