/* SPDX-License-Identifier: Apache-2.0 */
/* Delete-a-group jackknife: the interval that repetitions without one group each give.
 * docs/intervals.md */
#ifndef QK_STATS_JACKKNIFE_H
#define QK_STATS_JACKKNIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/text_groups.h"

/* Estimate and the values of the repetitions (at most QK_MOST_GROUPS) to an interval at `level`
 * (0..1). Correlations go through atanh. NaN bounds with fewer than two groups or where a value is
 * undefined. */
void qk__jackknife_interval(double estimate, const double *values, uint32_t groups,
                            double level, bool is_correlation, double *lo, double *hi);

#endif
