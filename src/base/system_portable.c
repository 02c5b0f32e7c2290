/* SPDX-License-Identifier: Apache-2.0 */
/* Replacements on macOS, and on other systems with POSIX. */
#define _DEFAULT_SOURCE /* _SC_NPROCESSORS_ONLN */
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/expand.h"

int qk__count_processors(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* fsync of macOS leaves the bytes to the disk, which may keep them in its cache for a while. */
int qk__sync(int fd)
{
#ifdef F_FULLFSYNC
    if (fcntl(fd, F_FULLFSYNC) == 0)
        return 0;
#endif
    return fsync(fd);
}

int qk__exchange_names(const char *a, const char *b)
{
#ifdef __APPLE__
    return renamex_np(a, b, RENAME_SWAP);
#else
    (void)a;
    (void)b;
    errno = ENOTSUP;
    return -1;
#endif
}

void qk__let_go(const void *at, size_t size)
{
    if (posix_madvise((void *)(uintptr_t)at, size, POSIX_MADV_DONTNEED) != 0) { /* they stay */
    }
}

/* A program that another thread starts between the two calls inherits the pipe: reading it then ends only when that
 * program does. So on macOS programs get no other descriptors than their own (process.c). */
int qk__open_pipe(int ends[2])
{
    if (pipe(ends) != 0)
        return -1;
    if (fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0 && fcntl(ends[1], F_SETFD, FD_CLOEXEC) == 0)
        return 0;
    int why = errno;
    close(ends[0]);
    close(ends[1]);
    errno = why;
    return -1;
}
