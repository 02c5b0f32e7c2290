/* SPDX-License-Identifier: Apache-2.0 */
/* Filling in a caller's qk_error. */
#ifndef QK_BASE_ERROR_H
#define QK_BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

#include <qkscope/common.h>

/* Sets status and message (printf style); its value is the status, so that a failing function
 * can `return qk__fail(err, ...)`. err may be NULL. Control characters that came in through
 * file names or file contents are replaced by '?'. A macro, so that compilers and analysers see
 * that the value is not QK_OK; status is evaluated twice. */
#define qk__fail(err, status, ...) (qk__set_error((err), (status), __VA_ARGS__), (status))
void qk__set_error(qk_error *err, qk_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the message already in err, unless status is QK_OK; returns status. So
 * `return qk__context(err, read(..., err), "%s", path)` serves success and failure. */
qk_status qk__context(qk_error *err, qk_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* QK_ERR_NOMEM with a standard message. */
#define qk__nomem(err) qk__fail(err, QK_ERR_NOMEM, "out of memory")

/* Ends a function of the public API with QK_ERR_ARGUMENT if one of these pointers is NULL. */
#define QK_NEED(err, ...)                                                                      \
    do {                                                                                       \
        const void *const qk_needed_[] = {__VA_ARGS__};                                        \
        for (size_t qk_i_ = 0; qk_i_ < sizeof qk_needed_ / sizeof *qk_needed_; qk_i_++)        \
            if (!qk_needed_[qk_i_])                                                            \
                return qk__missing((err), __func__, #__VA_ARGS__, qk_i_);                      \
    } while (0)

/* For QK_NEED: fails, as argument number i of the list is NULL. */
qk_status qk__missing(qk_error *err, const char *function, const char *list, size_t i);

/* Returns from this function when a call in it fails, with the failure as it is. */
#define QK_TRY(expr)                                                                           \
    do {                                                                                       \
        qk_status qk_try_status_ = (expr);                                                     \
        if (qk_try_status_ != QK_OK)                                                           \
            return qk_try_status_;                                                             \
    } while (0)

#endif
