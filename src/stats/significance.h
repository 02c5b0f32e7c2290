/* SPDX-License-Identifier: Apache-2.0 */
/* Tests: how likely data as far off as these are if there is no effect. All p-values are two-sided, and NaN with too
 * few values. Infinite values are left out. */
#ifndef QK_STATS_SIGNIFICANCE_H
#define QK_STATS_SIGNIFICANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "stats/layer_model.h"

/* The level of intervals where nobody asks for another level. */
#define QK__SURE 0.95

typedef struct qk__estimate {
    size_t count;     /* finite values */
    double value;     /* NaN without any */
    double low, high; /* NaN with fewer than 3 */
} qk__estimate;

/* Student's t about the mean. Values that are not finite are left out. */
qk__estimate qk__estimate_mean(const double *values, size_t count, double level);
/* The same for shares, within 0..1. Where all shares are equal, t says nothing; then it is Wilson's interval about
 * that share of `count` independent things. */
qk__estimate qk__estimate_share(const double *shares, size_t count);
/* Fisher's z about Pearson's r over `pairs` independent pairs (not necessarily a whole number); the interval is NaN
 * below 4. */
qk__estimate qk__estimate_correlation(double r, double pairs);
/* Several r by their z: the r of the mean z, and Student's interval about it. */
double qk__fisher_z(double r);
qk__estimate qk__estimate_correlations(const double *z, size_t count);

typedef struct qk__test {
    double p; /* NaN: no test */
    int side; /* 1: the data lie above what they are tested against, -1: below, 0: at it */
} qk__test;

/* The interval of a share, or the interval that fits its test against 1/2, whichever is wider: Wilson's, of as many independent
 * things as would have this p. So the interval contains 1/2 wherever p is above 0.05. */
qk__estimate qk__widen_to_test(qk__estimate share, const qk__test *test);

/* Student's t-test of a mean, from 3 values on. Values without any spread have no t and are tested by their signs. */
qk__test qk__test_mean(const double *values, size_t count, double against);
/* The sign test: exact binomial probability of so many values above and so many below; values at `against` do not
 * count. From 3 values on. */
qk__test qk__test_signs(const double *values, size_t count, double against);
/* Pearson's r of `pairs` pairs (not necessarily a whole number), from 3 on. */
qk__test qk__test_correlation(double r, double pairs);
/* The test of a mean or slope over layers (stats/layer_model.h), from 3 layers that differ on. */
qk__test qk__test_layers(const qk__layer_fit *fit, double against);
qk__estimate qk__estimate_layers(const qk__layer_fit *fit, double level);
/* The interval of a mean, or of the mean of its layers, whichever is wider; NaN with fewer than 3 layers. */
qk__estimate qk__widen_to_layers(qk__estimate groups, const qk__layers *layers, double level);
/* Differences within layers (qk__layers_subtract): Student's t of their mean, weighted by how well each is known, from
 * the spread of groups within layers. From 3 degrees of freedom on. */
qk__test qk__test_within_layers(const qk__layers *differences);
qk__estimate qk__estimate_within_layers(const qk__layers *differences);
/* A mean over groups of heads and over their layers: the less certain test. Where nothing differs, over groups alone.
 * counts: the values of groups have few steps, so they are tested by their signs. */
qk__test qk__test_groups(const double *groups, size_t count, const qk__layers *layers,
                         double against, bool counts);
/* Several tests of one claim: p that all of them lie on that side (the largest one-sided p), and that any does
 * (Bonferroni: the smallest p times their number). NaN if one p is NaN. */
double qk__one_sided_all(const qk__test *tests, size_t count, int side);
double qk__one_sided_any(const qk__test *tests, size_t count, int side);
/* The test with these one-sided p-values. */
qk__test qk__test_of_sides(double above, double below);

#endif
