/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of a run use: notices, failures of an engine. */
#include "recorder/recording.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"

void qk__recorder_notice(const qk__recording *r, qk_notice_level level, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    if (!r->settings->notice)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->settings->notice(r->settings->user, level, text);
}

qk_status qk__engine_failed(const qk__recording *r, const char *what, qk_error *err)
{
    return qk__fail(err, QK_ERR_CANCELLED, "%s: %s failed", r->settings->engine->tool, what);
}
