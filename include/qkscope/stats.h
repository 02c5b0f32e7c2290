/* SPDX-License-Identifier: Apache-2.0 */
/* What is computed of a head in memory: moments of its rows, and from them principal components, the rotation model
 * and, with the rows again, attention plasticity. */
#ifndef QKSCOPE_STATS_H
#define QKSCOPE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

QK_BEGIN_DECLS

/* ==== moments ============================================================================= */

/* First and second moments of a set of vectors and their token positions: all
 * that PCA, correlations, drift slopes and the rotation model need. One pass.
 *
 * Rows are gathered about a pilot (the mean of the first rows), in float64, in tiles of a fixed
 * number of rows that ignores how the caller cuts its blocks: the same rows in the
 * same order give the same bits, whatever the block size, and means a thousand
 * standard deviations from zero or positions near 10^6 cost no digits. */

/* Moments about the means: n rows x_i of d values with positions t_i.
 * Divide the sums by n - 1 (or n) for (co)variances. */
typedef struct qk_moments {
    size_t dim;
    int64_t count;
    double mean_t;
    double sum_tt;  /* sum of (t - mean_t)^2 */
    double *mean;   /* [d] mean of x */
    double *sum_xt; /* [d] sum of (x - mean)(t - mean_t) */
    double *sum_xx; /* [d][d] sum of (x - mean)(x - mean)^T, both triangles */
} qk_moments;

enum { QK_MAX_DIM = 4096 };

typedef struct qk_accumulator qk_accumulator;

/* Starts with no rows. dim from 1 to QK_MAX_DIM. */
QK_API QK_MUST_CHECK qk_status qk_accumulator_create(qk_accumulator **acc, size_t dim,
                                                     qk_error *err);
QK_API void qk_accumulator_free(qk_accumulator **acc);

/* Adds rows with their positions; blocks may mix float and double. Where rows->example is set, rows are also kept
 * apart by texts, in any order; either all rows of an accumulator have texts or none, else QK_ERR_ARGUMENT. A NaN or
 * infinity in a vector is QK_ERR_INCONSISTENT and names the row (counted from the first one added) and dimension; then
 * the accumulator is of no further use. */
QK_API QK_MUST_CHECK qk_status qk_accumulator_add(qk_accumulator *acc, const qk_block *rows,
                                                  qk_error *err);

/* Moments of all rows added. Frees the accumulator and sets *acc to NULL, even on failure; *moments is allocated,
 * release it with qk_moments_free. With no rows, count is 0 and so is every number. Vectors so large that squares
 * overflow (by themselves, or times those of the positions: from 1e140 on), or that differ in every dimension by so
 * little that squares lose digits (below 1e-146), are QK_ERR_INCONSISTENT: scale them. */
QK_API QK_MUST_CHECK qk_status qk_accumulator_finish(qk_accumulator **acc, qk_moments **moments,
                                                     qk_error *err);
QK_API void qk_moments_free(qk_moments **moments);

/* ==== principal components ================================================================ */

/* Principal components of queries and keys, their correlations with token position, and
 * the taxonomy of heads. Everything follows from qk_moments: no rows are needed.
 *
 * Combined analysis: one PCA of the pooled rows of a query head and its key head; for each
 * component, how far Q and K move along it with position. Numbers that the data leave
 * undefined (the slope over constant positions, a standard deviation of one row) are NaN
 * here and empty fields in the tables. */

/* Category of a head, from r_q and |r_k| of the first component against the two thresholds; strict inequalities. */
typedef enum qk_category {
    QK_POSITION_DOMINATED, /* both above the upper threshold */
    QK_Q_POSITIONAL,       /* r_q above the upper threshold, |r_k| below the lower one */
    QK_K_POSITIONAL,       /* the reverse */
    QK_CONTENT_FOCUSED,    /* both below the lower threshold */
    QK_MIXED,              /* anything else */
    QK_NUM_CATEGORIES,
} qk_category;

/* "position-dominated", "Q-positional", "K-positional", "content-focused", "mixed". */
QK_API const char *qk_category_name(qk_category category);

typedef struct qk_pca_settings {
    int components; /* at most; fewer when d or the number of rows is smaller */
    double low;     /* taxonomy thresholds on |r| */
    double high;
} qk_pca_settings;

/* 10 components, 0.3 and 0.7. */
QK_API void qk_pca_settings_default(qk_pca_settings *settings);

/* One component v. Projections are v.x, not centred. */
typedef struct qk_component {
    double explained_variance; /* share of the pooled variance, 0..1 */
    double r_q, r_k;           /* Pearson correlation of the projection with position */
    double p_q, p_k;           /* two-sided, Student t with n - 2 degrees of freedom */
    double mu_q, mu_k;         /* mean of the projection */
    double alpha, beta;        /* slope on position of the Q and of the K projection */
    double sd_q, sd_k;         /* standard deviation, 1/(n-1) */
} qk_component;

typedef struct qk_pca {
    size_t dim;
    int64_t n_q, n_k; /* single-kind: n_k is 0 and the *_k numbers are NaN */
    size_t num_components;
    qk_component *components;
    double *axes; /* [num_components][dim] unit vectors */
    double *mean; /* [dim] pooled mean */

    /* The head as a whole (combined analysis only). */
    qk_category category;
    double pos_var_q, pos_var_k; /* sum of explained_variance * r^2 over components */
    double pos_var_q_pc0_share;  /* the part of pos_var_q in the first component */
    double lin_var_q, lin_var_k; /* exact share of variance linear in position, all d */
    double positional_overhead;  /* the same for the within-kind-centred pooled rows */
    double separation;           /* |mu_q - mu_k| on the first component */
    double fisher;               /* (mu_q - mu_k)^2 / (sd_q^2 + sd_k^2) there */
    double lda_accuracy;         /* NaN until a run has seen the rows */
    double mu_q_beta;            /* mu_q * beta: key-position bias on the first component */
    double alpha_beta;
    /* the share of the variance of a row's scores that the key alone decides: 0..1 */
    double key_share;
    double score_rank; /* components that have 90 % of the rest; NaN until a run has found it */
} qk_pca;

/* Combined analysis of a query head and its key head. Signs: each axis is flipped so that
 * r_q >= 0, or r_k >= 0 where |r_q| < 0.05; if both are 0, the largest entry is positive.
 * Errors: QK_ERR_INCONSISTENT (different dimensions), QK_ERR_DEGENERATE (a kind with fewer
 * than 2 rows, or no variance at all), QK_ERR_NOMEM. */
QK_API QK_MUST_CHECK qk_status qk_pca_combined(const qk_moments *q, const qk_moments *k,
                                               const qk_pca_settings *settings, qk_pca **pca,
                                               qk_error *err);
QK_API void qk_pca_free(qk_pca **pca);

/* How sure the category and r_q of the first component are: the sampling distribution over texts, from groups of
 * texts. docs/how-sure.md */
typedef struct qk_certainty {
    uint32_t groups; /* groups of texts: up to 16 */
    /* the number of texts of equal length that would know as much: by the groups' shares of the spread of
     * positions, for queries or for keys, whichever gives fewer */
    double effective;
    int near_tie; /* 1: the variance of PC1 is above 0.9 of that of PC0, and may be as large; else 0 */
    /* of the head's category, and of each qk_category, which add up to 1: how often other texts of the kind
     * would give it */
    double category_probability, probability[QK_NUM_CATEGORIES];
    double r_q_lo, r_q_hi; /* 95 % interval of r_q */
} qk_certainty;

/* With fewer groups probabilities are not told: the distribution is not known well enough. */
enum { QK_FEW_TEXTS = 8 };

/* How well a linear function of all dimensions predicts a row's position: multiple correlations, cross-fitted. The
 * function is fitted to all groups of texts but one and predicts the rows of that one; r correlates prediction and
 * position. -1..1; near 0 or below where there is nothing to predict. docs/methods.md#position-anywhere */
typedef struct qk_multiple_correlation {
    double position;
    double octave; /* floor(log2(position + 1)) */
} qk_multiple_correlation;

/* How much the first component is the direction of the first tokens of texts, positions 0 to QK_FIRST_TOKENS - 1,
 * which lie far from all others in many heads. docs/methods.md#pca */
enum { QK_FIRST_TOKENS = 4 };
typedef struct qk_first_tokens {
    double share;  /* the share of these rows in the variance of queries and keys along PC0 */
    double cosine; /* of PC0 and PC0 of the other rows, without its sign */
    int category;  /* of the other rows, a qk_category; -1: there is none */
} qk_first_tokens;

/* ==== rotation model ====================================================================== */

/* The planar rotation model: the axis a along which queries and keys drift with position, the
 * axis b off it that tells queries from keys best, and the planes of what is left.
 *
 * The axes and nearly every number follow from qk_moments; the sinusoid along a and the angles in the planes need
 * the rows again.
 *
 * docs/methods.md#rotation-model has the formulas. Numbers that the data leave undefined are NaN here and
 * empty fields in the tables. */

typedef enum qk_b_axis {
    QK_B_PAIRS,    /* largest mean squared difference of query-key pairs, off a */
    QK_B_CENTROID, /* difference of the means, off a */
} qk_b_axis;

typedef struct qk_rotation_settings {
    qk_b_axis b_axis;
    int planes; /* of the complement, at most; 0 = none */
} qk_rotation_settings;

/* A plane of the complement. */
typedef struct qk_plane {
    double variance_share;   /* of the pooled variance, 0..1 */
    double omega, resultant; /* radians per token, > 0; 0..1. NaN until a scan has them */
    double angle_r;          /* -1..1; NaN until a scan has it */
    double rope_frequency;   /* omega, if it is one of those given to the scan; else NaN */
} qk_plane;

typedef struct qk_rotation {
    size_t dim;
    int64_t n_q, n_k;
    bool degenerate;   /* no drift, or fewer than 3 rows of a kind: every number is NaN */
    double position_r; /* |corr(a.x, position)| of the pooled rows */
    double r_q_a, r_k_a;
    double alpha_q, alpha_k;               /* slopes of a.q and a.k on position, per token */
    double mu_q_a, mu_k_a, mu_q_b, mu_k_b; /* means of the projections, not centred */
    double bias_strength;                  /* mu_q_a * alpha_k */
    double separation_strength;            /* 0..1 */
    double var_frac_a, var_frac_b, plane_var_fraction; /* of the pooled variance */
    double content_var_b;
    double residual_pos_r;
    double omega, omega_r_squared; /* NaN until a scan has them */
    double bias_over_context; /* bias_strength * tokens of context; NaN until a run has it */
    size_t num_planes;
    qk_plane *planes;
    double *a;    /* [dim] unit vector; NULL if degenerate */
    double *b;    /* [dim] unit vector orthogonal to a; NULL where there is none */
    double *axes; /* [2 * num_planes][dim] of the planes, orthonormal, orthogonal to a, b */
    double *mean_q, *mean_k; /* [dim] */
} qk_rotation;

/* ==== attention plasticity ================================================================ */

/* Attention plasticity: how often the choice between two keys of one text depends on the
 * query. 0: one of them always wins; 1: a coin toss. docs/methods.md#plasticity has the formulas.
 *
 * Numbers that the data leave undefined are NaN here and empty fields in the tables. */

/* Where our definition and the original's differ; docs/methods.md#plasticity */
typedef enum qk_plasticity_convention {
    QK_CONVENTION_EXACT,
    QK_CONVENTION_PUBLISHED, /* vectors oriented by the signs of the mean keys before they are reflected; a
                              * sliding window counts buckets, not tokens */
} qk_plasticity_convention;

typedef struct qk_plasticity_settings {
    int64_t max_pairs;   /* pairs per cell; of more, so many are drawn; 0 = no limit */
    uint64_t seed;       /* of that draw */
    double ks_alpha;     /* 0..1 */
    double bucket_width; /* tokens; 0 = from the rows */
    qk_plasticity_convention convention;
    double max_distance; /* between the two keys of a pair, in tokens; 0 = any */
    double max_share;    /* the same as a share of their text, up to its last key; 0 = any */
} qk_plasticity_settings;

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
    double ap_mean; /* mean of the cells with equal weight: the original tool's ap_overall */
    double fifths[QK_FIFTHS]; /* ap_first_20pct is the first, ap_last_20pct the last */
    double tenths[QK_TENTHS];
    size_t num_profile, num_cells, num_distances; /* each in ascending order of its keys */
    qk_ap_profile *profile;
    qk_ap_cell *cells;
    qk_ap_distance *distances;
    int64_t pairs_evaluated; /* values of PP formed */
    int64_t cells_sampled;   /* cells with more than max_pairs pairs */

    /* For a capture that keeps moments and some rows: the most keys and queries of each text and bucket, and
     * the standard error of ap_overall that comes from keeping only some; else 0 and NaN. */
    int64_t reservoir;
    double ap_overall_se;
} qk_plasticity;

QK_END_DECLS

#endif
