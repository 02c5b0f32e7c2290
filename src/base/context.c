/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the functions that a user has given, and relays between two calls. */
#include "base/context.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/system.h"

enum { MESSAGE_SIZE = 2200 };

int qk__count_threads(const qk_context *context)
{
    return context->threads > 0 ? context->threads : qk__count_processors();
}

void qk__tell_notice(const qk_context *context, qk_notice_level level, const char *fmt, ...)
{
    char message[MESSAGE_SIZE];
    va_list args;
    if (!context->notice)
        return;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    context->notice(context->user, level, message);
}

bool qk__tell_progress(const qk_context *context, const qk_progress *progress)
{
    return !context->progress || context->progress(context->user, progress);
}

/* ---- relays ------------------------------------------------------------------------------ */

static bool is_told(const qk__relay *relay, qk_notice_level level, const char *message)
{
    if (!relay->told || level != QK_NOTICE_WARNING)
        return false;
    if (json_object_get(relay->told, message))
        return true;
    /* without memory for the list the user is told twice */
    json_object_set_new(relay->told, message, json_true());
    return false;
}

static void relay_notice(void *user, qk_notice_level level, const char *message)
{
    const qk__relay *relay = user;
    char text[MESSAGE_SIZE];
    if (relay->held_back & 1U << level)
        return;
    snprintf(text, sizeof text, "%s%s%s", relay->name ? relay->name : "",
             relay->name ? ": " : "", message);
    if (relay->lock)
        pthread_mutex_lock(relay->lock);
    if (!is_told(relay, level, text))
        qk__tell_notice(relay->to, level, "%s", text);
    if (relay->lock)
        pthread_mutex_unlock(relay->lock);
}

static bool relay_progress(void *user, const qk_progress *progress)
{
    const qk__relay *relay = user;
    if (relay->lock)
        pthread_mutex_lock(relay->lock);
    bool on = qk__tell_progress(relay->to, progress);
    if (relay->lock)
        pthread_mutex_unlock(relay->lock);
    return on;
}

qk_context qk__relay_context(qk__relay *relay)
{
    qk_context context = *relay->to;
    context.notice = relay_notice;
    context.progress = relay_progress;
    context.user = relay;
    return context;
}
