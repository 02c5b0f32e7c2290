/* SPDX-License-Identifier: Apache-2.0 */
/* A folder takes the place of another in one step, so that a reader finds the old or the new,
 * whatever happens to this process. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/system.h"
#include "work/place.h"

char *qk__place_beside(const char *path, const char *word)
{
    char *place = realpath(path, NULL), *beside = NULL;
    char *name = place ? strrchr(place, '/') : NULL;
    if (name && name[1])
        beside = qk__format("%.*s/.%s.%s", (int)(name - place), place, name + 1, word);
    free(place);
    return beside;
}

static bool is_within(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* Whether the current folder of this process is this one or lies in it: it must not go away. */
static bool is_here(const char *path)
{
    char *place = realpath(path, NULL), *here = realpath(".", NULL);
    bool yes = !place || !here || is_within(here, place);
    free(place);
    free(here);
    return yes;
}

/* The new folder gets owner and rights of the old one: chown takes bits away, so it comes first. */
static bool give_rights(int to, int from)
{
    struct stat old, made;
    if (fstat(from, &old) != 0 || fstat(to, &made) != 0)
        return false;
    if ((old.st_uid != made.st_uid || old.st_gid != made.st_gid) &&
        fchown(to, old.st_uid, old.st_gid) != 0)
        return false;
    return fchmod(to, old.st_mode & 07777) == 0;
}

/* An empty folder gives way to the new one, a full one changes names with it. */
static bool exchange(const char *made, const char *place, bool replaces)
{
    if (rename(made, place) == 0)
        return true;
    return replaces && (errno == ENOTEMPTY || errno == EEXIST) &&
           qk__exchange_names(made, place) == 0;
}

static qk_status move_back(const char *beside, const char *made, qk_error *err)
{
    int why = errno;
    if (strcmp(made, beside) != 0 && rename(beside, made) != 0)
        return qk__fail(err, QK_ERR_IO, "%s: cannot move to %s: %s", beside, made,
                        strerror(errno));
    errno = why;
    return QK_OK;
}

/* `fresh` is the open folder `made`, locked: whoever sees it beside leaves it alone. */
static qk_status exchange_open(qk__hold *place, int fresh, const char *made, const char *beside,
                               bool replaces, bool *done, qk_error *err)
{
    char *output = realpath(place->path, NULL);
    bool moves = strcmp(made, beside) != 0;
    if (!output)
        return qk__nomem(err);
    qk_status status = QK_OK;
    errno = EBUSY;
    if (qk__place_is_there(place) && !is_here(output) && give_rights(fresh, place->lock) &&
        (!moves || rename(made, beside) == 0)) {
        *done = exchange(beside, output, replaces);
        if (!*done)
            status = move_back(beside, made, err);
    }
    int why = errno;
    free(output);
    errno = why;
    return status;
}

qk_status qk__place_exchange(qk__hold *place, const char *made, const char *beside,
                             bool replaces, bool *done, qk_error *err)
{
    int fresh;
    *done = false;
    if (!qk__place_try(made, &fresh))
        return qk__fail(err, QK_ERR_IO, "%s: cannot open: %s", made, strerror(errno));
    qk_status status = exchange_open(place, fresh, made, beside, replaces, done, err);
    int why = errno;
    if (*done) {
        int old = place->lock;
        place->lock = fresh;
        fresh = old;
    }
    close(fresh);
    errno = why;
    return status;
}
