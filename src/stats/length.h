/* SPDX-License-Identifier: Apache-2.0 */
/* The length of (x, y), to the same last digit on every processor. hypot of the C library is not:
 * glibc computes it with fused operations where these are part of the architecture (arm64), and
 * without where they are not (x86-64). For the same reason erfc, tgamma, lgamma and cbrt of the
 * library are not used where numbers of tables come from; its other functions agree. */
#ifndef QK_STATS_LENGTH_H
#define QK_STATS_LENGTH_H

#include <math.h>

/* Neither over- nor underflows on the way; NAN where one is NAN. */
static inline double qk__length(double x, double y)
{
    double a = fabs(x), b = fabs(y), large = a > b ? a : b, small = a > b ? b : a;
    if (large == 0 || isinf(large))
        return large + small;
    double ratio = small / large;
    return large * sqrt(1 + ratio * ratio);
}

#endif
