/* SPDX-License-Identifier: Apache-2.0 */
/* Tests: how likely data as far off as these are where there is nothing. All p-values are two-sided; none is
 * made where too few values are there (NaN), and infinite values are left out as everywhere. */
#ifndef QK_REPORT_SIGNIFICANCE_H
#define QK_REPORT_SIGNIFICANCE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct qk__test {
    double p; /* NaN: no test */
    int side; /* where the data lie: 1 above what they are tested against, -1 below, 0 at it */
} qk__test;

/* Student's t-test of a mean; from 3 values on. Values without any spread have no t: they are tested by
 * their signs. */
qk__test qk__test_mean(const double *values, size_t count, double against);
/* The sign test: exact binomial probability of so many above and so many below; those at `against` do
 * not count. From 3 values on. */
qk__test qk__test_signs(const double *values, size_t count, double against);
/* Pearson's r of that many pairs (not necessarily a whole number), from 3 on. */
qk__test qk__test_correlation(double r, double pairs);
/* Welch's t-test: whether the mean of a is above that of b. From 3 values of each on. */
qk__test qk__test_difference(const double *a, size_t count_a, const double *b, size_t count_b);
/* The rank-sum test (Wilcoxon, Mann and Whitney) of whether the marked values are above the others, exact:
 * of all choices of as many, the share with ranks as high; ties have the mean of their ranks. p is NaN
 * without marked or other values. False: memory ran out. */
bool qk__test_ranks(const double *values, const char *marked, size_t count, qk__test *test);

/* Of tests about one claim: p that all of them lie on that side (the largest one-sided p), and that any
 * does (Bonferroni: the smallest, times their number). NaN if one is. */
double qk__one_sided_all(const qk__test *tests, size_t count, int side);
double qk__one_sided_any(const qk__test *tests, size_t count, int side);
/* Of p-values of the two sides. */
qk__test qk__test_of_sides(double above, double below);

/* Benjamini and Hochberg's correction of p-values (1995): rejecting where the adjusted one is at most q
 * keeps the expected share of false ones among the rejected at q; where nothing is there, the
 * probability of any. */
void qk__correct(const double *p, size_t count, double *adjusted);

#endif
