/* SPDX-License-Identifier: Apache-2.0 */
/* The Kolmogorov-Smirnov statistic of many columns of numbers against the normal
 * distribution, without sorting them. */
#ifndef QK_STATS_KS_STATISTIC_H
#define QK_STATS_KS_STATISTIC_H

#include <stddef.h>

#include <qkscope/common.h>

/* Tables and room for columns of up to `rows` numbers; one caller at a time. */
typedef struct qk__ks qk__ks;

QK_MUST_CHECK qk_status qk__ks_create(qk__ks **ks, size_t rows, qk_error *err);
void qk__ks_free(qk__ks **ks);

/* max over the sorted z_i = (x_i - centre) * scale, i = 1 .. rows, of i / rows - Phi(z_i) and
 * Phi(z_i) - (i - 1) / rows, Phi(z) = erfc(-z / sqrt(2)) / 2; scale > 0. rows as at creation; 0
 * without rows. */
double qk__ks_normal(qk__ks *ks, const double *x, double centre, double scale);

#endif
