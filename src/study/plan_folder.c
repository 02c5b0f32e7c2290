/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a study: whose it is, that one run at a time writes there, what a killed run
 * left. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/leftover.h"
#include "study/json.h"
#include "study/plan.h"

qk_status qk__remove_file(const char *folder, const char *name, qk_error *err)
{
    char *path = qk__path_join(folder, name);
    if (!path)
        return qk__nomem(err);
    qk_status status = QK_OK;
    if (unlink(path) != 0 && errno != ENOENT)
        status = qk__fail(err, QK_ERR_IO, "%s: cannot remove: %s", path, strerror(errno));
    free(path);
    return status;
}

/* ---- what a killed run left ------------------------------------------------------------ */

static qk_status remove_leftovers(const char *folder, qk_error *err)
{
    qk_names names;
    if (!qk__is_dir(folder))
        return QK_OK;
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++)
        if (qk__temporary_stem(names.items[i]) > 0)
            status = qk__remove_file(folder, names.items[i], err);
    qk__names_free(&names);
    return status;
}

/* ".NAME.ab12CD", the folder in which a figure is drawn. Links are not followed. */
static bool is_staging(const char *name)
{
    size_t length = strlen(name);
    return length > 8 && name[0] == '.' && name[length - 7] == '.';
}

static qk_status remove_staging(const char *folder, const char *name, qk_error *err)
{
    qk_names names = {0};
    char *path = qk__path_join(folder, name);
    struct stat st;
    if (!path)
        return qk__nomem(err);
    qk_status status = QK_OK;
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        status = qk__list_dir(path, &names, err);
        for (size_t i = 0; i < names.count && status == QK_OK; i++)
            status = qk__remove_file(path, names.items[i], err);
        if (status == QK_OK)
            rmdir(path);
    }
    qk__names_free(&names);
    free(path);
    return status;
}

static qk_status remove_stagings(const char *folder, qk_error *err)
{
    qk_names names;
    if (!qk__is_dir(folder))
        return QK_OK;
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++)
        if (is_staging(names.items[i]))
            status = remove_staging(folder, names.items[i], err);
    qk__names_free(&names);
    return status;
}

static qk_status clean(const qk__plan_work *work, qk_error *err)
{
    QK_TRY(remove_leftovers(work->run->output, err));
    QK_TRY(remove_leftovers(work->figures, err));
    QK_TRY(remove_stagings(work->figures, err));
    for (size_t i = 0; i < work->plan->num_models; i++)
        QK_TRY(remove_leftovers(work->folders[i], err));
    return QK_OK;
}

/* ---- whose folder it is ---------------------------------------------------------------- */

static bool is_study(const char *folder)
{
    char *path = qk__path_join(folder, "manifest.json");
    json_t *root = path ? qk__json_read(path) : NULL;
    const char *kind = json_string_value(json_object_get(root, "kind"));
    bool is = kind && strcmp(kind, "study") == 0;
    json_decref(root);
    free(path);
    return is;
}

static qk_status check_owner(const char *folder, bool force, qk_error *err)
{
    qk_names names;
    if (force || is_study(folder))
        return QK_OK;
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++)
        if (qk__temporary_stem(names.items[i]) == 0)
            status = qk__fail(err, QK_ERR_EXISTS,
                              "%s: holds other things than a study (%s); choose another "
                              "folder, or --force to write here nevertheless",
                              folder, names.items[i]);
    qk__names_free(&names);
    return status;
}

/* The kernel drops the lock when the process ends, however it ends. */
static qk_status lock(qk__plan_work *work, qk_error *err)
{
    const char *folder = work->run->output;
    work->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (work->lock < 0)
        return qk__fail(err, QK_ERR_IO, "%s: cannot open: %s", folder, strerror(errno));
    if (flock(work->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return qk__fail(err, QK_ERR_EXISTS, "%s: another run of a study is at work here",
                        folder);
    return QK_OK; /* some network file systems have no locks: then there is none */
}

qk_status qk__plan_claim_folder(qk__plan_work *work, qk_error *err)
{
    QK_TRY(qk__make_dirs(work->run->output, err));
    QK_TRY(lock(work, err));
    QK_TRY(check_owner(work->run->output, work->run->force, err));
    return clean(work, err);
}

void qk__plan_release_folder(qk__plan_work *work)
{
    if (work->lock >= 0)
        close(work->lock);
    work->lock = -1;
}
