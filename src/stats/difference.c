/* SPDX-License-Identifier: Apache-2.0 */
/* Intervals and p-values of differences. */
#include "stats/difference.h"

#include <math.h>

#include "stats/jackknife.h"
#include "stats/length.h"
#include "stats/student.h"

/* From the value to an end of its interval, when the interval is `factor` times as wide. */
static double reach(const qk__ranged *of, double end, bool is_correlation, double factor)
{
    if (!is_correlation)
        return fabs(end - of->value) * factor;
    double z = atanh(of->value);
    return fabs(tanh(z + (atanh(end) - z) * factor) - of->value);
}

/* From the difference towards a smaller one (towards > 0: a larger one). */
static double reach_of_both(const qk__ranged *a, const qk__ranged *b, bool up,
                            bool is_correlation, double factor)
{
    return qk__length(reach(b, up ? b->hi : b->lo, is_correlation, factor),
                      reach(a, up ? a->lo : a->hi, is_correlation, factor));
}

qk__difference qk__difference_of(const qk__ranged *a, const qk__ranged *b)
{
    qk__difference d = {b->value - a->value, NAN, NAN, NAN};
    d.lo = d.value - reach_of_both(a, b, false, false, 1);
    d.hi = d.value + reach_of_both(a, b, true, false, 1);
    return d;
}

/* The factor at which the interval reaches 0; it grows with the factor. */
static double factor_to_zero(const qk__ranged *a, const qk__ranged *b, double difference,
                             bool is_correlation)
{
    bool up = difference < 0;
    double far = fabs(difference), low = 0, high = 1;
    while (high < 1e6 && reach_of_both(a, b, up, is_correlation, high) < far)
        high *= 2;
    if (high >= 1e6)
        return INFINITY;
    for (int i = 0; i < 100; i++) {
        double middle = low + (high - low) / 2;
        if (reach_of_both(a, b, up, is_correlation, middle) < far)
            low = middle;
        else
            high = middle;
    }
    return high;
}

void qk__difference_test(qk__difference *d, const qk__ranged *a, const qk__ranged *b,
                         bool is_correlation, double level, double degrees)
{
    if (!isfinite(d->lo) || !isfinite(d->hi) || !(degrees >= 1))
        return;
    if (d->value == 0)
        d->p = 1;
    else
        d->p = qk__student_p_value(factor_to_zero(a, b, d->value, is_correlation) *
                                       qk__student_quantile((1 + level) / 2, degrees),
                                   degrees);
}

qk__difference qk__difference_paired(double difference, double error, double degrees,
                                     double level)
{
    qk__difference d = {difference, NAN, NAN, NAN};
    qk__interval_about(difference, error, degrees, level, false, &d.lo, &d.hi);
    if (isfinite(d.lo))
        d.p = difference == 0 ? 1 : qk__student_p_value(difference / error, degrees);
    return d;
}

void qk__difference_limit(qk__difference *d, const qk__ranged *a, const qk__ranged *b)
{
    d->lo = fmax(d->lo, fmin(0, b->lo - a->hi));
    d->hi = fmin(d->hi, fmax(0, b->hi - a->lo));
}
