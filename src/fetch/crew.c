/* SPDX-License-Identifier: Apache-2.0 */
/* Many requests at a time, each thread with a connection of its own, and one failure of them all. */
#include "base/error.h"
#include "base/parallel.h"
#include "fetch/fetch.h"

static void note_failure(qk__crew *crew, size_t i, qk_status status, const qk_error *why)
{
    qk__fetch *f = crew->fetch;
    pthread_mutex_lock(&f->lock);
    /* What fails first in the list is told, and what is only cancelled for it never. */
    bool worse = crew->failed == QK_OK ||
                 (crew->failed == QK_ERR_CANCELLED && status != crew->failed) ||
                 (i < crew->first_failed && status != QK_ERR_CANCELLED);
    if (worse) {
        crew->failed = status;
        crew->failure = *why;
        crew->first_failed = i;
    }
    pthread_mutex_unlock(&f->lock);
    atomic_store(&f->stopped, true);
}

static void work_one(void *context, size_t i, int worker)
{
    qk__crew *crew = context;
    qk_error err = {.status = QK_OK};
    qk__connection **connection = &crew->connections[worker];
    if (atomic_load(&crew->fetch->stopped))
        return;
    qk_status status = *connection ? QK_OK : qk__connection_open(connection, crew->fetch, &err);
    if (status == QK_OK)
        status = crew->work(crew->context, i, *connection, &err);
    if (status != QK_OK)
        note_failure(crew, i, status, &err);
}

qk_status qk__crew_run(qk__crew *crew, size_t count,
                       qk_status (*work)(void *context, size_t i, qk__connection *connection,
                                         qk_error *err),
                       void *context, qk_error *err)
{
    int asked = crew->fetch->context.hub_jobs, jobs = asked > 0 ? asked : QK__JOBS;
    crew->work = work;
    crew->context = context;
    qk__parallel_for(count, jobs < QK__MAX_JOBS ? jobs : QK__MAX_JOBS, work_one, crew);
    if (crew->failed != QK_OK)
        return qk__fail(err, crew->failed, "%s", crew->failure.message);
    return atomic_load(&crew->fetch->stopped) ? qk__fail(err, QK_ERR_CANCELLED, "stopped")
                                              : QK_OK;
}

void qk__crew_close(qk__crew *crew)
{
    for (size_t i = 0; i < QK__MAX_JOBS; i++)
        qk__connection_close(&crew->connections[i]);
}
