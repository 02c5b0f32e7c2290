/* SPDX-License-Identifier: Apache-2.0 */
/* Means, medians, tenths of the depth, and lines: what every number over heads is made of. */
#ifndef QK_STATS_MEANS_H
#define QK_STATS_MEANS_H

#include <math.h>
#include <stddef.h>

enum { QK__DEPTH_BINS = 10 };

/* A mean of what is finite, begun with {0}. Rounding errors are carried (Neumaier), so that the
 * order of the values does not show. */
typedef struct qk__mean {
    double total, error;
    size_t count;
} qk__mean;
void qk__mean_add(qk__mean *mean, double value);
double qk__mean_of(const qk__mean *mean); /* NaN without values */
/* The plain sum over the count, as in model_report.csv, whose digits stay. */
double qk__mean_plain(const qk__mean *mean);

/* Means by tenths of the depth, which is 0 in the first layer and 1 in the last. */
typedef struct qk__depth_means {
    qk__mean bins[QK__DEPTH_BINS];
} qk__depth_means;
void qk__depth_add(qk__depth_means *means, double depth, double value);
void qk__depth_values(const qk__depth_means *means, double values[QK__DEPTH_BINS]);

/* From the least to the largest value, begun as QK__NO_RANGE; NaN is left out. */
typedef struct qk__range {
    double low, high;
} qk__range;
#define QK__NO_RANGE ((qk__range){INFINITY, -INFINITY})
void qk__range_add(qk__range *range, double value);

/* Of finite values, which it sorts; NaN without any. */
double qk__median(double *values, size_t count);
void qk__least_and_median(double *values, size_t count, double *least, double *median);
void qk__sort(double *values, size_t count);

/* Pearson r over pairs that are both finite, and the least-squares line y = slope x + start;
 * NaN with fewer than 3 pairs or without variance. */
typedef struct qk__line {
    size_t count;
    double r, slope, start;
} qk__line;
qk__line qk__fit_line(const double *x, const double *y, size_t count);

#endif
