/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes with one number compute the same units and leave out others, mostly by a mistake
 * in a job script: ranks/1-of-3 says who has number 1 of 3. A file is put there by link(), which
 * fails where there is one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/folder.h"
#include "work/units.h"

enum { LIMIT = 1024, TRIES = 15 };

/* What a file of ranks/ says: a process and its job, a line each; "" where it has gone. Fails where it cannot be
 * read, or without memory: then nobody knows whose the number is. */
static qk_status read_rank(const char *path, char owner[LIMIT], const char **job, qk_error *err)
{
    qk__buffer contents = {0};
    *owner = 0;
    qk_status status = qk__read_file(path, LIMIT - 1, &contents, err);
    if (status == QK_OK)
        snprintf(owner, LIMIT, "%s", (const char *)contents.data);
    qk__buffer_free(&contents);
    char *end = strchr(owner, '\n');
    *job = end ? end + 1 : "";
    if (end)
        *end = 0;
    return status == QK_ERR_NOMEM || status == QK_ERR_IO ? status : QK_OK;
}

/* Whether the process that has the number keeps others from it: one of the same job. One of another
 * machine and no known job may be dead, one of another job is most likely being ended: then two do
 * the same work, which costs time but no correctness. */
static bool is_taken(const char *owner, const char *job, const char *own_job)
{
    qk__life life = qk__owner_life(owner);
    return strcmp(job, own_job) == 0 &&
           (life == QK__LIFE_ALIVE || (life == QK__LIFE_ELSEWHERE && strcmp(job, "\n") != 0));
}

/* "HOST-MACHINE-PID-START" as "process PID of HOST". */
static void describe_owner(const char *owner, char text[LIMIT])
{
    const char *end = owner + strlen(owner), *part[3] = {end, end, end};
    for (const char *p = end; p > owner && part[2] == end; p--)
        if (*p == '-') {
            int i = part[0] == end ? 0 : part[1] == end ? 1 : 2;
            part[i] = p;
        }
    if (part[2] == end)
        snprintf(text, LIMIT, "process %s", owner);
    else
        snprintf(text, LIMIT, "process %.*s of %.*s", (int)(part[0] - part[1] - 1), part[1] + 1,
                 (int)(part[2] - owner), owner);
}

static qk_status fail_taken(const char *path, const char *owner, const qk_shard *shard,
                            qk_error *err)
{
    char process[LIMIT];
    describe_owner(owner, process);
    return qk__fail(err, QK_ERR_EXISTS,
                    "two processes have one number: shard %lld of %lld is being computed by "
                    "%.200s (%s); give each its own: --shard i/N, i from 0 to N - 1",
                    (long long)shard->index, (long long)shard->count, process, path);
}

/* The run's folder goes when all units have been put together. */
static qk_status fail_gone(const char *path, qk_error *err)
{
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s: cannot write: another process has just ended this run and removed its "
                    "folder: look at what it made, or run the command again",
                    path);
}

/* Puts the file at `temporary` to its place, over that of a process that is gone, or is about to:
 * who was stopped a moment ago may still be there. */
static qk_status take_rank(const qk__rank *rank, const char *temporary, const qk_shard *shard,
                           const char *own_job, qk_error *err)
{
    const struct timespec moment = {.tv_nsec = 20 * 1000 * 1000};
    char owner[LIMIT] = "";
    for (int i = 0; i < TRIES; i++) {
        const char *job;
        if (link(temporary, rank->path) == 0) {
            unlink(temporary);
            return QK_OK;
        }
        if (errno == EEXIST) {
            QK_TRY(read_rank(rank->path, owner, &job, err));
            if (is_taken(owner, job, own_job)) {
                nanosleep(&moment, NULL);
                continue;
            }
        }
        /* also where there are no links: then nobody notices two with one number */
        if (rename(temporary, rank->path) == 0)
            return QK_OK;
        if (errno == ENOENT) /* the one that had the number is through with all */
            return *owner ? fail_taken(rank->path, owner, shard, err)
                          : fail_gone(rank->path, err);
        return qk__fail(err, QK_ERR_IO, "%s: cannot write: %s", rank->path, strerror(errno));
    }
    return fail_taken(rank->path, owner, shard, err);
}

qk_status qk__rank_join(qk__rank *rank, const qk__unit_folder *units, const qk_shard *shard,
                        qk_error *err)
{
    char owner[QK__OWNER_SIZE], launcher[QK__JOB_SIZE], job[QK__JOB_SIZE + 1];
    *rank = (qk__rank){0};
    qk__owner_self(owner);
    qk__launcher_job(launcher);
    snprintf(job, sizeof job, "%s\n", launcher);
    char *folder = qk__path_join(units->name, "ranks");
    rank->path = folder ? qk__format("%s/ranks/%lld-of-%lld", units->path,
                                     (long long)shard->index, (long long)shard->count)
                        : NULL;
    rank->text = qk__format("%s\n%s", owner, job);
    char *temporary = rank->path ? qk__format("%s.tmp-%s-0", rank->path, owner) : NULL;
    qk_status status =
        temporary && rank->text ? qk__make_below(units->folder, folder, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__write_file(temporary, rank->text, strlen(rank->text), err);
    if (status == QK_ERR_NOT_FOUND)
        status = fail_gone(rank->path, err);
    if (status == QK_OK) {
        status = take_rank(rank, temporary, shard, job, err);
        if (status != QK_OK)
            unlink(temporary);
    }
    if (status != QK_OK) { /* the file there, if any, is another's */
        free(rank->path);
        free(rank->text);
        *rank = (qk__rank){0};
    }
    free(temporary);
    free(folder);
    return status;
}

qk_status qk__units_enter(qk__rank *rank, const qk__unit_folder *units, const qk_shard *shard,
                          qk_error *err)
{
    QK_TRY(qk__units_make(units, err));
    QK_TRY(qk__units_sweep(units, err));
    return shard->count > 1 ? qk__rank_join(rank, units, shard, err) : QK_OK;
}

/* Whether no process that may be alive has a number of this run. */
static qk_status ask_run(const char *folder, const char *run, qk_error *err)
{
    qk__names names = {0};
    char *ranks = qk__format("%s/" QK__UNITS_NAME "/%s/ranks", folder, run);
    if (!ranks)
        return qk__nomem(err);
    qk_status status = qk__is_dir(ranks) ? qk__list_dir(ranks, &names, err) : QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++) {
        char owner[LIMIT];
        const char *job;
        char *path = qk__path_join(ranks, names.items[i]);
        status = path ? read_rank(path, owner, &job, err) : qk__nomem(err);
        if (status == QK_OK && *owner && qk__owner_life(owner) != QK__LIFE_GONE)
            status =
                qk__fail(err, QK_ERR_EXISTS,
                         "%s: process %.200s may be writing here (%s); wait for it to end, "
                         "or remove that file if it has died",
                         folder, owner, path);
        free(path);
    }
    qk__names_free(&names);
    free(ranks);
    return status;
}

qk_status qk__ranks_ask(const char *folder, const char *own, qk_error *err)
{
    qk__names runs;
    QK_TRY(qk__units_runs(folder, &runs, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < runs.count && status == QK_OK; i++)
        if (!own || strcmp(runs.items[i], own) != 0)
            status = ask_run(folder, runs.items[i], err);
    qk__names_free(&runs);
    return status;
}

void qk__rank_leave(qk__rank *rank)
{
    char owner[LIMIT];
    const char *job;
    if (!rank->path)
        return;
    qk_status status = read_rank(rank->path, owner, &job, NULL);
    size_t length = strlen(owner);
    if (status == QK_OK && strncmp(rank->text, owner, length) == 0 &&
        rank->text[length] == '\n')
        unlink(rank->path);
    free(rank->path);
    free(rank->text);
    *rank = (qk__rank){0};
}
