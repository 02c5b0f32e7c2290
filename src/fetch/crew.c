/* SPDX-License-Identifier: Apache-2.0 */
/* Many requests at a time, each thread with a connection of its own. The first failure stops the others, also in
 * the middle of a file. */
#include "base/error.h"
#include "base/parallel.h"
#include "fetch/fetch.h"

static qk_status work_one(void *context, size_t i, int worker, qk_error *err)
{
    qk__crew *crew = context;
    qk__connection **connection = &crew->connections[worker];
    if (atomic_load(&crew->fetch->stopped))
        return QK_OK;
    qk_status status = *connection ? QK_OK : qk__connection_open(connection, crew->fetch, err);
    if (status == QK_OK)
        status = crew->work(crew->context, i, *connection, err);
    if (status != QK_OK)
        atomic_store(&crew->fetch->stopped, true);
    return status;
}

qk_status qk__crew_run(qk__crew *crew, size_t count,
                       qk_status (*work)(void *context, size_t i, qk__connection *connection,
                                         qk_error *err),
                       void *context, qk_error *err)
{
    int asked = crew->fetch->context.hub_jobs, jobs = asked > 0 ? asked : QK__JOBS;
    crew->work = work;
    crew->context = context;
    QK_TRY(qk__parallel_try(count, jobs < QK__MAX_JOBS ? jobs : QK__MAX_JOBS, work_one, crew,
                            err));
    return atomic_load(&crew->fetch->stopped) ? qk__fail(err, QK_ERR_CANCELLED, "stopped")
                                              : QK_OK;
}

void qk__crew_close(qk__crew *crew)
{
    for (size_t i = 0; i < QK__MAX_JOBS; i++)
        qk__connection_close(&crew->connections[i]);
}
