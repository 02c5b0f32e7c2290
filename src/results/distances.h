/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over heads of plasticity by distance and lag, one grid a model. */
#ifndef QK_RESULTS_DISTANCES_H
#define QK_RESULTS_DISTANCES_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "results/grow.h"
#include "results/results.h"

typedef struct qk__distance_grid qk__distance_grid;

typedef struct qk__distances {
    qk__distance_grid *grids; /* by model */
    size_t count;
    size_t cells; /* of all grids together */
} qk__distances;

void qk__distances_free(qk__distances *distances);

/* Adds the mean ap of that many pairs. */
QK_MUST_CHECK qk_status qk__distances_add(qk__distances *distances, size_t model,
                                          int64_t distance_bin, int64_t lag_bin, double pairs,
                                          double ap, qk_error *err);

/* The map of a model, in the arena; bucket_width is that of its heads. */
QK_MUST_CHECK qk_status qk__distances_map(const qk__distances *distances, size_t model,
                                          double bucket_width, qk__arena *arena,
                                          qk__distance_map *map, qk_error *err);

#endif
