/* SPDX-License-Identifier: Apache-2.0 */
/* A parallel for-loop: threads draw job numbers from a counter. Failures of jobs, and progress. */
#include "base/parallel.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"

typedef struct loop {
    atomic_size_t next;
    size_t count;
    qk__job *job;
    void *context;
} loop;

typedef struct worker {
    loop *loop;
    int id;
    pthread_t thread;
} worker;

static void *run_worker(void *argument)
{
    worker *self = argument;
    for (;;) {
        size_t i = atomic_fetch_add(&self->loop->next, 1);
        if (i >= self->loop->count)
            return NULL;
        self->loop->job(self->loop->context, i, self->id);
    }
}

void qk__parallel_for(size_t count, int threads, qk__job *job, void *context)
{
    loop l = {.count = count, .job = job, .context = context};
    atomic_init(&l.next, 0);
    if (threads > 0 && (size_t)threads > count)
        threads = (int)count;
    worker *others = threads > 1 ? calloc((size_t)threads - 1, sizeof *others) : NULL;
    int started = 0;
    if (others) {
        while (started < threads - 1) {
            others[started] = (worker){.loop = &l, .id = started + 1};
            if (pthread_create(&others[started].thread, NULL, run_worker, &others[started]))
                break;
            started++;
        }
    }
    worker self = {.loop = &l, .id = 0};
    run_worker(&self);
    for (int i = 0; i < started; i++)
        pthread_join(others[i].thread, NULL);
    free(others);
}

/* ---- jobs that can fail ----------------------------------------------------------------- */

typedef struct trial {
    qk__try_job *job;
    void *context;
    atomic_size_t end;    /* jobs from here on do not begin: the number of the failed job */
    pthread_mutex_t lock; /* guards what follows */
    size_t failed;        /* the job that failed */
    qk_status status;
    qk_error why;
} trial;

/* A real failure comes before a stop, and a lower number before a higher one. */
static bool is_told(const trial *t, size_t i, qk_status status)
{
    bool stopped = status == QK_ERR_CANCELLED, was_stopped = t->status == QK_ERR_CANCELLED;
    return t->status == QK_OK || (stopped == was_stopped ? i < t->failed : was_stopped);
}

static void try_one(void *context, size_t i, int id)
{
    trial *t = context;
    qk_error err = {0};
    if (i > atomic_load(&t->end))
        return;
    qk_status status = t->job(t->context, i, id, &err);
    if (status == QK_OK)
        return;
    pthread_mutex_lock(&t->lock);
    if (is_told(t, i, status)) {
        t->failed = i;
        t->status = status;
        t->why = err;
    }
    if (i < atomic_load(&t->end))
        atomic_store(&t->end, i);
    pthread_mutex_unlock(&t->lock);
}

qk_status qk__parallel_try(size_t count, int threads, qk__try_job *job, void *context,
                           qk_error *err)
{
    trial t = {.job = job, .context = context, .lock = PTHREAD_MUTEX_INITIALIZER};
    atomic_init(&t.end, SIZE_MAX);
    qk__parallel_for(count, threads, try_one, &t);
    pthread_mutex_destroy(&t.lock);
    if (t.status != QK_OK && err) {
        *err = t.why;
        err->status = t.status;
    }
    return t.status;
}

/* ---- progress --------------------------------------------------------------------------- */

void qk__meter_open(qk__meter *meter, qk_progress now, const qk_context *context)
{
    *meter = (qk__meter){now, context, false, PTHREAD_MUTEX_INITIALIZER};
}

void qk__meter_close(qk__meter *meter)
{
    pthread_mutex_destroy(&meter->lock);
}

bool qk__meter_add(qk__meter *meter, int64_t done, int64_t bytes)
{
    pthread_mutex_lock(&meter->lock);
    meter->now.done += done;
    meter->now.bytes += bytes;
    if (!meter->stopped)
        meter->stopped = !qk__tell_progress(meter->context, &meter->now);
    bool on = !meter->stopped;
    pthread_mutex_unlock(&meter->lock);
    return on;
}

bool qk__meter_is_stopped(qk__meter *meter)
{
    pthread_mutex_lock(&meter->lock);
    bool stopped = meter->stopped;
    pthread_mutex_unlock(&meter->lock);
    return stopped;
}
