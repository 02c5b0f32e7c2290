/* SPDX-License-Identifier: Apache-2.0 */
/* A parallel for-loop: threads draw job numbers from one counter. */
#define _GNU_SOURCE /* sched_getaffinity, CPU_COUNT */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

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

int qk__available_threads(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}
