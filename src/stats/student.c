/* SPDX-License-Identifier: Apache-2.0 */
/* Significance of a Pearson correlation.
 *
 * With x = 1 - r^2 the two-sided p-value is the regularised incomplete beta function
 * I_x(a, 1/2) at a = (n - 2) / 2 (Abramowitz and Stegun 26.5.27 and 26.7.1). */
#include <qkscope/pca.h>

#include <float.h>
#include <math.h>

static const double PI = 3.14159265358979323846;

/* 1 / B(a, 1/2) = Gamma(a + 1/2) / (Gamma(a) sqrt(pi)) for a = 1/2, 1, 3/2, ... By the
 * recurrence of the gamma function where that is short, by its asymptotic series else
 * (at the border its next term is below 10^-15). */
static double inverse_beta_half(double a)
{
    if (a > 500) {
        double u = 1 / a;
        return sqrt(a / PI) *
               (1 + u * (-1. / 8 + u * (1. / 128 + u * (5. / 1024 - u * 21. / 32768))));
    }
    double first = fmod(a, 1) == 0 ? 1 : 0.5;
    double value = first == 1 ? 0.5 : 1 / PI;
    for (int i = 0; first + i < a; i++)
        value *= (first + i + 0.5) / (first + i);
    return value;
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

double qk_correlation_p_value(double r, int64_t n)
{
    if (isnan(r) || n < 3)
        return 1;
    r = fabs(r);
    if (r >= 1)
        return 0;
    if (r == 0)
        return 1;
    double a = (double)(n - 2) / 2;
    double y = r * r, x = (1 - r) * (1 + r);
    double log_x = y < 0.5 ? log1p(-y) : log(x);
    /* x^a y^(1/2) / B(a, 1/2), the factor common to both tails */
    double front = exp(a * log_x) * r * inverse_beta_half(a);
    double p = x < (a + 1) / (a + 2.5) ? front / a * beta_fraction(a, 0.5, x)
                                       : 1 - front / 0.5 * beta_fraction(0.5, a, y);
    return p < 0 ? 0 : p > 1 ? 1 : p;
}
