/* SPDX-License-Identifier: Apache-2.0 */
/* The two-sided Kolmogorov-Smirnov statistic of many values. */
#ifndef QK_STATS_KOLMOGOROV_H
#define QK_STATS_KOLMOGOROV_H

#include <stdint.h>

/* About the probability that the statistic of n independent values from a continuous distribution is
 * at least d: what it tends to as n grows, for d sqrt(n). */
double qk__kolmogorov_p(int64_t n, double d);

#endif
