/* SPDX-License-Identifier: Apache-2.0 */
/* Locking a folder, and removing what a killed run has left in it. */
#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

enum { MAX_NESTED = 3, MAX_DEPTH = 2048 };

/* ---- what a killed run left ------------------------------------------------------------- */

size_t qk__temporary_stem(const char *name)
{
    static const char DIGITS[] = "0123456789";
    const char *mark = NULL;
    for (const char *p = name; (p = strstr(p, ".tmp-")); p++)
        mark = p;
    if (!mark)
        return 0;
    const char *p = mark + strlen(".tmp-");
    size_t process = strspn(p, DIGITS);
    size_t number = p[process] == '-' ? strspn(p + process + 1, DIGITS) : 0;
    bool whole = process > 0 && number > 0 && p[process + 1 + number] == 0;
    return whole ? (size_t)(mark - name) : 0;
}

/* ".NAME.ab12CD", as mkdtemp makes it. */
static bool is_staging(const char *name)
{
    size_t length = strlen(name);
    return length > 8 && name[0] == '.' && name[length - 7] == '.';
}

static bool is_real_folder(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void empty_nested(const char *path, int depth);

/* gnuplot outlives a run that was killed, and may write here meanwhile: then the folder is not
 * empty yet, and is emptied again. Once it is gone, gnuplot can write nothing more. */
static void remove_nested(const char *path, int depth)
{
    enum { LOOKS = 20 };
    for (int i = 0; i < LOOKS && is_real_folder(path); i++) {
        empty_nested(path, depth);
        if (rmdir(path) == 0 || (errno != ENOTEMPTY && errno != EEXIST))
            break;
    }
}

static void empty_nested(const char *path, int depth)
{
    qk__names names;
    if (depth > MAX_NESTED || qk__list_dir(path, &names, NULL) != QK_OK)
        return;
    for (size_t i = 0; i < names.count; i++) {
        char *child = qk__path_join(path, names.items[i]);
        if (child && is_staging(names.items[i]) && is_real_folder(child))
            remove_nested(child, depth + 1);
        else if (child)
            unlink(child);
        free(child);
    }
    qk__names_free(&names);
}

void qk__remove_staging(const char *path)
{
    remove_nested(path, 0);
}

qk_status qk__remove_file(const char *folder, const char *name, qk_error *err)
{
    char *path = qk__path_join(folder, name);
    if (!path)
        return qk__nomem(err);
    qk_status status = QK_OK;
    if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR)
        status = qk__fail(err, QK_ERR_IO, "%s: cannot remove: %s", path, strerror(errno));
    free(path);
    return status;
}

static void remove_tree(const char *path, int depth)
{
    struct stat st;
    qk__names names = {0};
    if (lstat(path, &st) != 0)
        return;
    if (!S_ISDIR(st.st_mode)) {
        unlink(path);
        return;
    }
    if (depth < MAX_DEPTH && qk__list_dir(path, &names, NULL) == QK_OK)
        for (size_t i = 0; i < names.count; i++) {
            char *child = qk__path_join(path, names.items[i]);
            if (child)
                remove_tree(child, depth + 1);
            free(child);
        }
    qk__names_free(&names);
    rmdir(path);
}

void qk__remove_tree(const char *path)
{
    remove_tree(path, 0);
}

static qk_status sweep(const char *path, bool stagings, qk_error *err)
{
    qk__names names;
    QK_TRY(qk__list_dir(path, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++) {
        if (qk__temporary_stem(names.items[i]) > 0) {
            status = qk__remove_file(path, names.items[i], err);
        } else if (stagings && is_staging(names.items[i])) {
            char *staging = qk__path_join(path, names.items[i]);
            if (staging)
                remove_nested(staging, 0);
            free(staging);
        }
    }
    qk__names_free(&names);
    return status;
}

/* Whether someone else has the lock for longer than a moment: a program that a killed run was
 * just about to start (gnuplot) keeps the run's descriptors until it begins. */
static bool is_held(int lock, int how)
{
    enum { TRIES = 20 };
    const struct timespec moment = {.tv_nsec = 10 * 1000 * 1000};
    for (int i = 0; i < TRIES; i++) {
        /* some network file systems have no locks: then there is none */
        if (flock(lock, how | LOCK_NB) == 0 || errno != EWOULDBLOCK)
            return false;
        nanosleep(&moment, NULL);
    }
    return true;
}

/* Who only draws holds the folder of the figures, not the one above: nothing is swept then. */
static qk_status sweep_figures(const char *path, qk_error *err)
{
    int lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0)
        return QK_OK;
    qk_status status = is_held(lock, LOCK_EX) ? QK_OK : sweep(path, true, err);
    close(lock);
    return status;
}

qk_status qk__folder_sweep(const char *path, qk_error *err)
{
    char *figures = qk__path_join(path, "figures");
    if (!figures)
        return qk__nomem(err);
    qk_status status = qk__is_dir(path) ? sweep(path, false, err) : QK_OK;
    if (status == QK_OK)
        status = sweep_figures(figures, err);
    free(figures);
    return status;
}

/* ---- holding ---------------------------------------------------------------------------- */

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

/* Removes the folders that were made, from the innermost; one that holds something stays. */
static void remove_made(const qk__folder *folder)
{
    char *path = qk__strdup(folder->path);
    size_t length = path ? strlen(path) : 0;
    while (length > folder->was && rmdir(path) == 0) {
        length = parent_length(path, length);
        path[length] = 0;
    }
    free(path);
}

void qk__folder_release(qk__folder *folder)
{
    if (!folder->path)
        return;
    if (folder->lock >= 0) { /* else the folder is someone else's */
        remove_made(folder);
        close(folder->lock);
    }
    free(folder->path);
    *folder = (qk__folder){.lock = -1};
}

/* Whether an open folder is the one at a path. */
static bool is_folder_at(int lock, const char *path)
{
    struct stat held, found;
    return fstat(lock, &held) == 0 && stat(path, &found) == 0 && held.st_dev == found.st_dev &&
           held.st_ino == found.st_ino;
}

static qk_status fail_held(const char *path, qk_error *err)
{
    return qk__fail(err, QK_ERR_EXISTS,
                    "%s: another run is at work in this folder; wait for it to end, or choose "
                    "another folder",
                    path);
}

static qk_status lock(qk__folder *folder, int how, qk_error *err)
{
    folder->lock = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->lock < 0)
        return qk__fail(err, errno == ENOENT || errno == ENOTDIR ? QK_ERR_NOT_FOUND : QK_ERR_IO,
                        "%s: cannot open: %s", folder->path, strerror(errno));
    if (!is_held(folder->lock, how))
        return QK_OK;
    close(folder->lock);
    folder->lock = -1;
    return fail_held(folder->path, err);
}

static qk_status claim(qk__folder *folder, qk_error *err)
{
    enum { TRIES = 5 };
    for (int i = 0; i < TRIES; i++) {
        QK_TRY(qk__make_dirs(folder->path, err));
        QK_TRY(lock(folder, LOCK_EX, err));
        if (is_folder_at(folder->lock, folder->path)) /* else a run that failed removed it */
            break;
        close(folder->lock);
        folder->lock = -1;
    }
    /* before the work, not after it */
    if (access(folder->path, W_OK | X_OK) != 0)
        return qk__fail(err, QK_ERR_IO, "%s: cannot write in this folder: %s", folder->path,
                        strerror(errno));
    return QK_OK;
}

static qk_status begin(qk__folder *folder, const char *path, qk_error *err)
{
    *folder = (qk__folder){.lock = -1, .path = qk__strdup(path), .was = strlen(path)};
    return folder->path ? QK_OK : qk__nomem(err);
}

qk_status qk__folder_claim(qk__folder *folder, const char *path, qk_error *err)
{
    QK_TRY(begin(folder, path, err));
    char *copy = qk__strdup(path);
    if (copy)
        folder->was = existing_part(copy);
    free(copy);
    qk_status status = copy ? claim(folder, err) : qk__nomem(err);
    if (status != QK_OK)
        qk__folder_release(folder);
    return status;
}

qk_status qk__folder_watch(qk__folder *folder, const char *path, const qk__folder *own,
                           qk_error *err)
{
    QK_TRY(begin(folder, path, err));
    if (own && own->lock >= 0 && is_folder_at(own->lock, path))
        return QK_OK;
    qk_status status = lock(folder, LOCK_SH, err);
    if (status != QK_OK)
        qk__folder_release(folder);
    return status;
}

/* ---- what a killed run left where several may draw -------------------------------------- */

static bool is_staging_of(const char *file, const char *const *names, size_t count)
{
    for (size_t i = 0; is_staging(file) && i < count; i++) {
        size_t length = strlen(names[i]);
        if (strlen(file) == length + 8 && memcmp(file + 1, names[i], length) == 0)
            return true;
    }
    return false;
}

qk_status qk__folder_sweep_figures(qk__folder *folder, const char *const *names, size_t count,
                                   qk_error *err)
{
    if (folder->lock < 0)
        return QK_OK;
    qk__names found;
    if (flock(folder->lock, LOCK_EX | LOCK_NB) == 0 &&
        qk__list_dir(folder->path, &found, NULL) == QK_OK) {
        for (size_t i = 0; i < found.count; i++) {
            char *path = is_staging_of(found.items[i], names, count)
                             ? qk__path_join(folder->path, found.items[i])
                             : NULL;
            if (path)
                remove_nested(path, 0);
            free(path);
        }
        qk__names_free(&found);
    }
    /* flock may drop the lock that it could not make exclusive: take it again */
    return is_held(folder->lock, LOCK_SH) ? fail_held(folder->path, err) : QK_OK;
}
