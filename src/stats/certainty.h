/* SPDX-License-Identifier: Apache-2.0 */
/* How sure a category is: the parts of qk__pca_certainty (docs/how-sure.md). certainty.c leads;
 * category_shares.c and category_draws.c are the parts. */
#ifndef QK_STATS_CERTAINTY_H
#define QK_STATS_CERTAINTY_H

#include <qkscope/stats.h>

#include "stats/moments.h"

/* Correlations of a head on PC0, through atanh, and how they spread with other texts. */
typedef struct qk__sampling_spread {
    double z_q, z_k;
    double var_q, var_k, cov; /* of the sampling distribution */
    double degrees;           /* of freedom */
} qk__sampling_spread;

/* The share of a bivariate t distribution that each category has. */
void qk__category_shares(const qk__sampling_spread *spread, const qk_pca_settings *settings,
                         double probability[QK_NUM_CATEGORIES]);

/* The correlations of the rows outside a group, r_q[group] and r_k[group], are given along the PC0 of all rows; they
 * become those along the PC0 of these rows, in the space of the first components of `pca`. NaN: there are none. */
QK_MUST_CHECK qk_status qk__category_refits(const qk_pca *pca, const qk__text_moments *q_texts,
                                            const qk__text_moments *k_texts,
                                            const qk__text_labels *labels, double *r_q,
                                            double *r_k, qk_error *err);

/* What PC0 may be in other texts where PC1 has nearly its variance. */
typedef struct qk__tie {
    bool near;                             /* the two are not distinguished */
    double probability[QK_NUM_CATEGORIES]; /* by drawing groups of texts again */
} qk__tie;

/* From the sums of two kinds by the united groups `labels`, of which `effective` count, in the space of the first
 * components of `pca`. */
QK_MUST_CHECK qk_status qk__category_draws(const qk_pca *pca, const qk_pca_settings *settings,
                                           const qk__text_moments *q_texts,
                                           const qk__text_moments *k_texts,
                                           const qk__text_labels *labels, double effective,
                                           qk__tie *tie, qk_error *err);

/* q_texts and k_texts: of the rows behind `pca`, NULL where their texts are not known. A number
 * that the texts leave undefined is NaN: all with fewer than two texts, the probabilities with fewer than
 * QK_FEW_TEXTS effective groups or where a repetition has no queries or no keys, the interval where some r_q is
 * 1 or a few texts have most of the spread of positions. */
QK_MUST_CHECK qk_status qk__pca_certainty(const qk_pca *pca, const qk_pca_settings *settings,
                                          const qk__text_moments *q_texts,
                                          const qk__text_moments *k_texts,
                                          qk_certainty *certainty, qk_error *err);

#endif
