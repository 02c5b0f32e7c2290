/* SPDX-License-Identifier: Apache-2.0 */
/* What every unit test includes: cmocka with the headers it needs before it, how thorough a run is, and a small
 * reproducible source of numbers. */
#ifndef QK_TESTS_UNIT_H
#define QK_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Which tests run (TESTING.md): "test" is quick, "all" thorough, "long" exhaustive. A program called by hand is thorough. */
static inline bool tier_is(const char *name)
{
    const char *tier = getenv("QKSCOPE_TIER");
    return strcmp(tier ? tier : "all", name) == 0;
}

/* Valgrind takes fifty times as long, computes long double as double, and heeds no bit that makes small numbers zero. */
static inline bool under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "/vgpreload_");
}

/* Uniform in [-1, 1): a 64-bit linear congruential generator, its high bits. */
static inline double random_unit(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int64_t)(*state >> 11) * 0x1p-52 - 1;
}

/* The same, with an enormous, a tiny and a zero value among `ordinary` ones. */
static inline double random_wild(uint64_t *state, int ordinary)
{
    double u = random_unit(state), which = random_unit(state) * ordinary;
    switch ((int)(which < 0 ? -which : which)) {
    case 0:
        return u * 1e30;
    case 1:
        return u * 1e-30;
    case 2:
        return 0;
    default:
        return u;
    }
}

#endif
