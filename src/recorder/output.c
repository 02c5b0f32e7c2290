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
#include "recorder/place.h"
#include "recorder/recording.h"

/* ---- what is there ---------------------------------------------------------------------- */

static bool is_complete(const qk__recording *r)
{
    bool yes = true;
    for (int stage = 0; stage < QK__STAGES; stage++) {
        char *folder = qk__stage_folder(r, r->settings->output, stage);
        yes &= !r->stages[stage] || (folder && qk__is_capture_of(folder, r->fingerprint));
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

static qk_status check_places(const qk_recorder_settings *settings, qk_error *err)
{
    bool both = settings->stage == QK_ROPE_BOTH;
    qk_status status = QK_OK;
    for (int i = both ? 1 : 0; status == QK_OK && i < (both ? QK__PLACES : 1); i++) {
        char *folder = qk__place(settings->output, i);
        status = folder ? check_place(folder, err) : qk__nomem(err);
        free(folder);
    }
    return status;
}

qk_status qk__output_glance(const qk_recorder_settings *settings, qk_error *err)
{
    size_t others;
    bool partial;
    QK_TRY(count_others(settings->output, &others, &partial, err));
    if (others == 0)
        return QK_OK;
    return partial || settings->force || qk__holds_captures(settings->output)
               ? check_places(settings, err)
               : fail_not_empty(settings->output, err);
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

static qk_status fail_locked(const qk__recording *r, qk_error *err)
{
    return qk__fail(err, QK_ERR_EXISTS, "%s: another run is writing here", r->settings->output);
}

/* Some network file systems have no locks: then there is none. */
static qk_status try_lock(qk__recording *r, const char *path, bool *taken, qk_error *err)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    QK_TRY(qk__make_dirs(r->partial, err));
    *taken = false;
    r->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (r->lock < 0 && errno == ENOENT)
        return QK_OK; /* .partial has just gone */
    if (r->lock < 0)
        return qk__fail(err, QK_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (fcntl(r->lock, F_SETLK, &whole) != 0 && (errno == EACCES || errno == EAGAIN))
        return fail_locked(r, err);
    *taken = is_in_place(r->lock, path);
    if (!*taken) {
        close(r->lock);
        r->lock = -1;
    }
    return QK_OK;
}

/* A run that ends takes .partial away, lock and all, so the one that got the lock then has to
 * look again. */
static qk_status lock_partial(qk__recording *r, qk_error *err)
{
    char *path = qk__path_join(r->partial, "lock");
    qk_status status = path ? QK_OK : qk__nomem(err);
    bool taken = false;
    for (int i = 0; status == QK_OK && !taken && i < MAX_LOCK_TRIES; i++)
        status = try_lock(r, path, &taken, err);
    if (status == QK_OK && !taken)
        status = fail_locked(r, err);
    free(path);
    return status;
}

/* ---- beginning -------------------------------------------------------------------------- */

static qk_status begin(qk__recording *r, bool replaces, qk_error *err)
{
    qk__partial_empty(r->partial);
    qk__publish_sweep(r->settings->output);
    size_t parts = 2 * (size_t)r->facts->num_layers;
    int64_t *rows = r->journal.rows;
    memset(rows, 0, parts * sizeof *rows);
    r->journal = (qk__journal){.rows = rows, .replaces = replaces};
    QK_TRY(qk__make_dirs(r->spool, err));
    return qk__journal_write(r, err);
}

static qk_status resume(qk__recording *r, qk_error *err)
{
    r->outcome->texts_before = r->journal.texts;
    r->outcome->tokens_before = r->journal.tokens;
    if (r->journal.built)
        qk__recorder_notice(r, QK_NOTICE_INFO, "all is written: moving it to its place");
    else if (r->journal.writing)
        qk__recorder_notice(r, QK_NOTICE_INFO, "resuming: writing the files");
    else
        qk__recorder_notice(r, QK_NOTICE_INFO, "resuming after %lld of %lld texts",
                            (long long)r->journal.texts, (long long)r->num_texts);
    return qk__make_dirs(r->spool, err);
}

static qk_status decide(qk__recording *r, size_t others, bool *complete, qk_error *err)
{
    const char *output = r->settings->output;
    bool found;
    json_t *identity;
    *complete = !r->settings->force && is_complete(r);
    if (*complete)
        return QK_OK;
    if (r->settings->force)
        return begin(r, true, err);
    QK_TRY(qk__journal_read(r, &found, &identity, err));
    if (!found)
        return others > 0 ? fail_not_empty(output, err) : begin(r, false, err);
    const char *difference = qk__identity_difference(identity, r->identity);
    qk_status status;
    if (difference)
        status =
            qk__fail(err, QK_ERR_EXISTS,
                     "%s: holds an unfinished capture of another run (not the same: %s): give "
                     "the same settings to resume it, or --force to start over",
                     output, difference);
    else if (r->journal.built && !qk__publish_ready(r))
        status = begin(r, r->journal.replaces, err);
    else
        status = resume(r, err);
    json_decref(identity);
    return status;
}

static qk_status fail_other(const qk__recording *r, qk_error *err)
{
    json_t *identity = qk__captured_identity(r->settings->output);
    const char *difference = identity ? qk__identity_difference(identity, r->identity) : NULL;
    qk_status status =
        qk__fail(err, QK_ERR_EXISTS,
                 "%s: holds a capture of other texts or settings%s%s%s: choose another folder, "
                 "or --force to replace it",
                 r->settings->output, difference ? " (" : "", difference ? difference : "",
                 difference ? " differs)" : "");
    json_decref(identity);
    return status;
}

/* Removes what a run has left that was killed after its capture was complete. */
static void tidy(qk__recording *r)
{
    qk__publish_sweep(r->settings->output);
    for (int i = 0; i < QK__PLACES; i++) {
        char *folder = qk__place(r->settings->output, i);
        if (folder && qk__holds_capture(folder))
            qk__output_sweep(folder);
        free(folder);
    }
    qk__partial_drop(r->settings->output);
}

qk_status qk__output_open(qk__recording *r, bool *complete, qk_error *err)
{
    size_t others;
    bool partial;
    QK_TRY(count_others(r->settings->output, &others, &partial, err));
    r->partial = qk__path_join(r->settings->output, "." QK__PARTIAL);
    r->spool = r->partial ? qk__path_join(r->partial, "spool") : NULL;
    r->fresh = r->spool ? qk__path_join(r->partial, "new") : NULL;
    if (!r->fresh)
        return qk__nomem(err);
    /* A finished capture is not to be written into, not even for a moment. */
    *complete = !partial && !r->settings->force && is_complete(r);
    if (*complete) {
        qk__publish_sweep(r->settings->output);
        return QK_OK;
    }
    if (others > 0 && !partial && !r->settings->force)
        return fail_other(r, err);
    QK_TRY(lock_partial(r, err));
    QK_TRY(decide(r, others, complete, err));
    if (*complete)
        tidy(r);
    return QK_OK;
}
