/* SPDX-License-Identifier: Apache-2.0 */
/* What stands for it on macOS, and on whatever else has POSIX. */
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

/* fsync of macOS leaves the bytes with the disk, which may keep them from the plate for a while. */
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

/* A program that another thread starts just between the two calls has the pipe, too: reading it then ends
 * when that program does, so on macOS programs are given nothing but what they are to have (process.c). */
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

#ifdef __APPLE__

/* First where the loader looks; what Homebrew and MacPorts install lies elsewhere. */
bool qk__library_file(char *file, size_t size, const char *name, const char *version, int i)
{
    static const char *const FOLDERS[] = {"", "/opt/homebrew/lib/", "/usr/local/lib/",
                                          "/opt/local/lib/"};
    if ((size_t)i >= sizeof FOLDERS / sizeof *FOLDERS)
        return false;
    snprintf(file, size, "%slib%s.%s.dylib", FOLDERS[i], name, version);
    return true;
}

#else

bool qk__library_file(char *file, size_t size, const char *name, const char *version, int i)
{
    snprintf(file, size, "lib%s.so.%s", name, version);
    return i == 0;
}

#endif
