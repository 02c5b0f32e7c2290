/* SPDX-License-Identifier: Apache-2.0 */
/* Delete-a-group jackknife. */
#include "stats/jackknife.h"

#include <math.h>

#include <qkscope/stats.h>

#include "stats/student.h"

/* The weights above 0: their number, and the number of equal weights that know as much. */
static double count_groups(const double *weight, uint32_t groups, uint32_t *used)
{
    double sum = 0, squares = 0;
    *used = 0;
    for (uint32_t g = 0; g < groups; g++) {
        sum += weight[g];
        *used += weight[g] > 0;
    }
    for (uint32_t g = 0; g<groups && * used> 0; g++)
        squares += weight[g] / sum * (weight[g] / sum);
    double effective = *used > 0 ? 1 / squares : 0;
    return effective > *used - 0.5 ? *used : effective;
}

double qk__effective_groups(const double *weight, uint32_t groups)
{
    uint32_t used;
    return count_groups(weight, groups, &used);
}

double qk__degrees_per_token(const double *weight, uint32_t groups)
{
    return qk__effective_groups(weight, groups) - 1;
}

double qk__jackknife_degrees(const double *weight, uint32_t groups)
{
    uint32_t used;
    double effective = count_groups(weight, groups, &used);
    double needed = used < QK_FEW_TEXTS ? used : (used + 16) / 3.0;
    return effective < needed ? 0 : effective - 1;
}

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

void qk__interval_about(double estimate, double error, double degrees, double level,
                        bool is_correlation, double *lo, double *hi)
{
    *lo = *hi = NAN;
    if (!(degrees >= 1))
        return;
    double center = is_correlation ? atanh(estimate) : estimate;
    double reach = error * qk__student_quantile((1 + level) / 2, degrees);
    if (!isfinite(center) || !isfinite(reach))
        return;
    *lo = is_correlation ? tanh(center - reach) : center - reach;
    *hi = is_correlation ? tanh(center + reach) : center + reach;
}

void qk__jackknife_interval(double estimate, const double *values, uint32_t groups,
                            double degrees, double level, bool is_correlation, double *lo,
                            double *hi)
{
    qk__interval_about(estimate, qk__jackknife_error(values, groups, is_correlation), degrees,
                       level, is_correlation, lo, hi);
}
