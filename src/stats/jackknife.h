/* SPDX-License-Identifier: Apache-2.0 */
/* Delete-a-group jackknife: the interval from repetitions without one group each. docs/how-sure.md */
#ifndef QK_STATS_JACKKNIFE_H
#define QK_STATS_JACKKNIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/text_groups.h"

/* How many groups of equal weight know as much as these: (sum w)^2 / sum w^2; the number of weights above 0 where that
 * is less than half a group more. */
double qk__effective_groups(const double *weight, uint32_t groups);

/* Degrees of freedom of an error over groups of these weights: one less. For a mean per token (tokens are the weights)
 * this always holds; for r they are 0, so that there is no interval, where a few groups carry most of the weight: of
 * up to 8 groups all must count, of 16 two thirds, of 32 half. */
double qk__degrees_per_token(const double *weight, uint32_t groups);
double qk__jackknife_degrees(const double *weight, uint32_t groups);

/* Estimate and the values of the repetitions (at most QK_MOST_GROUPS) to an interval at `level`
 * (0..1). Correlations go through atanh. NaN bounds with fewer than one degree of freedom or where a value is
 * undefined. */
void qk__jackknife_interval(double estimate, const double *values, uint32_t groups,
                            double degrees, double level, bool is_correlation, double *lo,
                            double *hi);

/* Its parts: the standard error, through atanh for correlations, NaN where there is none; and the interval of such an
 * error. */
double qk__jackknife_error(const double *values, uint32_t groups, bool is_correlation);
void qk__interval_about(double estimate, double error, double degrees, double level,
                        bool is_correlation, double *lo, double *hi);

#endif
