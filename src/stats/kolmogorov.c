/* SPDX-License-Identifier: Apache-2.0 */
/* Kolmogorov's distribution, by the series that converges faster on either side of 1. */
#include "stats/kolmogorov.h"

#include <math.h>

enum { TERMS = 5 }; /* the next is below 10^-30 */

double qk__kolmogorov_p(int64_t n, double d)
{
    const double pi = 3.14159265358979323846;
    double x = sqrt((double)n) * d, sum = 0;
    if (n < 1 || isnan(d))
        return NAN;
    if (x < 0.1) /* 1 - p is below 10^-52 */
        return 1;
    for (int k = TERMS; k >= 1; k--)
        if (x < 1)
            sum += exp(-(2 * k - 1) * (2 * k - 1) * pi * pi / (8 * x * x));
        else
            sum += (k % 2 ? 2 : -2) * exp(-2.0 * k * k * x * x);
    return x < 1 ? 1 - sqrt(2 * pi) / x * sum : sum;
}
