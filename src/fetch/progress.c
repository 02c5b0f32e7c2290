/* SPDX-License-Identifier: Apache-2.0 */
/* What the user hears while files come, and waiting, which a user may stop. */
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "fetch/fetch.h"

enum { MEGABYTE = 1000000 };

bool qk__fetch_tick(qk__fetch *fetch, int64_t bytes, int64_t came)
{
    pthread_mutex_lock(&fetch->lock);
    fetch->done += bytes;
    fetch->came += came;
    double now = qk__now();
    if (now - fetch->told > 0.1) {
        int64_t unit = fetch->counts_files ? 1 : MEGABYTE;
        const qk_progress progress = {.what = fetch->counts_files ? "files" : "MB",
                                      .done = fetch->done / unit,
                                      .total = fetch->total / unit,
                                      .bytes = fetch->came};
        fetch->told = now;
        if (!qk__tell_progress(&fetch->settings->context, &progress))
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
