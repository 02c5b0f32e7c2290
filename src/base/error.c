/* SPDX-License-Identifier: Apache-2.0 */
/* Status texts and error messages. */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

#include <qkscope/common.h>

const char *qk_status_text(qk_status status)
{
    switch (status) {
#define QK_STATUS_CASE(name, text)                                                             \
    case name:                                                                                 \
        return text;
        QK_STATUS_LIST(QK_STATUS_CASE)
#undef QK_STATUS_CASE
    }
    return "unknown status";
}

const char *qk_version(void)
{
    return QK_VERSION;
}

/* Messages contain names from files, which a terminal must not obey. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

void qk__set_error(qk_error *err, qk_status status, const char *fmt, ...)
{
    if (err) {
        va_list args;
        va_start(args, fmt);
        err->status = status;
        vsnprintf(err->message, sizeof err->message, fmt, args);
        make_printable(err->message);
        va_end(args);
    }
}

qk_status qk__missing(qk_error *err, const char *function, const char *list, size_t i)
{
    for (; i > 0; i--)
        list += strcspn(list, ",") + 2;
    return qk__fail(err, QK_ERR_ARGUMENT, "%s: %.*s is NULL", function, (int)strcspn(list, ","),
                    list);
}

qk_status qk__context(qk_error *err, qk_status status, const char *fmt, ...)
{
    if (err && status != QK_OK) {
        char context[sizeof err->message];
        char message[sizeof err->message];
        va_list args;
        va_start(args, fmt);
        vsnprintf(context, sizeof context, fmt, args);
        va_end(args);
        memcpy(message, err->message, sizeof message);
        int used = snprintf(err->message, sizeof err->message, "%s: ", context);
        if (used >= 0 && (size_t)used < sizeof err->message)
            snprintf(err->message + used, sizeof err->message - (size_t)used, "%s", message);
        make_printable(err->message);
    }
    return status;
}
