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

/* Its parts: the standard error, of correlations through atanh, NaN where there is none; and the interval
 * of such an error with groups - 1 degrees of freedom. */
double qk__jackknife_error(const double *values, uint32_t groups, bool is_correlation);
void qk__interval_about(double estimate, double error, uint32_t groups, double level,
                        bool is_correlation, double *lo, double *hi);

#endif
