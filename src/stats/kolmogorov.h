/* SPDX-License-Identifier: Apache-2.0 */
/* Distribution of the two-sided Kolmogorov-Smirnov statistic. */
#ifndef QK_STATS_KOLMOGOROV_H
#define QK_STATS_KOLMOGOROV_H

#include <stdint.h>

/* Probability that the statistic of n (1 .. 2^62) independent values from a continuous
 * distribution is at least d. Never rises with d, but for rounding in the last digits. */
double qk__kolmogorov_p(int64_t n, double d);

#endif
