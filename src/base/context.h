/* SPDX-License-Identifier: Apache-2.0 */
/* The context of a call (qk_context): counting its threads, telling its user, and handing it on to another
 * call. Nothing else in the library calls `notice` or `progress`. */
#ifndef QK_BASE_CONTEXT_H
#define QK_BASE_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>

#include <jansson.h>

#include <qkscope/common.h>

/* The number that was asked for, else all processors that this process may use; at least 1. */
int qk__count_threads(const qk_context *context);

/* Tells the user; printf style. */
void qk__tell_notice(const qk_context *context, qk_notice_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Tells the user how far the call is. False: the user wants to stop. */
QK_MUST_CHECK bool qk__tell_progress(const qk_context *context, const qk_progress *progress);

/* Stands between a call and a call that it makes, and passes on what the second one tells. */
typedef struct qk__relay {
    const qk_context *to;
    const char *name;   /* notices begin with "NAME: "; NULL = they stay as they are */
    unsigned held_back; /* sum of 1 << level: notices that the user is not told */
    json_t *told; /* warnings that the user was told and is not told again; NULL = no list */
    /* held while the user is told, where others tell the user, too; NULL = nobody does */
    pthread_mutex_t *lock;
} qk__relay;

enum { QK__ALL_NOTICES = (2 << QK_NOTICE_REMARK) - 1 };

/* The context `to`, whose notices and progress go through the relay. Both must outlive it. */
qk_context qk__relay_context(qk__relay *relay);

#endif
