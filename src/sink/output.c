/* SPDX-License-Identifier: Apache-2.0 */
/* Settles what a run may do with its output folder. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "capture/capture.h"
#include "sink/place.h"
#include "sink/run_file.h"
#include "sink/run_lock.h"
#include "sink/sink.h"

/* ---- what is there ---------------------------------------------------------------------- */

bool qk__is_complete(const qk_sink *sink)
{
    bool yes = true;
    for (int stage = 0; stage < QK__STAGES; stage++) {
        char *folder = qk__stage_folder(sink, sink->settings.output, stage);
        yes &= !sink->stages[stage] || (folder && qk__is_capture_of(folder, sink->fingerprint));
        free(folder);
    }
    return yes;
}

/* Counts what lies in the output folder besides .partial. */
static qk_status count_others(const char *output, size_t *others, bool *partial, qk_error *err)
{
    qk__names names = {0};
    *others = 0;
    *partial = false;
    struct stat st;
    if (stat(output, &st) != 0 && errno == ENOENT)
        return QK_OK;
    QK_TRY(qk__list_dir(output, &names, err));
    for (size_t i = 0; i < names.count; i++) {
        bool own = strcmp(names.items[i], "." QK__PARTIAL) == 0;
        *partial |= own;
        *others += !own;
    }
    qk__names_free(&names);
    return QK_OK;
}

static qk_status fail_not_empty(const char *output, qk_error *err)
{
    return qk__fail(err, QK_ERR_EXISTS,
                    "%s: the folder is not empty: choose another one, or --force to replace a "
                    "capture in it",
                    output);
}

/* A capture would replace files of these names; where there is no capture they are not ours. */
static qk_status check_place(const char *folder, qk_error *err)
{
    struct stat st;
    qk__names names;
    if (stat(folder, &st) != 0 || qk__holds_capture(folder))
        return QK_OK;
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; status == QK_OK && i < names.count; i++)
        if (qk__is_part_of_capture(names.items[i]))
            status =
                qk__fail(err, QK_ERR_EXISTS,
                         "%s/%s: is in the way and belongs to no capture: move it, or choose "
                         "another folder",
                         folder, names.items[i]);
    qk__names_free(&names);
    return status;
}

static qk_status check_places(const char *output, qk_rope_stage stage, qk_error *err)
{
    bool both = stage == QK_ROPE_BOTH;
    qk_status status = QK_OK;
    for (int i = both ? 1 : 0; status == QK_OK && i < (both ? QK__PLACES : 1); i++) {
        char *folder = qk__place(output, i);
        status = folder ? check_place(folder, err) : qk__nomem(err);
        free(folder);
    }
    return status;
}

qk_status qk__output_glance(const char *output, bool force, qk_rope_stage stage, qk_error *err)
{
    size_t others;
    bool partial;
    QK_TRY(count_others(output, &others, &partial, err));
    if (others == 0)
        return QK_OK;
    return partial || force || qk__holds_captures(output) ? check_places(output, stage, err)
                                                          : fail_not_empty(output, err);
}

/* ---- the lock -------------------------------------------------------------------------- */

/* Locking a file that is gone by then is tried so often. */
enum { MAX_LOCK_TRIES = 10 };

/* Whether the file that is locked is the one others will find. */
static bool is_in_place(int fd, const char *path)
{
    struct stat locked, found;
    return fstat(fd, &locked) == 0 && stat(path, &found) == 0 &&
           locked.st_ino == found.st_ino && locked.st_dev == found.st_dev;
}

static qk_status fail_locked(const qk_sink *sink, qk_error *err)
{
    return qk__fail(err, QK_ERR_EXISTS, "%s: another run is writing here",
                    sink->settings.output);
}

static qk_status try_lock(qk_sink *sink, const char *path, bool *taken, qk_error *err)
{
    QK_TRY(qk__make_dirs(sink->partial, err));
    *taken = false;
    sink->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (sink->lock < 0 && errno == ENOENT)
        return QK_OK; /* .partial has just gone */
    if (sink->lock < 0)
        return qk__fail(err, QK_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (!qk__run_lock_take(sink->lock))
        return fail_locked(sink, err);
    *taken = is_in_place(sink->lock, path);
    if (!*taken)
        qk__run_lock_leave(&sink->lock);
    return QK_OK;
}

/* A run that ends takes .partial away, lock and all, so the one that got the lock then has to
 * look again. */
static qk_status lock_partial(qk_sink *sink, qk_error *err)
{
    char *path = qk__path_join(sink->partial, "lock");
    qk_status status = path ? QK_OK : qk__nomem(err);
    bool taken = false;
    for (int i = 0; status == QK_OK && !taken && i < MAX_LOCK_TRIES; i++)
        status = try_lock(sink, path, &taken, err);
    if (status == QK_OK && !taken)
        status = fail_locked(sink, err);
    free(path);
    return status;
}

/* ---- beginning -------------------------------------------------------------------------- */

/* Shards write side by side; only a process that is alone may lock the others out. */
static qk_status enter(qk_sink *sink, qk_error *err)
{
    if (sink->settings.shard.count == 1 && !sink->merging)
        return lock_partial(sink, err);
    if (qk__is_locked(sink->settings.output))
        return fail_locked(sink, err);
    return QK_OK;
}

/* Two processes with one number would do the same work. */
static qk_status join(qk_sink *sink, qk_error *err)
{
    QK_TRY(qk__units_make(&sink->units, err));
    QK_TRY(qk__units_sweep(&sink->units, err));
    return sink->settings.shard.count == 1
               ? QK_OK
               : qk__rank_join(&sink->rank, &sink->units, &sink->settings.shard, err);
}

static qk_status begin(qk_sink *sink, bool replaces, qk_error *err)
{
    /* What other shards have begun beside this one is theirs; it is of this run, or not looked at. */
    if (sink->settings.shard.count > 1)
        qk__partial_unbuild(sink->partial);
    else
        qk__partial_empty(sink->partial);
    qk__publish_sweep(sink->settings.output);
    sink->replaces = replaces;
    sink->began = true;
    QK_TRY(join(sink, err));
    return qk__run_write(sink, err);
}

static qk_status resume(qk_sink *sink, qk_error *err)
{
    QK_TRY(join(sink, err));
    QK_TRY(qk__blocks_look(sink, err));
    if (qk__is_built(sink))
        qk__sink_notice(sink, QK_NOTICE_INFO, "all is written: moving it to its place");
    else if (sink->settings.num_texts > 0 && sink->texts_before == sink->settings.num_texts)
        qk__sink_notice(sink, QK_NOTICE_INFO, "resuming: writing the files");
    else if (sink->settings.shard.count == 1 && !sink->merging)
        qk__sink_notice(sink, QK_NOTICE_INFO, "resuming after %lld of %lld texts",
                        (long long)sink->texts_before, (long long)sink->settings.num_texts);
    return QK_OK;
}

static qk_status fail_other_run(const qk_sink *sink, const char *difference, qk_error *err)
{
    return qk__fail(err, QK_ERR_EXISTS,
                    "%s: holds an unfinished capture of another run (not the same: %s): give "
                    "the same settings to resume it, or %s",
                    sink->settings.output, difference,
                    sink->settings.shard.count > 1 ? "remove the folder to start over"
                                                   : "--force to start over");
}

/* Goes on with what is there, or begins. A shard with `force` begins where it is the first, and joins
 * those that have begun the same. */
static qk_status decide(qk_sink *sink, size_t others, qk_error *err)
{
    const char *output = sink->settings.output;
    bool found, force = sink->settings.force;
    qk__run_file run;
    if (force && sink->settings.shard.count == 1)
        return begin(sink, true, err);
    sink->complete = !force && qk__is_complete(sink);
    if (sink->complete)
        return QK_OK;
    qk_status status = qk__run_read(&run, sink->partial, &found, err);
    const char *difference =
        status == QK_OK && found ? qk__identity_difference(run.identity, sink->identity) : NULL;
    sink->replaces = run.replaces;
    bool unread = status == QK_ERR_MALFORMED && force;
    if (status != QK_OK && !unread)
        sink->replaces = false;
    else if (!unread && !found && others > 0 && !force)
        status = fail_not_empty(output, err);
    else if (unread || !found || (difference && force))
        status = begin(sink, force, err);
    else if (difference)
        status = fail_other_run(sink, difference, err);
    else if (qk__is_built(sink) && !qk__publish_ready(sink))
        status = begin(sink, sink->replaces, err);
    else
        status = resume(sink, err);
    qk__run_free(&run);
    return status;
}

static qk_status fail_other(const qk_sink *sink, qk_error *err)
{
    json_t *identity = qk__captured_identity(sink->settings.output);
    const char *difference =
        identity ? qk__identity_difference(identity, sink->identity) : NULL;
    qk_status status =
        qk__fail(err, QK_ERR_EXISTS,
                 "%s: holds a capture of other texts or settings%s%s%s: choose another folder, "
                 "or --force to replace it",
                 sink->settings.output, difference ? " (" : "", difference ? difference : "",
                 difference ? " differs)" : "");
    json_decref(identity);
    return status;
}

/* Removes what a run has left that was killed after its capture was complete. */
static void tidy(qk_sink *sink)
{
    qk__publish_sweep(sink->settings.output);
    for (int i = 0; i < QK__PLACES; i++) {
        char *folder = qk__place(sink->settings.output, i);
        if (folder && qk__holds_capture(folder))
            qk__output_sweep(folder);
        free(folder);
    }
    qk__partial_drop(sink->settings.output);
}

qk_status qk__output_open(qk_sink *sink, qk_error *err)
{
    const char *output = sink->settings.output;
    size_t others;
    bool partial;
    QK_TRY(qk__output_glance(output, sink->settings.force, sink->settings.stage, err));
    QK_TRY(count_others(output, &others, &partial, err));
    /* A finished capture is not to be written into, not even for a moment. */
    sink->complete = !partial && !sink->settings.force && qk__is_complete(sink);
    if (sink->complete) {
        qk__publish_sweep(output);
        return QK_OK;
    }
    if (others > 0 && !partial && !sink->settings.force)
        return fail_other(sink, err);
    QK_TRY(enter(sink, err));
    QK_TRY(decide(sink, others, err));
    if (sink->complete)
        tidy(sink);
    return QK_OK;
}
