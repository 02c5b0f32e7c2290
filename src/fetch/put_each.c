/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of a call shared among threads, each with a connection of its own. */
#include "base/error.h"
#include "base/parallel.h"
#include "fetch/put.h"

typedef struct round {
    qk__put *put;
    qk__put_job *job;
} round;

/* What fails first in the list is told, and what is only cancelled for it never. */
static void note(qk__put *put, size_t i, qk_status status, const qk_error *err)
{
    pthread_mutex_lock(&put->fetch.lock);
    if (put->failed == QK_OK || (put->failed == QK_ERR_CANCELLED && status != put->failed) ||
        (i < put->first_failed && status != QK_ERR_CANCELLED)) {
        put->failed = status;
        put->failure = *err;
        put->first_failed = i;
    }
    pthread_mutex_unlock(&put->fetch.lock);
    atomic_store(&put->fetch.stopped, true);
}

static void do_one(void *context, size_t i, int worker)
{
    round *r = context;
    qk__put *put = r->put;
    qk_error err = {.status = QK_OK};
    if (atomic_load(&put->fetch.stopped))
        return;
    qk__connection **connection = &put->connections[worker];
    qk_status status = *connection ? QK_OK : qk__connection_open(connection, &put->fetch, &err);
    if (status == QK_OK)
        status = r->job(put, *connection, i, &err);
    if (status != QK_OK)
        note(put, i, status, &err);
}

qk_status qk__put_each(qk__put *put, size_t count, qk__put_job *job, qk_error *err)
{
    round r = {put, job};
    int jobs = put->hub.jobs;
    qk__parallel_for(count, jobs < QK__PUT_JOBS ? jobs : QK__PUT_JOBS, do_one, &r);
    if (put->failed != QK_OK)
        return qk__fail(err, put->failed, "%s", put->failure.message);
    return atomic_load(&put->fetch.stopped) ? qk__fail(err, QK_ERR_CANCELLED, "stopped")
                                            : QK_OK;
}

void qk__put_measure(qk__put *put, int64_t bytes)
{
    pthread_mutex_lock(&put->fetch.lock);
    put->fetch.done = 0;
    put->fetch.total = bytes;
    pthread_mutex_unlock(&put->fetch.lock);
}
