/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers along axes that were fitted, without the optimism of the fit: each group of texts is seen along the
 * axis of the others. docs/how-sure.md#along-fitted-axes */
#ifndef QK_STATS_CROSS_FIT_H
#define QK_STATS_CROSS_FIT_H

#include <stdbool.h>

#include <qkscope/stats.h>

#include "stats/text_groups.h"

/* The numbers that are computed again without each group of texts. */
typedef enum qk__repeated {
    QK__R_Q, /* along fitted axes; of PC0 */
    QK__R_K,
    QK__R_Q_A, /* of a */
    QK__R_K_A,
    QK__ALPHA_Q,
    QK__ALPHA_K,
    QK__BIAS,
    QK__SEPARATION,
    QK__NUM_CROSSED,
    QK__AP = QK__NUM_CROSSED, /* along none */
    QK__AP_DROP,
    QK__KEY_SHARE,
    QK__NUM_REPEATED
} qk__repeated;

/* Whether the number is along a: such numbers have two errors (cross_fit.c). */
static inline bool qk__is_nested(qk__repeated number)
{
    return number >= QK__R_Q_A && number <= QK__BIAS;
}

/* The error from the variances of the refitted number (2/3) and the nested one (1/3). */
double qk__joined_error(double refitted, double nested);

typedef enum qk__fitted { QK__ON_PC0, QK__ON_A, QK__ON_B, QK__NUM_FITTED } qk__fitted;

/* Rows of one kind along an axis: sums about their own means. */
typedef struct qk__axis_sums {
    double n, t, x, tt, xt, xx; /* t, x: means */
} qk__axis_sums;

/* A query head and its key head in groups of texts. An object of zeros has none. */
typedef struct qk__cross_fit {
    uint32_t count;
    /* degrees of freedom of errors over the groups; below 1 there are no intervals */
    double degrees;
    const qk_moments *q[QK_INTERVAL_GROUPS], *k[QK_INTERVAL_GROUPS]; /* NULL: no such rows */
    bool fitted[QK__NUM_FITTED][QK_INTERVAL_GROUPS];
    qk__axis_sums on_q[QK__NUM_FITTED][QK_INTERVAL_GROUPS],
        on_k[QK__NUM_FITTED][QK_INTERVAL_GROUPS];
} qk__cross_fit;

/* Sees group `group` along the axis of the other groups. like: the axis of all rows, whose sign it takes; scratch: dim
 * numbers. */
void qk__cross_fit_see(qk__cross_fit *c, qk__fitted which, uint32_t group, const double *axis,
                       const double *like, double *scratch);

typedef struct qk__crossed_number {
    double value, lo, hi; /* NaN where there is none */
} qk__crossed_number;

/* Every number with its interval at `level` (0..1), from what was seen. a: that of all rows, or NULL. refitted[i]:
 * number i of all rows without each group, along axes fitted to these. nested: becomes the cross-fitted numbers along
 * a, without each group. */
QK_MUST_CHECK qk_status qk__cross_fit_end(const qk__cross_fit *c, const double *a,
                                          const double *const refitted[QK__NUM_CROSSED],
                                          double level,
                                          double nested[QK__NUM_CROSSED][QK_INTERVAL_GROUPS],
                                          qk__crossed_number numbers[QK__NUM_CROSSED],
                                          qk_error *err);

#endif
