/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the 95 % intervals of means, shares and correlations. */
#include "report/estimate.h"

#include <math.h>

#include "results/means.h"
#include "stats/student.h"

static const double NORMAL_975 = 1.959963984540054;

qk__estimate qk__estimate_mean(const double *values, size_t count)
{
    qk__estimate e = {0, NAN, NAN, NAN};
    qk__mean mean = {0};
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        qk__mean_add(&mean, values[i]);
    e.count = mean.count;
    e.value = qk__mean_of(&mean);
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            squares += (values[i] - e.value) * (values[i] - e.value);
    if (e.count >= 3) {
        double degrees = (double)(e.count - 1);
        double half =
            qk__student_quantile(0.975, degrees) * sqrt(squares / degrees / (double)e.count);
        e.low = e.value - half;
        e.high = e.value + half;
    }
    return e;
}

static void wilson(qk__estimate *e)
{
    double n = (double)e->count, z = NORMAL_975, zz = z * z, share = e->value;
    double center = (share + zz / (2 * n)) / (1 + zz / n);
    double half = z / (1 + zz / n) * sqrt(share * (1 - share) / n + zz / (4 * n * n));
    e->low = share == 0 ? 0 : center - half;
    e->high = share == 1 ? 1 : center + half;
}

qk__estimate qk__estimate_share(const double *shares, size_t count)
{
    qk__estimate e = qk__estimate_mean(shares, count);
    if (!isfinite(e.low))
        return e;
    if (e.low == e.high)
        wilson(&e);
    e.low = fmax(0, e.low);
    e.high = fmin(1, e.high);
    return e;
}

/* z is infinite at 1 and -1. */
double qk__fisher_z(double r)
{
    return atanh(fmin(fmax(r, -1 + 1e-12), 1 - 1e-12));
}

qk__estimate qk__estimate_correlation(double r, double pairs)
{
    qk__estimate e = {pairs > 0 ? (size_t)pairs : 0, r, NAN, NAN};
    if (!(pairs >= 4) || !isfinite(r))
        return e;
    double z = qk__fisher_z(r), half = NORMAL_975 / sqrt(pairs - 3);
    e.low = tanh(z - half);
    e.high = tanh(z + half);
    return e;
}

qk__estimate qk__estimate_correlations(const double *z, size_t count)
{
    qk__estimate e = qk__estimate_mean(z, count);
    return (qk__estimate){e.count, tanh(e.value), tanh(e.low), tanh(e.high)};
}
