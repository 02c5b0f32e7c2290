/* SPDX-License-Identifier: Apache-2.0 */
/* The best sinusoid through points at token positions. */
#ifndef QK_STATS_SINUSOID_H
#define QK_STATS_SINUSOID_H

#include "stats/positions.h"

/* omega maximises the R^2 of y ~ A cos(omega t) + B sin(omega t) + D over 1/8 turn to 16 turns
 * over the range of positions, and at most half a turn over their step. y is in the order of
 * the rows. Both are NaN with fewer than four positions or without variance. */
QK_MUST_CHECK qk_status qk__sinusoid_fit(qk__positions *positions, const double *y,
                                         double *omega, double *r_squared, qk_error *err);

#endif
