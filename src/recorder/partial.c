/* SPDX-License-Identifier: Apache-2.0 */
/* OUTPUT/.partial: taken by one process at a time, emptied, removed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "recorder/place.h"
#include "recorder/recording.h"

/* Locking a file that is gone by then is tried so often. */
enum { MAX_LOCK_TRIES = 10 };

/* Whether the file that is locked is the one others will find. */
static bool is_in_place(int fd, const char *path)
{
    struct stat locked;
    struct stat found;
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
qk_status qk__partial_lock(qk__recording *r, qk_error *err)
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

void qk__partial_clear(const qk__recording *r)
{
    qk__names names;
    if (qk__list_dir(r->partial, &names, NULL) != QK_OK)
        return;
    qk__remove_below(r->partial, "journal.json"); /* first: the rest is nothing without it */
    for (size_t i = 0; i < names.count; i++)
        if (strcmp(names.items[i], "lock") != 0)
            qk__remove_below(r->partial, names.items[i]);
    qk__names_free(&names);
}

void qk__partial_drop(const qk__recording *r)
{
    qk__partial_clear(r);
    qk__remove_below(r->settings->output, "." QK__PARTIAL);
}
