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
#include "units/units.h"

enum { LIMIT = 1024, TRIES = 15 };

/* What a file of ranks/ says: a process and its job, a line each; "" where it has gone or cannot be
 * read. */
static void read_rank(const char *path, char owner[LIMIT], const char **job)
{
    qk__buffer contents = {0};
    *owner = 0;
    if (qk__read_file(path, LIMIT - 1, &contents, NULL) == QK_OK)
        snprintf(owner, LIMIT, "%s", (const char *)contents.data);
    qk__buffer_free(&contents);
    char *end = strchr(owner, '\n');
    *job = end ? end + 1 : "";
    if (end)
        *end = 0;
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

static qk_status fail_taken(const char *path, const char *owner, const qk_shard *shard,
                            qk_error *err)
{
    return qk__fail(err, QK_ERR_EXISTS,
                    "two processes have one number: shard %lld of %lld is being computed by "
                    "process %.200s (%s); give each its own: --shard i/N, i from 0 to N - 1",
                    (long long)shard->index, (long long)shard->count, owner, path);
}

/* Puts the file at `temporary` to its place, over that of a process that is gone, or is about to:
 * who was stopped a moment ago may still be there. */
static qk_status take(const qk__rank *rank, const char *temporary, const qk_shard *shard,
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
            read_rank(rank->path, owner, &job);
            if (is_taken(owner, job, own_job)) {
                nanosleep(&moment, NULL);
                continue;
            }
        }
        /* also where there are no links: then nobody notices two with one number */
        if (rename(temporary, rank->path) == 0)
            return QK_OK;
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
    char *folder = qk__units_path(units, "ranks", NULL);
    rank->path = folder ? qk__format("%s/%lld-of-%lld", folder, (long long)shard->index,
                                     (long long)shard->count)
                        : NULL;
    rank->text = qk__format("%s\n%s", owner, job);
    char *temporary = rank->path ? qk__format("%s.tmp-%s-0", rank->path, owner) : NULL;
    qk_status status = temporary && rank->text ? qk__make_dirs(folder, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__write_file(temporary, rank->text, strlen(rank->text), err);
    if (status == QK_OK) {
        status = take(rank, temporary, shard, job, err);
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

void qk__rank_leave(qk__rank *rank)
{
    char owner[LIMIT];
    const char *job;
    if (!rank->path)
        return;
    read_rank(rank->path, owner, &job);
    size_t length = strlen(owner);
    if (strncmp(rank->text, owner, length) == 0 && rank->text[length] == '\n')
        unlink(rank->path);
    free(rank->path);
    free(rank->text);
    *rank = (qk__rank){0};
}
