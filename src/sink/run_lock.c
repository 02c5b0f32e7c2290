/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of open files, where the system has them: those of processes would let a second sink of one
 * process in, and be lost when anything closes the file. */
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "sink/run_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#ifdef F_OFD_SETLK
enum { SET = F_OFD_SETLK, GET = F_OFD_GETLK };
#else
enum { SET = F_SETLK, GET = F_GETLK };
#endif

bool qk__run_lock_take(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, SET, &whole) == 0 || (errno != EACCES && errno != EAGAIN);
}

bool qk__run_lock_is_taken(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, GET, &whole) == 0 && whole.l_type != F_UNLCK;
}

void qk__run_lock_leave(int *fd)
{
    struct flock none = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    if (*fd < 0)
        return;
    (void)fcntl(*fd, SET,
                &none); /* a process that was forked meanwhile has the file open, too */
    close(*fd);
    *fd = -1;
}
