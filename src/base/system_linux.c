/* SPDX-License-Identifier: Apache-2.0 */
/* Linux's own ways, with glibc. */
#define _GNU_SOURCE
#include "base/system.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int qk__count_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

int qk__sync(int fd)
{
    return fsync(fd);
}

int qk__exchange_names(const char *a, const char *b)
{
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

void qk__let_go(const void *at, size_t size)
{
    if (madvise((void *)(uintptr_t)at, size, MADV_DONTNEED) != 0) { /* they stay */
    }
}

int qk__open_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC);
}
