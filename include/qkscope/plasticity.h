/* SPDX-License-Identifier: Apache-2.0 */
/* Attention plasticity: how often the choice between two keys of one text depends on the
 * query. 0: one of them always wins; 1: a coin toss. docs/plasticity.md has the formulas.
 *
 * Numbers that the data leave undefined are NaN here and empty fields in the tables. */
#ifndef QKSCOPE_PLASTICITY_H
#define QKSCOPE_PLASTICITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/moments.h>
#include <qkscope/status.h>

QK_BEGIN_DECLS

typedef enum qk_query_variance {
    QK_VARIANCE_DIAG, /* residual variances of all queries, in reflected coordinates */
    QK_VARIANCE_FULL, /* every query bucket's own covariance */
} qk_query_variance;

/* Where our definition and that of the original tool part; docs/plasticity.md */
typedef enum qk_plasticity_convention {
    QK_CONVENTION_EXACT,
    QK_CONVENTION_PUBLISHED, /* vectors oriented by the signs of the mean keys before they are
                                reflected; a sliding window counts buckets, not tokens */
} qk_plasticity_convention;

typedef struct qk_plasticity_settings {
    qk_query_variance variance;
    int64_t max_pairs;   /* pairs per cell, more are sampled; 0 = no limit */
    uint64_t seed;       /* of that sampling */
    double ks_alpha;     /* 0..1 */
    double bucket_width; /* tokens; 0 = from the rows */
    qk_plasticity_convention convention;
    int ks_dims; /* of coordinates 2..d so many are tested, drawn by the seed; 0 = all */
} qk_plasticity_settings;

/* Diagonal variance, 65,536 pairs, seed 0, ks_alpha 0.01, width from the rows, exact, all
 * coordinates tested. */
QK_API void qk_plasticity_settings_default(qk_plasticity_settings *settings);

/* Rows of one kind in memory: exactly one of f32 and f64 is set, row-major, rows x dim; the
 * other arrays have one entry a row. window may be NULL (full attention). With `group` set,
 * rows of group `left_out` are treated as absent. The sample owns nothing. */
typedef struct qk_sample {
    size_t rows, dim;
    const float *f32;
    const double *f64;
    const int64_t *position;
    const int64_t *bucket;
    const int64_t *example;
    const int64_t *window; /* tokens; <= 0 = full attention */
    const uint32_t *group;
    uint32_t left_out;
} qk_sample;

/* Rows of head_profile.csv, head_bucket_plasticity.csv, head_distance.csv. */
typedef struct qk_ap_profile {
    int64_t q_bucket;
    double position; /* mean of the bucket's queries */
    int64_t queries, pairs;
    double ap; /* 0..1; NaN without pairs */
} qk_ap_profile;

typedef struct qk_ap_cell {
    int64_t q_bucket, k_bucket;
    int64_t pairs;
    double ap;
} qk_ap_cell;

typedef struct qk_ap_distance {
    int64_t distance_bin, lag_bin;
    int64_t pairs; /* > 0; the same two keys count once for every query bucket */
    double ap;
} qk_ap_distance;

enum { QK_FIFTHS = 5, QK_TENTHS = 10 };

typedef struct qk_plasticity {
    size_t dim;
    int64_t n_q, n_k;
    int64_t window;      /* tokens, or buckets as published; 0 = full attention */
    double bucket_width; /* W, tokens */

    /* the query model and how well it fits */
    double q_r2_pos, beta_norm;
    double q_r2_scalar, q_mae_baseline, q_mae_proj, q_mae_ratio;
    double resid0_skew, resid0_kurt, resid0_ks_p;
    double noise_med_abs_skew, noise_med_abs_kurt, noise_med_ks_p, noise_frac_ks_p_lt_alpha;
    double *component_r2, *component_weight; /* [dim] */

    /* plasticity */
    double ap_overall, ap_drop;
    double ap_mean;           /* of the cells, all alike: the original tool's ap_overall */
    double fifths[QK_FIFTHS]; /* ap_first_20pct is the first, ap_last_20pct the last */
    double tenths[QK_TENTHS];
    size_t num_profile, num_cells, num_distances; /* each in ascending order of its keys */
    qk_ap_profile *profile;
    qk_ap_cell *cells;
    qk_ap_distance *distances;
    int64_t pairs_evaluated; /* values of PP formed */
    int64_t cells_sampled;   /* cells with more than max_pairs pairs */
} qk_plasticity;

/* Analyses the queries of one head against the keys of its group. `q` are the moments of
 * `queries`. `stream` names the head for the sampling of pairs: {layer, query head}.
 * Errors: QK_ERR_INCONSISTENT (different dimensions, more than one sliding window in the
 * queries), QK_ERR_DEGENERATE (no queries or no keys), QK_ERR_NOMEM. */
QK_API QK_MUST_CHECK qk_status qk_plasticity_fit(const qk_moments *q, const qk_sample *queries,
                                                 const qk_sample *keys,
                                                 const qk_plasticity_settings *settings,
                                                 const uint64_t stream[2],
                                                 qk_plasticity **plasticity, qk_error *err);
QK_API void qk_plasticity_free(qk_plasticity **plasticity);

/* Name of the pair kernel this processor runs: "avx512", "avx2" or "portable".
 * All give the same bits. */
QK_API const char *qk_plasticity_kernel(void);

QK_END_DECLS

#endif
