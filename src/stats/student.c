/* SPDX-License-Identifier: Apache-2.0 */
/* Significance of a Pearson correlation, and quantiles of Student's t.
 *
 * With x = 1 - r^2 the two-sided p-value is the regularised incomplete beta function
 * I_x(a, 1/2) at a = (n - 2) / 2 (Abramowitz and Stegun 26.5.27 and 26.7.1). With n - 2 degrees
 * of freedom, t^2 = (n - 2) r^2 / (1 - r^2). */
#include "stats/student.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include <qkscope/stats.h>

static const double PI = 3.14159265358979323846;

/* 1 / B(a, 1/2) = Gamma(a + 1/2) / (Gamma(a) sqrt(pi)) for a >= 1/2: by its asymptotic series
 * from 32 on, where the next term is 2 * 10^-16, and by the recurrence of the gamma function
 * down from there. */
static double inverse_beta_half(double a)
{
    static const double series[] = {
        39325. / 33554432, 869. / 4194304, -399. / 262144, -21. / 32768,
        5. / 1024,         1. / 128,       -1. / 8,        1};
    double ratio = 1, sum = 0;
    while (a < 32) {
        ratio *= a / (a + 0.5);
        a++;
    }
    for (size_t i = 0; i < sizeof series / sizeof *series; i++)
        sum = sum / a + series[i];
    return ratio * sqrt(a / PI) * sum;
}

/* Continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8) by
 * Lentz's method. Takes about sqrt(max(a, b)) steps for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = DBL_MIN / DBL_EPSILON;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double value = d;
    for (int m = 1; m < 1000000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + even * d;
        c = 1 + even / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        value *= c * d;
        d = 1 + odd * d;
        c = 1 + odd / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        double change = c * d;
        value *= change;
        if (fabs(change - 1) < 4 * DBL_EPSILON)
            break;
    }
    return value;
}

/* I_x(a, 1/2) with x = 1 - r^2, or the rest up to 1. Of the two the one that the fraction gives
 * at once is accurate however small it is. */
static double beta_half(double a, double r, double x, double log_x, bool rest)
{
    double y = r * r;
    /* x^a y^(1/2) / B(a, 1/2), the factor common to both tails */
    double front = exp(a * log_x) * r * inverse_beta_half(a);
    bool tail = x < (a + 1) / (a + 2.5);
    double p =
        tail ? front / a * beta_fraction(a, 0.5, x) : front / 0.5 * beta_fraction(0.5, a, y);
    return tail == rest ? 1 - p : p;
}

double qk__correlation_p_value(double r, int64_t n)
{
    if (isnan(r) || n < 3)
        return 1;
    r = fabs(r);
    if (r >= 1)
        return 0;
    if (r == 0)
        return 1;
    double y = r * r, x = (1 - r) * (1 + r);
    double log_x = y < 0.5 ? log1p(-y) : log(x);
    double p = beta_half((double)(n - 2) / 2, r, x, log_x, false);
    return p < 0 ? 0 : p > 1 ? 1 : p;
}

double qk__student_p_value(double t, double degrees)
{
    if (!(degrees >= 1) || isnan(t))
        return NAN;
    t = fabs(t);
    if (t == 0)
        return 1;
    if (!(t * t < HUGE_VAL))
        return 0;
    double square = t * t / degrees;
    double p = beta_half(degrees / 2, t / sqrt(degrees + t * t), 1 / (1 + square),
                         -log1p(square), false);
    return p < 0 ? 0 : p > 1 ? 1 : p;
}

double qk__student_below(double t, double degrees)
{
    double tail = qk__student_p_value(t, degrees) / 2;
    return t > 0 ? 1 - tail : tail;
}

/* log of the probability of |T| > t, or of |T| < t, and its slope by log t. */
static double log_probability(double t, double degrees, bool inside, double *slope)
{
    double a = degrees / 2, square = t * t / degrees;
    double log_x = -log1p(square);
    double p = beta_half(a, t / sqrt(degrees + t * t), 1 / (1 + square), log_x, inside);
    double density = inverse_beta_half(a) / sqrt(degrees) * exp((a + 0.5) * log_x);
    *slope = (inside ? 2 : -2) * t * density / p;
    return log(p);
}

/* Newton's method on log probability against log t, which is nearly straight at both ends,
 * halving the interval where a step would leave it. Solved for whichever of the two
 * probabilities is smaller: both are exact in double. */
double qk__student_quantile(double probability, double degrees)
{
    if (!(probability >= 0.5 && probability < 1 && degrees >= 1 && degrees < HUGE_VAL))
        return NAN;
    if (probability == 0.5)
        return 0;
    bool inside = probability < 0.75;
    double target = log(inside ? 2 * probability - 1 : 2 * (1 - probability));
    double low = -40, high = 40, u = 0; /* log t; beyond e^40 lies less than 2^-53 */
    for (int i = 0; i < 200; i++) {
        double slope;
        double above = log_probability(exp(u), degrees, inside, &slope) - target;
        if ((above > 0) == inside)
            high = u;
        else
            low = u;
        double next = u - above / slope;
        if (!(next > low && next < high))
            next = (low + high) / 2;
        double step = fabs(next - u);
        u = next;
        if (step < 4 * DBL_EPSILON)
            break;
    }
    return exp(u);
}
