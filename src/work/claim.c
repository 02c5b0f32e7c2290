/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of folders. They belong to the open folder, so a second run of one process is kept out as one of
 * another is. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/lock.h"
#include "work/place.h"

/* ---- locks ------------------------------------------------------------------------------ */

/* For a moment a lock may be one of a program that a killed run was just about to start (rsvg-convert): it
 * keeps the run's descriptors until it begins. */
bool qk__place_is_held(int lock, bool shared)
{
    enum { TRIES = 20 };
    const struct timespec moment = {.tv_nsec = 10 * 1000 * 1000};
    for (int i = 0; i < TRIES; i++) {
        if (qk__lock_try(lock, shared) != QK__LOCK_HELD)
            return false;
        nanosleep(&moment, NULL);
    }
    return true;
}

bool qk__place_try(const char *path, int *lock)
{
    *lock = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*lock >= 0 && !qk__place_is_held(*lock, false))
        return true;
    if (*lock >= 0)
        close(*lock);
    *lock = -1;
    return false;
}

/* A process that was forked meanwhile has the folder open, too: closing it would leave the lock. */
static void unlock(int *lock)
{
    if (*lock >= 0) {
        qk__unlock(*lock);
        close(*lock);
    }
    *lock = -1;
}

/* ---- folders that were made ------------------------------------------------------------- */

/* The length of a path without its last name, whose slash stays. */
static size_t parent_length(const char *path, size_t length)
{
    while (length > 0 && path[length - 1] == '/')
        length--;
    while (length > 0 && path[length - 1] != '/')
        length--;
    return length;
}

/* Bytes of path that lead to a folder that is there; the rest is cut off. */
static size_t existing_part(char *path)
{
    size_t length = strlen(path);
    while (length > 0 && !qk__is_dir(path)) {
        length = parent_length(path, length);
        path[length] = 0;
    }
    return length;
}

/* Removes the folders that were made, from the innermost; one that holds something stays, and one that
 * another shard holds. */
static void remove_made(const qk__hold *place)
{
    if (qk__lock_try(place->lock, false) == QK__LOCK_HELD)
        return;
    char *path = qk__strdup(place->path);
    size_t length = path ? strlen(path) : 0;
    while (length > place->was && rmdir(path) == 0) {
        length = parent_length(path, length);
        path[length] = 0;
    }
    free(path);
}

void qk__place_release(qk__hold *place)
{
    if (!place->path)
        return;
    if (place->lock >= 0) /* else the folder is someone else's */
        remove_made(place);
    unlock(&place->lock);
    free(place->path);
    *place = (qk__hold){.lock = -1};
}

/* ---- holding ---------------------------------------------------------------------------- */

/* Whether an open folder is the one at a path. */
static bool is_folder_at(int lock, const char *path)
{
    struct stat held, found;
    return fstat(lock, &held) == 0 && stat(path, &found) == 0 && held.st_dev == found.st_dev &&
           held.st_ino == found.st_ino;
}

bool qk__place_is_there(const qk__hold *place)
{
    return place->lock >= 0 && is_folder_at(place->lock, place->path);
}

static qk_status fail_held(const char *path, qk_error *err)
{
    return qk__fail(
        err, QK_ERR_EXISTS,
        "%s: another run is at work in this folder; wait for it to end, or choose another "
        "folder",
        path);
}

static qk_status lock(qk__hold *place, bool shared, qk_error *err)
{
    place->lock = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place->lock < 0)
        return qk__fail(err, errno == ENOENT || errno == ENOTDIR ? QK_ERR_NOT_FOUND : QK_ERR_IO,
                        "%s: cannot open: %s", place->path, strerror(errno));
    if (!qk__place_is_held(place->lock, shared))
        return QK_OK;
    close(place->lock);
    place->lock = -1;
    return fail_held(place->path, err);
}

/* The folder may change places with a new one, or be removed by the run that made it, while one waits
 * for its lock: then there is another to lock. */
static qk_status lock_there(qk__hold *place, bool shared, bool makes, qk_error *err)
{
    enum { TRIES = 5 };
    for (int i = 0; place->lock < 0 && i < TRIES; i++) {
        if (makes)
            QK_TRY(qk__make_dirs(place->path, err));
        qk_status status = lock(place, shared, err);
        if (status != QK_OK && (status != QK_ERR_NOT_FOUND || !makes))
            return status;
        if (!qk__place_is_there(place))
            unlock(&place->lock);
    }
    return place->lock >= 0 ? QK_OK : fail_held(place->path, err);
}

static qk_status claim(qk__hold *place, bool shared, qk_error *err)
{
    QK_TRY(lock_there(place, shared, true, err));
    /* before the work, not after it */
    if (access(place->path, W_OK | X_OK) != 0)
        return qk__fail(err, QK_ERR_IO, "%s: cannot write in this folder: %s", place->path,
                        strerror(errno));
    return QK_OK;
}

static qk_status open_place(qk__hold *place, const char *path, qk_error *err)
{
    *place = (qk__hold){.lock = -1, .path = qk__strdup(path), .was = strlen(path)};
    return place->path ? QK_OK : qk__nomem(err);
}

static qk_status make_and_hold(qk__hold *place, const char *path, bool shared, qk_error *err)
{
    QK_TRY(open_place(place, path, err));
    char *copy = qk__strdup(path);
    if (copy)
        place->was = existing_part(copy);
    free(copy);
    qk_status status = copy ? claim(place, shared, err) : qk__nomem(err);
    if (status != QK_OK)
        qk__place_release(place);
    return status;
}

qk_status qk__place_claim(qk__hold *place, const char *path, qk_error *err)
{
    return make_and_hold(place, path, false, err);
}

qk_status qk__place_join(qk__hold *place, const char *path, qk_error *err)
{
    return make_and_hold(place, path, true, err);
}

qk_status qk__place_watch(qk__hold *place, const char *path, const qk__hold *own, qk_error *err)
{
    QK_TRY(open_place(place, path, err));
    if (own && own->lock >= 0 && is_folder_at(own->lock, path))
        return QK_OK;
    qk_status status = lock_there(place, true, false, err);
    if (status != QK_OK)
        qk__place_release(place);
    return status;
}
