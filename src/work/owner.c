/* SPDX-License-Identifier: Apache-2.0 */
/* Telling processes apart that share a folder, and whether one of this machine is alive. */
#define _XOPEN_SOURCE 700 /* kill */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fingerprint.h"
#include "base/parse_number.h"
#include "base/system.h"
#include "work/units.h"

enum { MACHINE_DIGITS = 16, HOST_LETTERS = 64 };

static void name_machine(const char *host, char machine[MACHINE_DIGITS + 1])
{
    char text[512], boot[128], hash[QK__FINGERPRINT_SIZE];
    qk__name_boot(boot, sizeof boot);
    snprintf(text, sizeof text, "%s %s", host, boot);
    qk__fingerprint_bytes(text, strlen(text), hash);
    snprintf(machine, MACHINE_DIGITS + 1, "%.*s", MACHINE_DIGITS, hash);
}

void qk__owner_self(char text[QK__OWNER_SIZE])
{
    static const char LETTERS[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    struct utsname system;
    char host[HOST_LETTERS + 1] = "host", machine[MACHINE_DIGITS + 1];
    if (uname(&system) == 0)
        snprintf(host, sizeof host, "%.*s", HOST_LETTERS, system.nodename);
    name_machine(host, machine);
    for (char *p = host; *p; p++)
        if (!strchr(LETTERS, *p))
            *p = '_';
    long long pid = (long long)getpid();
    snprintf(text, QK__OWNER_SIZE, "%s-%s-%lld-%lld", host, machine, pid,
             (long long)qk__process_start(pid));
}

/* Cuts off what follows the last '-' and reads it as a number. */
static bool take_number(char *text, int64_t *number)
{
    char *mark = strrchr(text, '-');
    if (!mark || !qk__parse_integer(mark + 1, number))
        return false;
    *mark = 0;
    return true;
}

qk__life qk__owner_life(const char *text)
{
    char other[QK__OWNER_SIZE], self[QK__OWNER_SIZE];
    int64_t pid, start, number;
    if (strlen(text) >= sizeof other)
        return QK__LIFE_ELSEWHERE;
    snprintf(other, sizeof other, "%s", text);
    qk__owner_self(self);
    if (!take_number(other, &start) || !take_number(other, &pid) || pid <= 0 ||
        !take_number(self, &number) || !take_number(self, &number) || strcmp(other, self) != 0)
        return QK__LIFE_ELSEWHERE;
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return QK__LIFE_GONE;
    return start > 0 && qk__process_start(pid) != start ? QK__LIFE_GONE : QK__LIFE_ALIVE;
}
