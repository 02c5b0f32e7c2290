/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that fail when a test says so. The program is linked with --wrap=malloc,
 * --wrap=calloc and --wrap=realloc; include this in one file of it. */
#ifndef TESTS_FAILING_MEMORY_H
#define TESTS_FAILING_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "unit.h"

static long remaining = -1; /* allocations until one fails; < 0: none does */

/* The linker puts these in the place of the C library's. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static bool fails(void)
{
    bool fail = remaining >= 0 && remaining-- == 0;
    if (fail)
        errno = ENOMEM;
    return fail;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

/* The allocation to fail after the n-th: one of `step` among the first 400, where all kinds fail, then one of thirty-one
 * times as many; in a quick run one of seven times as many throughout, in `make test-long` each. */
static inline long next_failure(long n, long step)
{
    if (tier_is("long"))
        return n + 1;
    if (tier_is("test"))
        return n + 7 * step;
    return n + (n < 400 ? step : 31 * step);
}

/* Thousands of runs, and none of them loses its power: what is written need not reach the disk. */
int fsync(int fd);
int fsync(int fd)
{
    (void)fd;
    return 0;
}

#endif
