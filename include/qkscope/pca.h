/* SPDX-License-Identifier: Apache-2.0 */
/* Principal components of queries and keys, their correlations with token position, and
 * the taxonomy of heads. Everything follows from qk_moments: no rows are needed.
 *
 * Combined analysis: one PCA of the pooled rows of a query head and its key head; for each
 * component, how far Q and K move along it with position. Numbers that the data leave
 * undefined (the slope over constant positions, a standard deviation of one row) are NaN
 * here and empty fields in the tables. */
#ifndef QKSCOPE_PCA_H
#define QKSCOPE_PCA_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/moments.h>
#include <qkscope/status.h>

QK_BEGIN_DECLS

/* Kind of head, from r_q and |r_k| of the first component against the two thresholds;
 * strict inequalities. */
typedef enum qk_category {
    QK_POSITION_DOMINATED, /* both above the upper threshold */
    QK_Q_POSITIONAL,       /* r_q above it, |r_k| below the lower one */
    QK_K_POSITIONAL,       /* the reverse */
    QK_CONTENT_FOCUSED,    /* both below the lower one */
    QK_MIXED,              /* anything else */
    QK_NUM_CATEGORIES,
} qk_category;

/* "position-dominated", "Q-positional", "K-positional", "content-focused", "mixed". */
QK_API const char *qk_category_name(qk_category category);
QK_API qk_category qk_classify(double r_q, double r_k, double low, double high);

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
    double pos_var_q_pc0_share;  /* of pos_var_q in the first component */
    double lin_var_q, lin_var_k; /* exact share of variance linear in position, all d */
    double positional_overhead;  /* the same of the within-kind-centred pooled rows */
    double separation;           /* |mu_q - mu_k| on the first component */
    double fisher;               /* (mu_q - mu_k)^2 / (sd_q^2 + sd_k^2) there */
    double lda_accuracy;         /* NaN until qk_pca_lda_count has seen the rows */
    double mu_q_beta;            /* mu_q * beta: key-position bias on the first component */
    double alpha_beta;
} qk_pca;

/* Combined analysis of a query head and its key head. Signs: each axis is flipped so that
 * r_q >= 0, or r_k >= 0 where |r_q| < 0.05; if both are 0, the largest entry is positive.
 * Errors: QK_ERR_INCONSISTENT (different dimensions), QK_ERR_DEGENERATE (a kind with fewer
 * than 2 rows, or no variance at all), QK_ERR_NOMEM. */
QK_API QK_MUST_CHECK qk_status qk_pca_combined(const qk_moments *q, const qk_moments *k,
                                               const qk_pca_settings *settings, qk_pca **pca,
                                               qk_error *err);

/* PCA of one set of rows; its numbers are in the *_q fields. The largest entry of each axis
 * is positive, as scikit-learn has it. */
QK_API QK_MUST_CHECK qk_status qk_pca_single(const qk_moments *moments,
                                             const qk_pca_settings *settings, qk_pca **pca,
                                             qk_error *err);
QK_API void qk_pca_free(qk_pca **pca);

/* How sure the category and r_q of the first component are: a jackknife over groups of texts
 * along the axis of all rows. docs/intervals.md */
typedef struct qk_certainty {
    uint32_t groups;       /* repetitions, each without one group */
    double category_share; /* of them, those with the category of all rows */
    double r_q_lo, r_q_hi; /* 95 % interval of r_q */
} qk_certainty;

/* q_texts and k_texts: of the rows behind `pca`, NULL where their texts are not known. A number
 * that the texts leave undefined is NaN: both with fewer than two texts, the share where a
 * repetition has no queries or no keys, the interval where some r_q is 1. */
QK_API QK_MUST_CHECK qk_status qk_pca_certainty(const qk_pca *pca,
                                                const qk_pca_settings *settings,
                                                const qk_text_moments *q_texts,
                                                const qk_text_moments *k_texts,
                                                qk_certainty *certainty, qk_error *err);

/* Two-sided p-value of a Pearson correlation r over n rows (Student t with n - 2 degrees of
 * freedom); 1 for n < 3. Underflow gives 0. */
QK_API double qk_correlation_p_value(double r, int64_t n);

/* ---- linear discriminant ---------------------------------------------------------------- */

/* The line in (PC0, PC1) that separates Q from K: pooled within-class covariance, equal
 * priors. A row is called Q when weight . x + bias > 0. */
typedef struct qk_lda {
    size_t dim;
    double bias;
    double *weight; /* [dim] */
} qk_lda;
QK_API QK_MUST_CHECK qk_status qk_pca_lda(const qk_pca *pca, const qk_moments *q,
                                          const qk_moments *k, qk_lda **lda, qk_error *err);
QK_API void qk_lda_free(qk_lda **lda);

/* How many of the rows fall on the Q side. */
QK_API int64_t qk_lda_count_q_f32(const qk_lda *lda, const float *x, size_t rows);
QK_API int64_t qk_lda_count_q_f64(const qk_lda *lda, const double *x, size_t rows);

QK_END_DECLS

#endif
