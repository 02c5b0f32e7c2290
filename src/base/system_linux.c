/* SPDX-License-Identifier: Apache-2.0 */
/* Linux's own ways, with glibc. */
#define _GNU_SOURCE
#include "base/system.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/parse_number.h"

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

/* The beginning of a small file, "" where there is none. */
static void read_start(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, size - 1) : -1;
    text[got > 0 ? got : 0] = 0;
    if (fd >= 0)
        close(fd);
}

/* In ticks since the machine started. */
int64_t qk__process_start(int64_t pid)
{
    enum { FIELD = 22, AFTER_NAME = 2 };
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    read_start(path, text, sizeof text);
    char *p = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = AFTER_NAME; p && field < FIELD; field++)
        if ((p = strchr(p, ' ')) != NULL)
            p++;
    int64_t ticks;
    if (p)
        p[strcspn(p, " ")] = 0;
    return p && qk__parse_integer(p, &ticks) ? ticks : 0;
}

void qk__name_boot(char *text, size_t size)
{
    char boot[64], space[64];
    ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[length > 0 ? length : 0] = 0;
    read_start("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    snprintf(text, size, "%s %s", boot, space);
}
