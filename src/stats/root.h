/* SPDX-License-Identifier: Apache-2.0 */
/* A root of a function between two points of different sign. */
#ifndef QK_STATS_ROOT_H
#define QK_STATS_ROOT_H

typedef double qk__function(void *context, double x);

/* Where f, with values at_a > 0 at a and at_b < 0 at b, is zero: to a few units of rounding,
 * or as far as f is smooth there. Calls f at most 100 times. */
double qk__root(qk__function *f, void *context, double a, double at_a, double b, double at_b);

#endif
