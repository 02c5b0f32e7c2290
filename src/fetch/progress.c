/* SPDX-License-Identifier: Apache-2.0 */
/* What the user hears while files come, and waiting, which a user may stop. */
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "fetch/fetch.h"

enum { MEGABYTE = 1000000 };

void qk__fetch_notice(qk__fetch *fetch, qk_notice_level level, const char *fmt, ...)
{
    char text[1200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    pthread_mutex_lock(&fetch->lock);
    if (fetch->settings->notice)
        fetch->settings->notice(fetch->settings->user, level, text);
    pthread_mutex_unlock(&fetch->lock);
}

bool qk__fetch_tick(qk__fetch *fetch, int64_t bytes, int64_t came)
{
    const qk_hub_settings *s = fetch->settings;
    pthread_mutex_lock(&fetch->lock);
    fetch->done += bytes;
    fetch->came += came;
    double now = qk__now();
    if (s->progress && now - fetch->told > 0.1) {
        int64_t unit = fetch->counts_files ? 1 : MEGABYTE;
        const qk_progress progress = {.what = fetch->counts_files ? "files" : "MB",
                                      .done = fetch->done / unit,
                                      .total = fetch->total / unit,
                                      .bytes = fetch->came};
        fetch->told = now;
        if (!s->progress(s->user, &progress))
            atomic_store(&fetch->stopped, true);
    }
    pthread_mutex_unlock(&fetch->lock);
    return !atomic_load(&fetch->stopped);
}

bool qk__fetch_wait(qk__fetch *fetch, double seconds)
{
    const struct timespec slice = {.tv_nsec = 100000000};
    for (double end = qk__now() + seconds; qk__now() < end;) {
        if (!qk__fetch_tick(fetch, 0, 0))
            return false;
        nanosleep(&slice, NULL);
    }
    return qk__fetch_tick(fetch, 0, 0);
}

/* ---- parts of sentences ------------------------------------------------------------------ */

void qk__size_text(int64_t bytes, char text[24])
{
    double b = (double)bytes;
    if (bytes < MEGABYTE)
        snprintf(text, 24, "%.1f kB", b / 1e3);
    else if (bytes < 1000 * MEGABYTE)
        snprintf(text, 24, "%.1f MB", b / 1e6);
    else
        snprintf(text, 24, "%.2f GB", b / 1e9);
}

const char *qk__plural(size_t count)
{
    return count == 1 ? "" : "s";
}
