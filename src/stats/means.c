/* SPDX-License-Identifier: Apache-2.0 */
/* Means, medians, tenths of the depth, and lines. */
#include "stats/means.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

void qk__mean_add(qk__mean *mean, double value)
{
    if (!isfinite(value))
        return;
    double total = mean->total + value;
    mean->error += fabs(mean->total) >= fabs(value) ? (mean->total - total) + value
                                                    : (value - total) + mean->total;
    mean->total = total;
    mean->count++;
}

double qk__mean_of(const qk__mean *mean)
{
    return mean->count > 0 ? (mean->total + mean->error) / (double)mean->count : NAN;
}

double qk__mean_plain(const qk__mean *mean)
{
    return mean->count > 0 ? mean->total / (double)mean->count : NAN;
}

void qk__range_add(qk__range *range, double value)
{
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

/* The last layer itself belongs to the last tenth. */
void qk__depth_add(qk__depth_means *means, double depth, double value)
{
    int bin = (int)(depth * QK__DEPTH_BINS);
    qk__mean_add(&means->bins[bin < QK__DEPTH_BINS ? bin : QK__DEPTH_BINS - 1], value);
}

void qk__depth_values(const qk__depth_means *means, double values[QK__DEPTH_BINS])
{
    for (int i = 0; i < QK__DEPTH_BINS; i++)
        values[i] = qk__mean_of(&means->bins[i]);
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void qk__sort(double *values, size_t count)
{
    if (count > 0)
        qsort(values, count, sizeof *values, compare_numbers);
}

double qk__median(double *values, size_t count)
{
    if (count == 0)
        return NAN;
    qk__sort(values, count);
    return count % 2 ? values[count / 2]
                     : values[count / 2 - 1] + (values[count / 2] - values[count / 2 - 1]) / 2;
}

void qk__least_and_median(double *values, size_t count, double *least, double *median)
{
    *median = qk__median(values, count);
    *least = count > 0 ? values[0] : NAN;
}

/* ---- line ------------------------------------------------------------------------------- */

qk__line qk__fit_line(const double *x, const double *y, size_t count)
{
    qk__line line = {0, NAN, NAN, NAN};
    qk__mean sum_x = {0}, sum_y = {0};
    qk__range range_x = QK__NO_RANGE, range_y = QK__NO_RANGE;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i]))
            continue;
        qk__mean_add(&sum_x, x[i]);
        qk__mean_add(&sum_y, y[i]);
        qk__range_add(&range_x, x[i]);
        qk__range_add(&range_y, y[i]);
    }
    line.count = sum_x.count;
    /* Equal values, and not a sum of squares, since the mean may be rounded. */
    if (line.count < 3 || range_x.low == range_x.high || range_y.low == range_y.high)
        return line;
    double mean_x = qk__mean_of(&sum_x), mean_y = qk__mean_of(&sum_y);
    qk__mean xx = {0}, xy = {0}, yy = {0};
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i]))
            continue;
        double dx = x[i] - mean_x, dy = y[i] - mean_y;
        qk__mean_add(&xx, dx * dx);
        qk__mean_add(&xy, dx * dy);
        qk__mean_add(&yy, dy * dy);
    }
    double var_x = qk__mean_of(&xx), var_y = qk__mean_of(&yy), cov = qk__mean_of(&xy);
    bool overflow = xx.count < line.count || yy.count < line.count || xy.count < line.count;
    if (overflow || !(var_x > 0 && var_y > 0 && isfinite(var_x) && isfinite(var_y)))
        return line;
    line.r = fmax(-1, fmin(1, cov / (sqrt(var_x) * sqrt(var_y))));
    line.slope = cov / var_x;
    line.start = mean_y - line.slope * mean_x;
    return line;
}
