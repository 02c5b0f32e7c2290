/* SPDX-License-Identifier: Apache-2.0 */
/* A loop whose rounds are shared among threads. */
#ifndef QK_BASE_PARALLEL_H
#define QK_BASE_PARALLEL_H

#include <stddef.h>

#include <qkscope/common.h>

/* Runs job(context, i, worker) for i = 0 .. count-1. Jobs start in order of i, each once;
 * worker (0 .. threads-1) names the thread, for per-thread scratch. threads <= 1, or a
 * single job, runs on the calling thread. A job that waits for a lower i never deadlocks.
 * Falls back to fewer threads when the system refuses to start more. */
typedef void qk__job(void *context, size_t i, int worker);
void qk__parallel_for(size_t count, int threads, qk__job *job, void *context);

/* Processors this process may use, at least 1. */
int qk__available_threads(void);

#endif
