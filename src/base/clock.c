/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of the system, as seconds. */
#include "base/clock.h"

#include <time.h>

static double read_clock(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double qk__now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double qk__thread_seconds(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
