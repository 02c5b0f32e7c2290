/* SPDX-License-Identifier: Apache-2.0 */
/* A loop whose rounds are shared among threads: its jobs, their first failure, and their progress. Nothing else in the
 * library keeps these three. */
#ifndef QK_BASE_PARALLEL_H
#define QK_BASE_PARALLEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <qkscope/common.h>

#include "base/context.h"

/* Runs job(context, i, worker) for i = 0 .. count-1. Jobs start in order of i, each once;
 * worker (0 .. threads-1) names the thread, for per-thread scratch. threads <= 1, or a
 * single job, runs on the calling thread. A job that waits for a lower i never deadlocks.
 * Falls back to fewer threads when the system refuses to start more. */
typedef void qk__job(void *context, size_t i, int worker);
void qk__parallel_for(size_t count, int threads, qk__job *job, void *context);

/* The same with jobs that can fail. After a failure, jobs of a higher i do not begin any more, but those of a lower i
 * do: so the reported failure is that of the lowest i, whatever the number of threads. A stop (QK_ERR_CANCELLED) is
 * reported only where nothing else failed. */
typedef qk_status qk__try_job(void *context, size_t i, int worker, qk_error *err);
QK_MUST_CHECK qk_status qk__parallel_try(size_t count, int threads, qk__try_job *job,
                                         void *context, qk_error *err);

/* The progress of all jobs, told to the user by one thread at a time. */
typedef struct qk__meter {
    qk_progress now;
    const qk_context *context; /* told by this context */
    bool stopped;              /* the user wants it */
    pthread_mutex_t lock;
} qk__meter;

/* `now` says what is counted, the total, and what was done before. */
void qk__meter_open(qk__meter *meter, qk_progress now, const qk_context *context);
void qk__meter_close(qk__meter *meter);

/* Adds what a job has done. False, which qk__meter_is_stopped then tells other threads: the user wants to stop, and is
 * not asked again. */
bool qk__meter_add(qk__meter *meter, int64_t done, int64_t bytes);
bool qk__meter_is_stopped(qk__meter *meter);

#endif
