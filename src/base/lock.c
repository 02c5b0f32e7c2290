/* SPDX-License-Identifier: Apache-2.0 */
/* flock, which Linux, macOS and the BSDs have. */
#define _DEFAULT_SOURCE
#include "base/lock.h"

#include <errno.h>
#include <sys/file.h>

qk__lock qk__lock_try(int fd, bool shared)
{
    if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0)
        return QK__LOCK_TAKEN;
    return errno == EWOULDBLOCK ? QK__LOCK_HELD : QK__LOCK_NONE;
}

void qk__unlock(int fd)
{
    flock(fd, LOCK_UN);
}
