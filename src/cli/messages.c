/* SPDX-License-Identifier: Apache-2.0 */
/* Notices and errors of a run, on stderr. */
#include "cli.h"

#include <string.h>

void cli_clear(cli_messages *messages)
{
    if (messages->drawn)
        fputs("\r\033[K", stderr);
    messages->drawn = false;
}

void cli_messages_end(cli_messages *messages, qk_status status, const qk_error *err)
{
    cli_clear(messages);
    if (status != QK_OK)
        cli_error("%s", err->message);
}

void cli_notice(void *user, qk_notice_level level, const char *message)
{
    cli_messages *messages = user;
    if (level == QK_NOTICE_INFO && !messages->common->verbose)
        return;
    if (level != QK_NOTICE_ERROR && messages->common->quiet)
        return;
    cli_clear(messages);
    cli_error("%s%s", level == QK_NOTICE_WARNING ? "warning: " : "", message);
}

/* What follows "figure NAME: ". */
static const char *reason_of(const char *failure)
{
    const char *colon = strncmp(failure, "figure ", 7) == 0 ? strstr(failure, ": ") : NULL;
    return colon ? colon : failure;
}

void cli_print_failures(char *const *failures, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t before = 0, after = 0;
        for (size_t k = 0; k < count; k++)
            if (k != i && strcmp(reason_of(failures[k]), reason_of(failures[i])) == 0)
                ++*(k < i ? &before : &after);
        if (before == 0 && after > 0)
            cli_error("%s (and %zu more)", failures[i], after);
        else if (before == 0)
            cli_error("%s", failures[i]);
    }
}
