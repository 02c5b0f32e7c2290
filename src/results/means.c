/* SPDX-License-Identifier: Apache-2.0 */
/* Means, medians and tenths of the depth. */
#include "results/means.h"

#include <math.h>
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
