/* SPDX-License-Identifier: Apache-2.0 */
/* Delete-a-group jackknife. */
#include "stats/jackknife.h"

#include <math.h>

#include "stats/student.h"

double qk__jackknife_error(const double *values, uint32_t groups, bool is_correlation)
{
    double transformed[QK_MOST_GROUPS], mean = 0, sum = 0, largest = 0;
    int exponent;
    if (groups < 2)
        return NAN;
    for (uint32_t g = 0; g < groups; g++) {
        transformed[g] = is_correlation ? atanh(values[g]) : values[g];
        mean += transformed[g] / groups;
    }
    for (uint32_t g = 0; g < groups; g++) {
        transformed[g] -= mean;
        if (!isfinite(transformed[g]))
            return NAN;
        largest = fmax(largest, fabs(transformed[g]));
    }
    /* By a power of two, so that squares neither overflow nor vanish. */
    frexp(largest, &exponent);
    for (uint32_t g = 0; g < groups; g++) {
        double deviation = ldexp(transformed[g], -exponent);
        sum += deviation * deviation;
    }
    return ldexp(sqrt(sum * (groups - 1) / groups), exponent);
}

void qk__interval_about(double estimate, double error, uint32_t groups, double level,
                        bool is_correlation, double *lo, double *hi)
{
    *lo = *hi = NAN;
    if (groups < 2)
        return;
    double center = is_correlation ? atanh(estimate) : estimate;
    double reach = error * qk__student_quantile((1 + level) / 2, (double)groups - 1);
    if (!isfinite(center) || !isfinite(reach))
        return;
    *lo = is_correlation ? tanh(center - reach) : center - reach;
    *hi = is_correlation ? tanh(center + reach) : center + reach;
}

void qk__jackknife_interval(double estimate, const double *values, uint32_t groups,
                            double level, bool is_correlation, double *lo, double *hi)
{
    qk__interval_about(estimate, qk__jackknife_error(values, groups, is_correlation), groups,
                       level, is_correlation, lo, hi);
}
