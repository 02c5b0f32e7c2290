/* SPDX-License-Identifier: Apache-2.0 */
/* Plasticity by query bucket as the original tool draws it: a line for every head, the mean
 * over all. */
#ifndef QK_FIGURE_BUCKET_PLOT_H
#define QK_FIGURE_BUCKET_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "figure/figure.h"

/* Mean plasticity of one head in one query bucket. */
typedef struct qk__bucket_point {
    int64_t layer, q_head, k_head, bucket;
    double ap;
} qk__bucket_point;

typedef struct qk__bucket_plot {
    const qk__bucket_point *points; /* by head, then bucket; each once */
    size_t count;
    const char *model_name; /* from outside; NULL = none */
    double alpha, line_width;
    bool log_buckets;
    double bucket_min_size;
    double trend_threshold;     /* colours by the slope; 0 = no */
    const qk__colormap *layers; /* colours by the layer; NULL = no */
} qk__bucket_plot;

/* Describes the whole figure and sets its size. Returns how many heads it has. */
size_t qk__figure_buckets(qk__figure *figure, const qk__bucket_plot *plot);

#endif
