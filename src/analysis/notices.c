/* SPDX-License-Identifier: Apache-2.0 */
/* What a run tells as it goes on: notices, progress, heads that fail and why. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analysis/run.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/json_build.h"
#include "capture/capture.h"
#include "stats/gram.h"

static const double ASK_SECONDS = 0.05; /* between two questions whether to go on */

void qk__run_warn(qk__run *run, const char *fmt, ...)
{
    char message[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    run->warnings = qk__json_append(run->warnings, qk__json_text(message));
    qk__tell_notice(&run->context, QK_NOTICE_WARNING, "%s", message);
}

void qk__run_tell_choices(qk__run *run)
{
    static const char *const SOURCES[] = {"given", "from capture.json", "inferred"};
    const qk_analysis_results *results = run->results;
    char group[64] = "";
    if (run->settings->combined)
        snprintf(group, sizeof group, ", group size %d (%s)", results->group.size,
                 SOURCES[results->group.source]);
    qk__tell_notice(
        &run->context, QK_NOTICE_INFO,
        "%s: %zu heads of queries and of keys in %d layers%s%s; %d threads, kernel %s",
        qk_capture_path(run->capture), qk_capture_num_heads(run->capture), results->num_layers,
        group,
        qk__run_does(run, QK_ANALYSE_PLASTICITY) && run->buckets.count == 0
            ? ", buckets of the capture"
            : "",
        results->threads, qk__moments_kernel());
}

/* The caller holds the lock. */
static void tell_progress(qk__run *run)
{
    run->told_at = qk__now();
    if (!qk__tell_progress(run->relay.to, &(qk_progress){.what = run->jobs,
                                                         .done = (int64_t)run->done_jobs,
                                                         .total = (int64_t)run->total_jobs,
                                                         .bytes = run->done_bytes}))
        atomic_store(&run->cancelled, true);
}

void qk__run_progress(qk__run *run, size_t jobs, int64_t bytes, int64_t rows)
{
    pthread_mutex_lock(&run->lock);
    run->done_jobs += jobs;
    run->done_bytes += bytes;
    run->done_rows += rows;
    tell_progress(run);
    pthread_mutex_unlock(&run->lock);
}

bool qk__run_stopped(qk__run *run)
{
    if (!atomic_load(&run->cancelled)) {
        pthread_mutex_lock(&run->lock);
        if (qk__now() - run->told_at > ASK_SECONDS)
            tell_progress(run);
        pthread_mutex_unlock(&run->lock);
    }
    return atomic_load(&run->cancelled);
}

void qk__run_note_failure(qk__run *run, size_t i, qk_status status, const char *message)
{
    qk_head_results *head = &run->results->heads[i];
    if (head->status == QK_OK) {
        head->status = status;
        head->message = qk__strdup(message);
    }
}

void qk__run_fail_head(qk__run *run, size_t i, qk_status status, const char *message)
{
    char name[QK_HEAD_NAME_SIZE];
    if (status == QK_ERR_CANCELLED) /* of the run, which says so */
        return;
    qk__run_note_failure(run, i, status, message);
    qk_head_name(run->results->heads[i].id, name);
    qk__tell_notice(&run->context, QK_NOTICE_ERROR, "%s: %s", name, message);
}

/* ---- failures for the same reason ------------------------------------------------------- */

static const char *reason_of(const qk_head_results *head)
{
    return head->message ? head->message : qk_status_text(head->status);
}

/* Whether two messages are equal, except for numbers of heads, rows and texts. */
static bool is_alike(const char *a, const char *b)
{
    static const char NUMBER[] = "+-.0123456789";
    while (*a && *b) {
        a += strspn(a, NUMBER);
        b += strspn(b, NUMBER);
        if (*a != *b)
            return false;
        a += *a != 0;
        b += *b != 0;
    }
    return a[strspn(a, NUMBER)] == 0 && b[strspn(b, NUMBER)] == 0;
}

/* Counts the heads from `from` up to `end` that failed like head i; text gets the names of the first few. */
static size_t count_alike(const qk_analysis_results *results, size_t i, size_t from, size_t end,
                          char *text, size_t size)
{
    enum { LISTED = 8 };
    size_t count = 0, used = 0;
    text[0] = 0;
    for (size_t k = from; k < end; k++) {
        char name[QK_HEAD_NAME_SIZE];
        if (k == i || results->heads[k].status == QK_OK ||
            !is_alike(reason_of(&results->heads[i]), reason_of(&results->heads[k])))
            continue;
        qk_head_name(results->heads[k].id, name);
        if (count++ < LISTED && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
    if (count > LISTED && used < size)
        snprintf(text + used, size - used, " and %zu more", count - LISTED);
    return count;
}

void qk__run_tell_failures(qk__run *run)
{
    const qk_analysis_results *results = run->results;
    size_t failed = 0;
    for (size_t i = 0; i < results->num_heads; i++)
        failed += results->heads[i].status != QK_OK;
    for (size_t i = 0; i < results->num_heads; i++) {
        char name[QK_HEAD_NAME_SIZE], others[QK_HEAD_NAME_SIZE * 10];
        const qk_head_results *head = &results->heads[i];
        if (head->status == QK_OK || count_alike(results, i, 0, i, others, sizeof others) > 0)
            continue;
        size_t count =
            1 + count_alike(results, i, i + 1, results->num_heads, others, sizeof others);
        if (count == failed && (count == 1 || count == results->num_heads))
            return; /* the verdict says so */
        qk_head_name(head->id, name);
        if (count > 1)
            qk__tell_notice(&run->context, QK_NOTICE_ERROR, "%s: %s (likewise %s)", name,
                            reason_of(head), others);
        else
            qk__tell_notice(&run->context, QK_NOTICE_ERROR, "%s: %s", name, reason_of(head));
    }
}
