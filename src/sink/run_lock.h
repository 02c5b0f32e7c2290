/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of a run, which one sink has: of this process or another. */
#ifndef QK_SINK_RUN_LOCK_H
#define QK_SINK_RUN_LOCK_H

#include <stdbool.h>

/* Takes the lock of an open file, in which nothing else is; false: another sink has it. Some network
 * file systems have no locks: then it is as if it was taken. */
bool qk__run_lock_take(int fd);

/* Whether another sink has it. */
bool qk__run_lock_is_taken(int fd);

/* Gives it back and closes the file; *fd becomes -1, and may be that before. */
void qk__run_lock_leave(int *fd);

#endif
