/* SPDX-License-Identifier: Apache-2.0 */
/* Filling in a caller's qk_error. */
#ifndef QK_BASE_ERROR_H
#define QK_BASE_ERROR_H

#include <stdarg.h>

#include <qkscope/status.h>

/* Sets status and message (printf style) and returns the status, so that a failing
 * function can `return qk__fail(err, ...)`. err may be NULL. Control characters that
 * came in through file names or file contents are replaced by '?'. */
qk_status qk__fail(qk_error *err, qk_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the message already in err; returns status unchanged. */
qk_status qk__context(qk_error *err, qk_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* QK_ERR_NOMEM with a standard message. */
qk_status qk__nomem(qk_error *err);

/* Hands a failure to the caller as it is. */
#define QK_TRY(expr)                                                                           \
    do {                                                                                       \
        qk_status qk_try_status_ = (expr);                                                     \
        if (qk_try_status_ != QK_OK)                                                           \
            return qk_try_status_;                                                             \
    } while (0)

#endif
