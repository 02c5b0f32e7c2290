/* SPDX-License-Identifier: Apache-2.0 */
/* Analyses each query head together with the key head of its GQA group.
 *
 * Jobs go from one GQA group to the next, the key head first. So the key head is read once, when
 * the query heads of its group need it, and only the groups at work are in memory:
 *
 *     K(l0,k0)  Q(l0,q0)  Q(l0,q1)  K(l0,k1)  Q(l0,q2)  ...
 *
 * A query head that is done before its key head waits; the key head's job was started
 * earlier, so the wait ends. */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/head_analyses.h"
#include "analysis/run.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"
#include "capture/capture.h"

/* One key head and the query heads that use it. */
typedef struct gqa_group {
    const qk_head *head; /* NULL: not in the capture */
    bool ready;
    qk_status status;
    qk_error error;
    qk__key_data keys;
    /* Jobs that still need the keys: the job that reads them, and that of every query head. A query
     * head may give up while they are being read. */
    size_t users;
} gqa_group;

typedef struct job {
    size_t group;
    size_t query; /* index in the results, or KEY_JOB */
} job;

static const size_t KEY_JOB = (size_t)-1;

typedef struct plan {
    qk__run *run;
    job *jobs;
    size_t num_jobs;
    gqa_group *groups;
    size_t num_groups;
    pthread_mutex_t lock; /* guards ready and users of every group */
    pthread_cond_t became_ready;
} plan;

/* The last user frees the keys. */
static void release_keys(plan *p, gqa_group *g)
{
    pthread_mutex_lock(&p->lock);
    bool last = --g->users == 0;
    pthread_mutex_unlock(&p->lock);
    if (last)
        qk__key_data_free(p->run, &g->keys);
}

static void read_keys(plan *p, int worker, gqa_group *g)
{
    qk__run *run = p->run;
    qk_status status = QK_ERR_CANCELLED;
    if (!atomic_load(&run->cancelled))
        status = qk__key_data_read(run, worker, g->head, &g->keys, &g->error);
    pthread_mutex_lock(&p->lock);
    g->status = status;
    g->ready = true;
    pthread_cond_broadcast(&p->became_ready);
    pthread_mutex_unlock(&p->lock);
    if (status != QK_OK && status != QK_ERR_CANCELLED) {
        char name[QK_HEAD_NAME_SIZE];
        qk_head_name(g->head->id, name);
        qk__tell_notice(&run->context, QK_NOTICE_ERROR, "%s: %s", name, g->error.message);
    }
    int64_t bytes = g->keys.data.bytes;
    int64_t rows = g->keys.data.moments ? g->keys.data.moments->count : 0;
    release_keys(p, g);
    qk__run_progress(run, 0, bytes, rows); /* query heads are counted, as in the summary */
}

static void wait_for_keys(plan *p, gqa_group *g)
{
    pthread_mutex_lock(&p->lock);
    while (!g->ready)
        pthread_cond_wait(&p->became_ready, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void read_queries(plan *p, int worker, gqa_group *g, size_t i)
{
    qk__run *run = p->run;
    qk_error err = {0};
    qk__head_data queries;
    const qk_head *head = qk_capture_find(run->capture, run->results->heads[i].id);
    qk_status status = qk__head_data_read(run, worker, head, &queries, &err);
    int64_t rows = queries.moments ? queries.moments->count : 0;
    if (status == QK_OK) {
        wait_for_keys(p, g);
        status = g->status;
        if (status == QK_OK) {
            qk__analyse_head(run, worker, i, &queries, &g->keys);
            status = atomic_load(&run->cancelled) ? QK_ERR_CANCELLED : QK_OK;
        } else {
            char name[QK_HEAD_NAME_SIZE];
            qk_head_name(g->head->id, name);
            qk__set_error(&err, status, "its key head %s has no numbers: %s", name,
                          g->error.message);
        }
    }
    if (status != QK_OK)
        qk__run_fail_head(run, i, status, err.message);
    int64_t bytes = queries.bytes;
    qk__head_data_free(run, &queries);
    qk__long_tables_put(run, i);
    release_keys(p, g);
    qk__run_progress(run, 1, bytes, rows);
}

static void run_job(void *context, size_t i, int worker)
{
    plan *p = context;
    const job *j = &p->jobs[i];
    gqa_group *g = &p->groups[j->group];
    if (j->query == KEY_JOB)
        read_keys(p, worker, g); /* also when cancelled: a query job may be waiting for it */
    else if (!atomic_load(&p->run->cancelled))
        read_queries(p, worker, g, j->query);
    else
        release_keys(p, g);
}

static void note_missing(qk__run *run, size_t i, qk_head_id key)
{
    char name[QK_HEAD_NAME_SIZE], message[256];
    qk_head_name(key, name);
    snprintf(message, sizeof message,
             "its key head %s is not in the capture (group size %d): skipped", name,
             run->results->group.size);
    run->results->heads[i].k_head = key.head;
    run->results->heads[i].key_missing = true;
    if (run->settings->allow_missing) {
        run->results->heads[i].status = QK_ERR_NOT_FOUND;
        run->results->heads[i].message = qk__strdup(message);
    } else {
        qk__run_fail_head(run, i, QK_ERR_NOT_FOUND, message);
    }
}

/* Query heads come ordered by layer and head, so those of one GQA group are neighbours. */
static void plan_jobs(plan *p, const qk__targets *targets)
{
    qk__run *run = p->run;
    qk_head_id last = {-1, -1, QK_KEY};
    for (size_t i = 0; i < targets->count; i++) {
        qk_head_id q = targets->ids[i], key;
        const qk_head *head = qk__find_keys(run, q.layer, q.head, &key);
        if (!head) {
            note_missing(run, i, key);
            continue;
        }
        if (qk__head_compare(key, last) != 0) {
            p->groups[p->num_groups++] = (gqa_group){.head = head, .users = 1};
            p->jobs[p->num_jobs++] = (job){p->num_groups - 1, KEY_JOB};
            last = key;
        }
        run->results->heads[i].k_head = key.head;
        p->groups[p->num_groups - 1].users++;
        p->jobs[p->num_jobs++] = (job){p->num_groups - 1, i};
        run->total_jobs++;
    }
}

qk_status qk__run_gqa_groups(qk__run *run, qk_error *err)
{
    qk__targets targets;
    plan p = {.run = run};
    QK_TRY(qk__select_heads(run, QK_KINDS_Q, &targets, err));
    qk__tell_absent_heads(run);
    qk_status status = qk__run_set_heads(run, targets.ids, targets.count, err);
    p.groups = qk__calloc(targets.count, sizeof *p.groups);
    p.jobs = qk__calloc(2 * targets.count, sizeof *p.jobs);
    if (status == QK_OK && (!p.groups || !p.jobs))
        status = qk__nomem(err);
    if (status == QK_OK)
        plan_jobs(&p, &targets);
    if (status == QK_OK)
        status = qk__long_tables_open(run, err);
    if (status == QK_OK) {
        pthread_mutex_init(&p.lock, NULL);
        pthread_cond_init(&p.became_ready, NULL);
        qk__parallel_for(p.num_jobs, run->threads, run_job, &p);
        pthread_cond_destroy(&p.became_ready);
        pthread_mutex_destroy(&p.lock);
    }
    free(p.groups);
    free(p.jobs);
    free(targets.ids);
    return status;
}
