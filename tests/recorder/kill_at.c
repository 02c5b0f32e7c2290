/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded before the C library (LD_PRELOAD): sends the program the signal KILL_BY at its KILL_AT-th call that changes a
 * folder. With NO_EXCHANGE two folders cannot change places in one step, as on some file systems. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void count(void)
{
    static atomic_long calls;
    const char *last = getenv("KILL_AT"), *by = getenv("KILL_BY");
    if (last && by && atomic_fetch_add(&calls, 1) + 1 == atol(last))
        kill(getpid(), atoi(by));
}

#define COUNTED(name, parameters, arguments)                                                   \
    int name parameters                                                                        \
    {                                                                                          \
        int(*real) parameters;                                                                 \
        void *found = dlsym(RTLD_NEXT, #name);                                                 \
        memcpy(&real, &found, sizeof real);                                                    \
        count();                                                                               \
        return real arguments;                                                                 \
    }

COUNTED(mkdir, (const char *path, mode_t mode), (path, mode))
COUNTED(mkdirat, (int at, const char *path, mode_t mode), (at, path, mode))
COUNTED(rename, (const char *from, const char *to), (from, to))
COUNTED(unlink, (const char *path), (path))
COUNTED(unlinkat, (int at, const char *path, int flags), (at, path, flags))
COUNTED(rmdir, (const char *path), (path))
COUNTED(fsync, (int file), (file))

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    int (*real)(int, const char *, int, const char *, unsigned);
    void *found = dlsym(RTLD_NEXT, "renameat2");
    memcpy(&real, &found, sizeof real);
    if (getenv("NO_EXCHANGE")) {
        errno = EINVAL;
        return -1;
    }
    count();
    return real(from_at, from, to_at, to, flags);
}
