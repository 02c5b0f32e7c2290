/* SPDX-License-Identifier: Apache-2.0 */
/* The difference of two numbers that each have an interval: its interval and p-value. docs/howto/compare.md */
#ifndef QK_STATS_DIFFERENCE_H
#define QK_STATS_DIFFERENCE_H

#include <stdbool.h>
#include <stdint.h>

/* A number with its interval in a table; NaN where there is none. */
typedef struct qk__ranged {
    double value, lo, hi;
} qk__ranged;

typedef struct qk__difference {
    double value, lo, hi; /* of b - a; NaN where not known */
    double p;             /* two-sided, of no difference */
} qk__difference;

/* The difference of numbers of different texts, by the method of Zou and Donner (Statistics in Medicine 27(10), 2008),
 * which allows intervals that are not symmetric. Both intervals and that of the difference are of one level. */
qk__difference qk__difference_of(const qk__ranged *a, const qk__ranged *b);

/* The difference of numbers of the same texts; error: of their difference, over groups of texts. With fewer than 1
 * degree of freedom there is no interval. */
qk__difference qk__difference_paired(double difference, double error, double degrees,
                                     double level);

/* Cuts the interval of correlations of the same texts off where the intervals of a and b end, but not before 0: Student's t
 * knows no end of r. */
void qk__difference_limit(qk__difference *difference, const qk__ranged *a, const qk__ranged *b);

/* Sets p of a difference of different texts: 1 less the level at which its interval would just hold 0, so that it is
 * below 1 - level where the interval does not hold 0. degrees: of freedom, of the jackknife behind the interval
 * with the fewest; with fewer than 1 there is none. Correlations move by atanh, as their
 * intervals do. */
void qk__difference_test(qk__difference *difference, const qk__ranged *a, const qk__ranged *b,
                         bool is_correlation, double level, double degrees);

#endif
