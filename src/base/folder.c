/* SPDX-License-Identifier: Apache-2.0 */
/* Making, listing and removing below a folder, by descriptors of the folders on the way. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/system.h"

enum { MAX_DEPTH = 100, OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_CLOEXEC };

static qk_status fail_errno(qk_error *err, const char *what, const char *path)
{
    return qk__fail(err, errno == ENOENT ? QK_ERR_NOT_FOUND : QK_ERR_IO, "%s: cannot %s: %s",
                    path, what, strerror(errno));
}

/* ---- names ------------------------------------------------------------------------------ */

size_t qk__temporary_stem(const char *name)
{
    static const char DIGITS[] = "0123456789";
    const char *mark = NULL;
    for (const char *p = name; (p = strstr(p, QK__TEMPORARY)); p++)
        mark = p;
    if (!mark)
        return 0;
    const char *p = mark + strlen(QK__TEMPORARY);
    size_t process = strspn(p, DIGITS);
    size_t number = p[process] == '-' ? strspn(p + process + 1, DIGITS) : 0;
    bool whole = process > 0 && number > 0 && p[process + 1 + number] == 0;
    return whole ? (size_t)(mark - name) : 0;
}

#define STAGED ".qkscope-"

size_t qk__staging_stem(const char *name)
{
    size_t length = strlen(name), ending = strlen(STAGED "XXXXXX");
    bool whole = length > ending + 1 && name[0] == '.' &&
                 memcmp(name + length - ending, STAGED, strlen(STAGED)) == 0;
    return whole ? length - ending - 1 : 0;
}

/* ---- down to a folder ------------------------------------------------------------------- */

/* Says what openat and mkdirat left in errno, about `path`. */
static qk_status fail_step(const char *path, int at, const char *name, bool make, qk_error *err)
{
    int why = errno;
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode))
        return qk__fail(err, QK_ERR_EXISTS,
                        S_ISLNK(st.st_mode)
                            ? "%s: is a link, and links are not followed below an output "
                              "folder: remove it, or choose another folder"
                            : "%s: exists and is not a folder",
                        path);
    errno = why;
    return fail_errno(err, make ? "create folder" : "open folder", path);
}

static qk_status open_top(const char *top, int *fd, qk_error *err)
{
    *fd = open(top, OPEN_FOLDER);
    return *fd >= 0 ? QK_OK : fail_errno(err, "open folder", top);
}

/* Opens TOP/NAME, `length` bytes of NAME. QK_ERR_NOT_FOUND: not there, and not to be made. */
static qk_status open_below(const char *top, const char *name, size_t length, bool make,
                            int *fd, qk_error *err)
{
    QK_TRY(open_top(top, fd, err));
    char *way = strndup(name, length);
    qk_status status = way ? QK_OK : qk__nomem(err);
    for (char *step = way; status == QK_OK && *step;) {
        char *end = step + strcspn(step, "/");
        char rest = *end;
        *end = 0;
        if (make && mkdirat(*fd, step, 0777) != 0 && errno != EEXIST)
            status = QK_ERR_IO;
        int next = status == QK_OK ? openat(*fd, step, OPEN_FOLDER | O_NOFOLLOW) : -1;
        if (next < 0) {
            int why = errno;
            char *path = qk__path_join(top, way);
            errno = why;
            status = path ? fail_step(path, *fd, step, make, err) : qk__nomem(err);
            free(path);
        }
        close(*fd);
        *fd = next;
        *end = rest;
        step = rest ? end + 1 : end;
    }
    if (status != QK_OK && *fd >= 0)
        close(*fd);
    free(way);
    return status;
}

/* *fd is -1 where it is not there. */
static qk_status find_below(const char *top, const char *name, size_t length, int *fd,
                            qk_error *err)
{
    qk_error why = {0};
    qk_status status = open_below(top, name, length, false, fd, &why);
    if (status == QK_OK)
        return QK_OK;
    *fd = -1;
    if (status == QK_ERR_NOT_FOUND)
        return QK_OK;
    if (err)
        *err = why;
    return status;
}

qk_status qk__look_below(const char *top, const char *name, bool *there, qk_error *err)
{
    int fd;
    QK_TRY(find_below(top, name, strlen(name), &fd, err));
    *there = fd >= 0;
    if (fd >= 0)
        close(fd);
    return QK_OK;
}

qk_status qk__make_below(const char *top, const char *name, qk_error *err)
{
    int fd;
    QK_TRY(open_below(top, name, strlen(name), true, &fd, err));
    close(fd);
    return QK_OK;
}

qk_status qk__stage_below(const char *top, const char *name, const char *word, char **path,
                          qk_error *err)
{
    *path = NULL;
    QK_TRY(qk__make_below(top, name, err));
    char *folder = *name ? qk__path_join(top, name) : qk__strdup(top);
    char *staging = folder ? qk__format("%s/.%s" STAGED "XXXXXX", folder, word) : NULL;
    qk_status status = staging ? QK_OK : qk__nomem(err);
    if (status == QK_OK && !mkdtemp(staging))
        status = qk__fail(err, QK_ERR_IO, "%s: cannot write in this folder: %s", folder,
                          strerror(errno));
    if (status == QK_OK)
        *path = staging;
    else
        free(staging);
    free(folder);
    return status;
}

/* ---- folders and all in them ------------------------------------------------------------ */

/* Is called for the contents of a folder, then for the folder; folder: its descriptor, -1 for a file or a folder that
 * is not entered. */
typedef qk_status see_fn(int at, const char *name, const char *path, int folder, qk_error *err);

typedef struct walk {
    see_fn *see;
    size_t (*enters)(const char *name); /* NULL: every folder */
} walk;

static qk_status walk_at(const walk *w, int at, const char *name, const char *path, int depth,
                         qk_error *err);

/* Visits all, and returns the first failure. */
static qk_status walk_names(const walk *w, int fd, const char *path, const qk__names *names,
                            int depth, qk_error *err)
{
    qk_status first = QK_OK;
    for (size_t i = 0; i < names->count; i++) {
        char *child = qk__path_join(path, names->items[i]);
        qk_status status =
            child ? walk_at(w, fd, names->items[i], child, depth, first == QK_OK ? err : NULL)
                  : qk__nomem(first == QK_OK ? err : NULL);
        first = first == QK_OK ? status : first;
        free(child);
    }
    return first;
}

static qk_status walk_at(const walk *w, int at, const char *name, const char *path, int depth,
                         qk_error *err)
{
    qk__names names;
    if (depth > MAX_DEPTH)
        return qk__fail(err, QK_ERR_IO, "%s: folders lie too deep", path);
    bool enters = depth == 0 || !w->enters || w->enters(name);
    int fd = enters ? openat(at, name, OPEN_FOLDER | O_NOFOLLOW) : -1;
    if (fd < 0)
        return enters && errno == ENOENT ? QK_OK : w->see(at, name, path, -1, err);
    qk_status status = qk__list_open(fd, path, &names, err);
    if (status == QK_OK) {
        status = walk_names(w, fd, path, &names, depth + 1, err);
        qk__names_free(&names);
    }
    if (status == QK_OK)
        status = w->see(at, name, path, fd, err);
    close(fd);
    return status;
}

static qk_status remove_one(int at, const char *name, const char *path, int folder,
                            qk_error *err)
{
    if (unlinkat(at, name, folder >= 0 ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT)
        return QK_OK;
    if (errno == EISDIR || errno == EPERM) /* a folder that could not be opened may be empty */
        if (folder < 0 && unlinkat(at, name, AT_REMOVEDIR) == 0)
            return QK_OK;
    bool filled = errno == ENOTEMPTY || errno == EEXIST;
    qk_status status = fail_errno(err, "remove", path);
    return filled && folder >= 0 ? QK_ERR_EXISTS : status;
}

/* A program that outlives its run (rsvg-convert), or another process, may write there meanwhile: then the folder is
 * not empty, and is emptied again. Once it is removed, nobody writes into it. */
static qk_status remove_at(const walk *w, int at, const char *name, const char *path,
                           qk_error *err)
{
    enum { LOOKS = 20 };
    qk_status status = QK_ERR_EXISTS;
    for (int i = 0; i < LOOKS && status == QK_ERR_EXISTS; i++)
        status = walk_at(w, at, name, path, 0, err);
    return status == QK_ERR_EXISTS ? QK_ERR_IO : status;
}

static const walk REMOVING = {remove_one, NULL},
                  REMOVING_STAGING = {remove_one, qk__staging_stem};

void qk__remove_staging(const char *path)
{
    if (remove_at(&REMOVING_STAGING, AT_FDCWD, path, path, NULL) != QK_OK) { /* it stays */
    }
}

qk_status qk__remove_below(const char *top, const char *name, qk_error *err)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    int fd;
    QK_TRY(find_below(top, name, slash ? (size_t)(slash - name) : 0, &fd, err));
    if (fd < 0)
        return QK_OK;
    char *path = qk__path_join(top, name);
    qk_status status = path ? remove_at(&REMOVING, fd, last, path, err) : qk__nomem(err);
    free(path);
    close(fd);
    return status;
}

static qk_status empty_open(int fd, const char *path, qk__choose_name *choose,
                            const void *context, qk_error *err)
{
    qk__names names;
    QK_TRY(qk__list_open(fd, path, &names, err));
    qk_status first = QK_OK;
    for (size_t i = 0; i < names.count; i++) {
        if (!choose(names.items[i], context))
            continue;
        const walk *w = qk__staging_stem(names.items[i]) ? &REMOVING_STAGING : &REMOVING;
        char *child = qk__path_join(path, names.items[i]);
        qk_error *where = first == QK_OK ? err : NULL;
        qk_status status =
            child ? remove_at(w, fd, names.items[i], child, where) : qk__nomem(where);
        first = first == QK_OK ? status : first;
        free(child);
    }
    qk__names_free(&names);
    return first;
}

qk_status qk__empty_below(const char *top, const char *name, qk__choose_name *choose,
                          const void *context, qk_error *err)
{
    int fd;
    QK_TRY(find_below(top, name, strlen(name), &fd, err));
    if (fd < 0)
        return QK_OK;
    char *path = *name ? qk__path_join(top, name) : qk__strdup(top);
    qk_status status = path ? empty_open(fd, path, choose, context, err) : qk__nomem(err);
    free(path);
    close(fd);
    return status;
}

qk_status qk__remove_file(const char *folder, const char *name, qk_error *err)
{
    char *path = qk__path_join(folder, name);
    if (!path)
        return qk__nomem(err);
    qk_status status = QK_OK;
    if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR)
        status = fail_errno(err, "remove", path);
    free(path);
    return status;
}
