/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of open files and folders. They belong to what was opened: two runs of one process keep each other
 * out as two processes do, and a lock ends when the last that has it open closes it. */
#ifndef QK_BASE_LOCK_H
#define QK_BASE_LOCK_H

#include <stdbool.h>

typedef enum qk__lock {
    QK__LOCK_TAKEN,
    QK__LOCK_HELD, /* by someone else */
    QK__LOCK_NONE, /* some network file systems have no locks */
} qk__lock;

/* Does not wait. Where a lock is had already and cannot be changed to this kind, it may be lost. */
qk__lock qk__lock_try(int fd, bool shared);

/* Of all that have it open, as a process that was forked meanwhile. */
void qk__unlock(int fd);

#endif
