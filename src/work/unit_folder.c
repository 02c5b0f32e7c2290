/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a run's units: making one beside its place, publishing it by a rename, removing
 * what is left of processes that are gone. */
#include "work/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/folder.h"

#define MARK ".tmp-"

static qk_status fail_errno(qk_error *err, const char *what, const char *path)
{
    return qk__fail(err, errno == ENOENT ? QK_ERR_NOT_FOUND : QK_ERR_IO, "%s: cannot %s: %s",
                    path, what, strerror(errno));
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
    bool there;
    units->folder = qk__strdup(folder);
    units->name = qk__format("%s/%s", QK__UNITS_NAME, run);
    units->path = units->name ? qk__path_join(folder, units->name) : NULL;
    qk_status status = units->folder && units->path
                           ? qk__look_below(folder, units->name, &there, err)
                           : qk__nomem(err);
    if (status != QK_OK)
        qk__units_close(units);
    return status;
}

void qk__units_close(qk__unit_folder *units)
{
    free(units->folder);
    free(units->name);
    free(units->path);
    *units = (qk__unit_folder){0};
}

qk_status qk__units_make(const qk__unit_folder *units, qk_error *err)
{
    QK_TRY(qk__make_dirs(units->folder, err));
    return qk__make_below(units->folder, units->name, err);
}

/* The names in a folder that are neither temporary nor of files: of runs, or of a run's sealed units. */
static qk_status list_names(const char *path, const qk__unit_folder *run, qk__names *names,
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
        if (is_name(name) && (!run || qk__unit_is_sealed(run, name)))
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
    qk_status status = top ? list_names(top, NULL, runs, err) : qk__nomem(err);
    free(top);
    return status;
}

qk_status qk__units_list(const qk__unit_folder *units, qk__names *names, qk_error *err)
{
    return list_names(units->path, units, names, err);
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

void qk__unit_discard(char **path)
{
    if (*path) /* what stays is swept later */
        qk__remove_tree(*path);
    free(*path);
    *path = NULL;
}

/* ---- removing --------------------------------------------------------------------------- */

/* What is renamed is gone for all who look, before it is empty. What of it cannot be removed is nothing to
 * fail for: the work is done, and the next sweep tries again. unit: NULL: all of them. */
qk_status qk__unit_remove(const qk__unit_folder *units, const char *unit, qk_error *err)
{
    char *temporary = NULL, *path = qk__units_path(units, unit, NULL);
    qk_status status = path ? make_temporary(path, path, &temporary, err) : qk__nomem(err);
    if (status == QK_OK) {
        const char *below = temporary + (strlen(units->path) - strlen(units->name));
        if (qk__remove_below(units->folder, below, NULL) !=
            QK_OK) { /* the next sweep does it */
        }
    }
    free(temporary);
    free(path);
    return status == QK_ERR_NOT_FOUND ? QK_OK : status; /* another process did it */
}

/* Gives a unit its name. One that another process published is the same; one without a seal is
 * nothing to rely on. */
static qk_status give_name(const qk__unit_folder *units, const char *unit, const char *path,
                           bool *given, qk_error *err)
{
    char *place = qk__units_path(units, unit, NULL);
    qk_status status = place ? QK_OK : qk__nomem(err);
    *given = false;
    for (int tries = 0; status == QK_OK && !*given && tries < 2; tries++) {
        *given = rename(path, place) == 0;
        if (!*given && errno != EEXIST && errno != ENOTEMPTY)
            status = fail_errno(err, "rename to its place", place);
        else if (!*given && qk__unit_is_sealed(units, unit))
            break;
        else if (!*given)
            status = qk__unit_remove(units, unit, err);
    }
    free(place);
    return status;
}

qk_status qk__unit_publish(const qk__unit_folder *units, const char *unit, char **path,
                           qk_error *err)
{
    bool given = false;
    qk_status status = qk__unit_seal(units, unit, *path, err);
    if (status == QK_OK)
        status = qk__sync_tree(*path, err);
    if (status == QK_OK)
        status = give_name(units, unit, *path, &given, err);
    if (given) {
        free(*path);
        *path = NULL;
    }
    qk__unit_discard(path);
    return status;
}

qk_status qk__unit_put(const qk__unit_folder *units, const char *unit, qk__fill_unit_fn *fill,
                       void *context, qk_error *err)
{
    char *folder;
    QK_TRY(qk__unit_begin(units, unit, &folder, err));
    qk_status status = fill(context, folder, err);
    if (status == QK_OK)
        return qk__unit_publish(units, unit, &folder, err);
    qk__unit_discard(&folder);
    return status;
}

qk_status qk__units_remove(const qk__unit_folder *units, qk_error *err)
{
    QK_TRY(qk__unit_remove(units, NULL, err));
    char *top = qk__path_join(units->folder, QK__UNITS_NAME);
    if (top)
        rmdir(top); /* of other runs there may be units */
    free(top);
    return QK_OK;
}

static bool is_gone(const char *name, const void *context)
{
    (void)context;
    char *owner = owner_of(name);
    bool gone = owner && qk__owner_life(owner) == QK__LIFE_GONE;
    free(owner);
    return gone;
}

qk_status qk__units_sweep(const qk__unit_folder *units, qk_error *err)
{
    char *ranks = qk__path_join(units->name, "ranks");
    qk_status status = ranks ? QK_OK : qk__nomem(err);
    const char *const folders[] = {QK__UNITS_NAME, units->name, ranks};
    for (size_t i = 0; i < sizeof folders / sizeof *folders && status == QK_OK; i++)
        status = qk__empty_below(units->folder, folders[i], is_gone, NULL, err);
    free(ranks);
    return status;
}
