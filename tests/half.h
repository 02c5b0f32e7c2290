/* SPDX-License-Identifier: Apache-2.0 */
/* Half precision by the definition of the format, for what reads it and what rounds to it. */
#ifndef QK_TESTS_HALF_H
#define QK_TESTS_HALF_H

#include <math.h>

/* The value; NaN stands for all of them. */
static inline double half_value(unsigned half)
{
    int exponent = (int)(half >> 10 & 31);
    double fraction = half & 1023;
    double sign = half >> 15 ? -1 : 1;
    if (exponent == 31)
        return fraction > 0 ? NAN : sign * INFINITY;
    return exponent == 0 ? sign * ldexp(fraction, -24)
                         : sign * ldexp(1024 + fraction, exponent - 25);
}

#endif
