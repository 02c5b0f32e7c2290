/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of the system, as seconds, and its date. */
#define _POSIX_C_SOURCE 200809L /* gmtime_r */
#include "base/clock.h"

#include <stdint.h>
#include <time.h>

#include "base/expand.h"
#include "base/parse_number.h"

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

const char *qk__date(char text[QK__DATE_SIZE])
{
    struct tm parts;
    int64_t epoch;
    const char *given = qk__environment("SOURCE_DATE_EPOCH");
    time_t now = given && qk__parse_integer(given, &epoch) ? (time_t)epoch : time(NULL);
    if (!gmtime_r(&now, &parts) ||
        strftime(text, QK__DATE_SIZE, "%Y-%m-%dT%H:%M:%S+00:00", &parts) == 0)
        text[0] = 0;
    return text;
}
