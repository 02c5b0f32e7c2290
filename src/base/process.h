/* SPDX-License-Identifier: Apache-2.0 */
/* Running another program, without a shell. */
#ifndef QK_BASE_PROCESS_H
#define QK_BASE_PROCESS_H

#include <qkscope/common.h>

#include "base/buffer.h"

/* Runs argv[0] (looked for in PATH) with argv, NULL at its end, in the folder directory (NULL =
 * this one), with /dev/null as its input and output; waits, and appends what it says on
 * standard error to messages (at most 64 KiB of it). *exit_code is its exit status, or 128 +
 * the signal that ended it. The program does not see the environment variable `hidden` (NULL =
 * sees all). QK_ERR_NOT_FOUND: there is no such program. */
QK_MUST_CHECK qk_status qk__process_run(const char *const *argv, const char *directory,
                                        const char *hidden, qk__buffer *messages,
                                        int *exit_code, qk_error *err);

#endif
