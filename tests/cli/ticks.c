/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded before the C library (LD_PRELOAD): the clock of the program is TICK milliseconds later at each look, so that
 * what it says of its progress does not depend on how fast it is. At look AT_LOOK it gets the signals
 * SIGNALS ("2", or "2,15": one after the other). COUNTED names a file for how many looks a program took that ended.
 * Programs that it starts are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_long looks;

static bool is_ours(void)
{
    return strcmp(program_invocation_short_name, "qkscope") == 0;
}

static void count_look(void)
{
    const char *at = getenv("AT_LOOK"), *next = getenv("SIGNALS");
    if (atomic_fetch_add(&looks, 1) + 1 != (at ? atol(at) : 0))
        return;
    for (; next; next = strchr(next, ',') ? strchr(next, ',') + 1 : NULL)
        kill(getpid(), atoi(next));
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int (*real)(clockid_t, struct timespec *);
    void *found = dlsym(RTLD_NEXT, "clock_gettime");
    const char *tick = getenv("TICK");
    memcpy(&real, &found, sizeof real);
    int result = real(clock, now);
    if (clock == CLOCK_MONOTONIC && is_ours()) {
        long milliseconds = atomic_load(&looks) * (tick ? atol(tick) : 200);
        *now = (struct timespec){1000 + milliseconds / 1000, milliseconds % 1000 * 1000000};
        count_look();
    }
    return result;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("COUNTED");
    FILE *file = path && is_ours() ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "%ld\n", atomic_load(&looks));
    fclose(file);
}
