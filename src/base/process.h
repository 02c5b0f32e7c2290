/* SPDX-License-Identifier: Apache-2.0 */
/* Running another program, without a shell. */
#ifndef QK_BASE_PROCESS_H
#define QK_BASE_PROCESS_H

#include <stdbool.h>

#include <qkscope/common.h>

#include "base/buffer.h"

typedef struct qk__program {
    const char *const *argv; /* argv[0] is looked for in PATH; NULL at its end */
    const char *directory;   /* where it runs; NULL = here */
    const char *hidden;      /* an environment variable that it does not see; NULL = sees all */
    const char *added;       /* a variable that it sees besides: "NAME=value"; NULL = none */
    bool echoes;             /* what it says goes to standard error, too */
    /* Asked now and then while it says nothing; false: it is interrupted (SIGINT), and killed if that does not
     * help. NULL = it runs to its end. */
    bool (*goes_on)(void *user);
    void *user;
} qk__program;

/* Runs it with /dev/null as its input and output; waits, and appends what it says on standard error to
 * messages (the last of it, at most 64 KiB). *exit_code is its exit status, or 128 + the signal that
 * ended it. QK_ERR_NOT_FOUND: there is no such program. */
QK_MUST_CHECK qk_status qk__process_run(const qk__program *program, qk__buffer *messages,
                                        int *exit_code, qk_error *err);

#endif
