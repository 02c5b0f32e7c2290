/* SPDX-License-Identifier: Apache-2.0 */
/* Principal components of one set of rows (pca.c), and what correlations make of a head (taxonomy.c). */
#ifndef QK_STATS_PCA_H
#define QK_STATS_PCA_H

#include <qkscope/stats.h>

qk_category qk__classify(double r_q, double r_k, double low, double high);

/* PCA of one set of rows; its numbers are in the *_q fields. The largest entry of each axis
 * is positive, as scikit-learn has it. */
QK_MUST_CHECK qk_status qk__pca_single(const qk_moments *moments,
                                       const qk_pca_settings *settings, qk_pca **pca,
                                       qk_error *err);

#endif
