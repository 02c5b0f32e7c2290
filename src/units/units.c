/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a run's units: making one beside its place, publishing it by a rename, removing
 * what is left of processes that are gone. */
#include "units/units.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"

#define MARK ".tmp-"
enum { MAX_DEPTH = 6 }; /* of folders in a unit */

static qk_status fail_errno(qk_error *err, const char *what, const char *path)
{
    return qk__fail(err, errno == ENOENT ? QK_ERR_NOT_FOUND : QK_ERR_IO, "%s: cannot %s: %s",
                    path, what, strerror(errno));
}

/* ---- trees ------------------------------------------------------------------------------ */

/* Calls see for the entries of a folder, then for itself. Links are not followed. */
typedef qk_status see_fn(const char *path, bool is_folder, qk_error *err);

static qk_status walk_tree(const char *path, see_fn *see, int depth, qk_error *err)
{
    qk__names names;
    if (depth > MAX_DEPTH)
        return qk__fail(err, QK_ERR_IO, "%s: folders lie too deep", path);
    QK_TRY(qk__list_dir(path, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++) {
        struct stat st;
        char *child = qk__path_join(path, names.items[i]);
        if (!child)
            status = qk__nomem(err);
        else if (lstat(child, &st) != 0)
            status = errno == ENOENT ? QK_OK : fail_errno(err, "look at", child);
        else if (S_ISDIR(st.st_mode))
            status = walk_tree(child, see, depth + 1, err);
        else
            status = see(child, false, err);
        free(child);
    }
    qk__names_free(&names);
    return status == QK_OK ? see(path, true, err) : status;
}

static qk_status remove_one(const char *path, bool is_folder, qk_error *err)
{
    if ((is_folder ? rmdir(path) : unlink(path)) == 0 || errno == ENOENT)
        return QK_OK;
    return fail_errno(err, "remove", path);
}

static qk_status sync_folder(const char *path, bool is_folder, qk_error *err)
{
    if (!is_folder)
        return QK_OK;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_DIRECTORY);
    if (fd < 0)
        return fail_errno(err, "open", path);
    /* some file systems cannot sync a folder */
    bool done = fsync(fd) == 0 || errno == EINVAL;
    qk_status status = done ? QK_OK : fail_errno(err, "sync", path);
    close(fd);
    return status;
}

/* A tree that another process is removing as well is fine. */
static qk_status remove_tree(const char *path, qk_error *err)
{
    qk_status status = walk_tree(path, remove_one, 0, err);
    return status == QK_ERR_NOT_FOUND ? QK_OK : status;
}

/* ---- names ------------------------------------------------------------------------------ */

static bool is_name(const char *text)
{
    return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789-_")] == 0;
}

/* "HOST-...-PID-START" of "l00k00.tmp-HOST-...-PID-START-0", in new memory; NULL for other
 * names. */
static char *owner_of(const char *name)
{
    const char *mark = strstr(name, MARK);
    char *owner = mark ? qk__strdup(mark + strlen(MARK)) : NULL;
    char *number = owner ? strrchr(owner, '-') : NULL;
    if (!number) {
        free(owner);
        return NULL;
    }
    *number = 0;
    return owner;
}

/* Makes "PATH.tmp-HOST-...-0", with the first number not taken; by whom, if not by mkdir: from a
 * folder that is moved there. */
static qk_status make_temporary(const char *path, const char *moved, char **temporary,
                                qk_error *err)
{
    char owner[QK__OWNER_SIZE];
    qk__owner_self(owner);
    for (unsigned n = 0;; n++) {
        char *name = qk__format("%s" MARK "%s-%u", path, owner, n);
        *temporary = NULL;
        if (!name)
            return qk__nomem(err);
        if ((moved ? rename(moved, name) : mkdir(name, 0777)) == 0) {
            *temporary = name;
            return QK_OK;
        }
        qk_status status = errno == EEXIST || errno == ENOTEMPTY
                               ? QK_OK
                               : fail_errno(err, moved ? "rename" : "create", name);
        free(name);
        QK_TRY(status);
    }
}

/* ---- a run ------------------------------------------------------------------------------ */

qk_status qk__units_open(qk__unit_folder *units, const char *folder, const char *run,
                         qk_error *err)
{
    *units = (qk__unit_folder){0};
    if (!is_name(run))
        return qk__fail(err, QK_ERR_ARGUMENT, "'%s' cannot be the name of a run's units", run);
    units->top = qk__path_join(folder, QK__UNITS_NAME);
    units->path = units->top ? qk__path_join(units->top, run) : NULL;
    if (units->path)
        return QK_OK;
    qk__units_close(units);
    return qk__nomem(err);
}

void qk__units_close(qk__unit_folder *units)
{
    free(units->top);
    free(units->path);
    *units = (qk__unit_folder){0};
}

qk_status qk__units_make(const qk__unit_folder *units, qk_error *err)
{
    return qk__make_dirs(units->path, err);
}

/* The names in a folder that are neither temporary nor of files. */
static qk_status list_units(const char *path, const char *other, qk__names *names,
                            qk_error *err)
{
    size_t kept = 0;
    *names = (qk__names){0};
    if (!qk__is_dir(path))
        return QK_OK;
    qk_status status = qk__list_dir(path, names, err);
    if (status != QK_OK) /* gone meanwhile: none */
        return status == QK_ERR_NOT_FOUND ? QK_OK : status;
    for (size_t i = 0; i < names->count; i++) {
        char *name = names->items[i];
        if (is_name(name) && strcmp(name, other) != 0)
            names->items[kept++] = name;
        else
            free(name);
    }
    names->count = kept;
    return QK_OK;
}

qk_status qk__units_runs(const char *folder, qk__names *runs, qk_error *err)
{
    char *top = qk__path_join(folder, QK__UNITS_NAME);
    qk_status status = top ? list_units(top, "", runs, err) : qk__nomem(err);
    free(top);
    return status;
}

qk_status qk__units_list(const qk__unit_folder *units, qk__names *names, qk_error *err)
{
    return list_units(units->path, "ranks", names, err);
}

static int compare_names(const void *key, const void *item)
{
    return strcmp(key, *(char *const *)item);
}

bool qk__names_have(const qk__names *names, const char *name)
{
    return names->count > 0 && bsearch(name, names->items, names->count, sizeof *names->items,
                                       compare_names) != NULL;
}

char *qk__units_path(const qk__unit_folder *units, const char *unit, const char *file)
{
    char *path = unit ? qk__path_join(units->path, unit) : qk__strdup(units->path);
    char *whole = path && file ? qk__path_join(path, file) : NULL;
    if (!file)
        return path;
    free(path);
    return whole;
}

/* ---- one unit --------------------------------------------------------------------------- */

qk_status qk__unit_begin(const qk__unit_folder *units, const char *unit, char **path,
                         qk_error *err)
{
    *path = NULL;
    if (!is_name(unit))
        return qk__fail(err, QK_ERR_ARGUMENT, "'%s' cannot be the name of a unit", unit);
    char *place = qk__units_path(units, unit, NULL);
    qk_status status = place ? make_temporary(place, NULL, path, err) : qk__nomem(err);
    free(place);
    return status;
}

qk_status qk__unit_publish(const qk__unit_folder *units, const char *unit, char **path,
                           qk_error *err)
{
    char *place = qk__units_path(units, unit, NULL);
    qk_status status = place ? walk_tree(*path, sync_folder, 0, err) : qk__nomem(err);
    if (status == QK_OK && rename(*path, place) == 0) {
        free(*path);
        *path = NULL;
    } else if (status == QK_OK && errno != EEXIST && errno != ENOTEMPTY) {
        status = fail_errno(err, "rename to its place", place);
    } /* else another process published the same */
    qk__unit_discard(path);
    free(place);
    return status;
}

void qk__unit_discard(char **path)
{
    if (*path && remove_tree(*path, NULL) != QK_OK) { /* the next sweep does it */
    }
    free(*path);
    *path = NULL;
}

/* ---- removing --------------------------------------------------------------------------- */

/* What is renamed first is gone for all who look, before it is empty. */
static qk_status remove_at_once(const char *path, qk_error *err)
{
    char *temporary;
    qk_status status = make_temporary(path, path, &temporary, err);
    if (status == QK_OK)
        status = remove_tree(temporary, err);
    else if (status == QK_ERR_NOT_FOUND) /* another process did it */
        status = QK_OK;
    free(temporary);
    return status;
}

qk_status qk__unit_remove(const qk__unit_folder *units, const char *unit, qk_error *err)
{
    char *path = qk__units_path(units, unit, NULL);
    qk_status status = path ? remove_at_once(path, err) : qk__nomem(err);
    free(path);
    return status;
}

qk_status qk__units_remove(const qk__unit_folder *units, qk_error *err)
{
    QK_TRY(remove_at_once(units->path, err));
    rmdir(units->top); /* of other runs there may be units */
    return QK_OK;
}

static qk_status sweep(const char *path, qk_error *err)
{
    qk__names names;
    if (!qk__is_dir(path))
        return QK_OK;
    qk_status status = qk__list_dir(path, &names, err);
    if (status != QK_OK)
        return status == QK_ERR_NOT_FOUND ? QK_OK : status;
    for (size_t i = 0; i < names.count && status == QK_OK; i++) {
        char *owner = owner_of(names.items[i]);
        char *child = owner ? qk__path_join(path, names.items[i]) : NULL;
        if (child && qk__owner_life(owner) == QK__LIFE_GONE)
            status =
                qk__is_dir(child) ? remove_tree(child, err) : remove_one(child, false, err);
        free(child);
        free(owner);
    }
    qk__names_free(&names);
    return status;
}

qk_status qk__units_sweep(const qk__unit_folder *units, qk_error *err)
{
    char *ranks = qk__units_path(units, "ranks", NULL);
    qk_status status = ranks ? sweep(units->top, err) : qk__nomem(err);
    if (status == QK_OK)
        status = sweep(units->path, err);
    if (status == QK_OK)
        status = sweep(ranks, err);
    free(ranks);
    return status;
}
