/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of open files and folders. A lock belongs to what was opened: two runs of one process keep each other out as
 * two processes do, and a lock ends when the last descriptor of it is closed. */
#ifndef QK_BASE_LOCK_H
#define QK_BASE_LOCK_H

#include <stdbool.h>

typedef enum qk__lock {
    QK__LOCK_TAKEN,
    QK__LOCK_HELD, /* by someone else */
    QK__LOCK_NONE, /* some network file systems have no locks */
} qk__lock;

/* Does not wait. A lock that is held and cannot change to this kind may be lost. */
qk__lock qk__lock_try(int fd, bool shared);

/* For all descriptors of it, also those of forked processes. */
void qk__unlock(int fd);

#endif
