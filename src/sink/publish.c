/* SPDX-License-Identifier: Apache-2.0 */
/* Finished captures take their place. What is to be replaced stays until then: the new captures
 * are moved beside the output folder, PARENT/.NAME.partial, and then the two folders change
 * names in one step, so that a reader finds the old or the new, whatever happens to this
 * process. Where that cannot be (a file system that has no such step, a mount point, files of
 * others in the folder) they are moved piece by piece, and all readers refuse the folder until
 * the last piece is there. */
#define _GNU_SOURCE /* renameat2 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "capture/capture.h"
#include "sink/place.h"
#include "sink/run_lock.h"
#include "sink/sink.h"

/* ---- beside the output folder ----------------------------------------------------------- */

/* "/path/.name.partial" of "/path/name"; NULL where there is nothing of the kind. */
static char *name_beside(const char *output)
{
    char *place = realpath(output, NULL);
    char *name = place ? strrchr(place, '/') : NULL;
    size_t size = place ? strlen(place) + sizeof "." QK__PARTIAL + 1 : 0;
    char *beside = name && name[1] ? malloc(size) : NULL;
    if (beside) {
        *name = 0;
        snprintf(beside, size, "%s/.%s." QK__PARTIAL, place, name + 1);
    }
    free(place);
    return beside;
}

bool qk__is_locked(const char *output)
{
    char *path = qk__path_join(output, "." QK__PARTIAL "/lock");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    bool locked =
        fd < 0 ? !path || (errno != ENOENT && errno != ENOTDIR) : qk__run_lock_is_taken(fd);
    if (fd >= 0)
        close(fd);
    free(path);
    return locked;
}

void qk__publish_sweep(const char *output)
{
    char *beside = name_beside(output);
    if (beside && qk__is_dir(beside) && !qk__is_locked(beside))
        qk__output_remove(beside);
    free(beside);
}

/* The new captures, not what was in the output folder before: that has a .partial. */
static bool is_new(const char *beside)
{
    char *partial = qk__path_join(beside, "." QK__PARTIAL);
    bool yes = partial && qk__is_dir(beside) && !qk__is_dir(partial);
    free(partial);
    return yes;
}

bool qk__publish_ready(const qk_sink *sink)
{
    char *beside = name_beside(sink->settings.output);
    bool ready = qk__is_dir(sink->fresh) || (beside && is_new(beside));
    free(beside);
    return ready;
}

/* ---- in one step ------------------------------------------------------------------------ */

static bool is_within(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* Not a folder that this process works in: it would find itself in the one that goes. And the
 * new one must have the owner and the rights of the old. */
static bool may_exchange(const char *output, const char *fresh)
{
    char *place = realpath(output, NULL);
    char *here = realpath(".", NULL);
    struct stat old, made;
    bool yes = place && here && !is_within(here, place) && stat(place, &old) == 0 &&
               stat(fresh, &made) == 0 && old.st_uid == made.st_uid &&
               old.st_gid == made.st_gid && qk__holds_captures_alone(place) &&
               (old.st_mode == made.st_mode || chmod(fresh, old.st_mode & 07777) == 0);
    free(place);
    free(here);
    return yes;
}

static bool exchange(const char *a, const char *b)
{
#ifdef RENAME_EXCHANGE
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0;
#else
    (void)a;
    (void)b;
    return false;
#endif
}

/* *done is false where it cannot be; the new captures are in .partial then. */
static qk_status publish_at_once(const qk_sink *sink, bool *done, qk_error *err)
{
    char *output = realpath(sink->settings.output, NULL);
    char *beside = name_beside(sink->settings.output);
    qk_status status = QK_OK;
    *done = false;
    if (output && beside) {
        if (qk__is_dir(sink->fresh)) {
            qk__publish_sweep(output);
            if (may_exchange(output, sink->fresh) && rename(sink->fresh, beside) == 0)
                *done = exchange(beside, output);
        } else if (may_exchange(output, beside)) {
            *done = exchange(beside, output);
        }
        if (*done)
            qk__output_remove(beside);
        else if (!qk__is_dir(sink->fresh) && rename(beside, sink->fresh) != 0)
            status = qk__fail(err, QK_ERR_IO, "%s: cannot move to %s: %s", beside, sink->fresh,
                              strerror(errno));
    }
    free(beside);
    free(output);
    return status;
}

/* ---- piece by piece --------------------------------------------------------------------- */

/* Makes way: old captures, of either form. Once, because what lies there later is ours. */
static qk_status clear_output(const qk_sink *sink, qk_error *err)
{
    const char *output = sink->settings.output;
    char *mark = qk__path_join(sink->partial, "cleared");
    if (!mark)
        return qk__nomem(err);
    qk_status status = QK_OK;
    if (!qk__is_file(mark)) {
        status = qk__each_capture(output, qk__capture_mark, err);
        if (status == QK_OK)
            status = qk__each_capture(output, qk__capture_remove, err);
        if (status == QK_OK)
            status = qk__write_file(mark, "", 0, err);
    }
    free(mark);
    return status;
}

static qk_status move_below(const char *from, const char *to, const char *name, qk_error *err)
{
    char *source = qk__path_join(from, name);
    char *target = qk__path_join(to, name);
    qk_status status = QK_OK;
    if (!source || !target)
        status = qk__nomem(err);
    else if (rename(source, target) != 0)
        status = qk__fail(err, QK_ERR_IO, "%s: cannot move to %s: %s", source, target,
                          strerror(errno));
    free(source);
    free(target);
    return status;
}

static qk_status move_parts(const char *from, const char *to, qk_error *err)
{
    qk__names names;
    QK_TRY(qk__make_dirs(to, err));
    qk__output_sweep(to);
    QK_TRY(qk__capture_mark(to, err));
    QK_TRY(qk__list_dir(from, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; status == QK_OK && i < names.count; i++)
        if (qk__is_part_of_capture(names.items[i]))
            status = move_below(from, to, names.items[i], err);
    qk__names_free(&names);
    return status;
}

/* What says that a capture is complete goes last, after the parts of both stages. */
static qk_status publish_pieces(const qk_sink *sink, bool manifests, qk_error *err)
{
    qk_status status = QK_OK;
    for (int stage = 0; status == QK_OK && stage < QK__STAGES; stage++) {
        if (!sink->stages[stage])
            continue;
        char *from = qk__stage_folder(sink, sink->fresh, stage);
        char *to = qk__stage_folder(sink, sink->settings.output, stage);
        char *manifest = from ? qk__path_join(from, QK_MANIFEST_NAME) : NULL;
        if (!manifest || !to)
            status = qk__nomem(err);
        else if (qk__is_file(manifest)) /* else it has moved before */
            status = manifests ? move_below(from, to, QK_MANIFEST_NAME, err)
                               : move_parts(from, to, err);
        free(manifest);
        free(from);
        free(to);
    }
    return status;
}

/* Whether there are captures that have not been made way for. */
static bool holds_old(const qk_sink *sink)
{
    char *mark = qk__path_join(sink->partial, "cleared");
    bool yes = mark && !qk__is_file(mark) && qk__holds_captures(sink->settings.output);
    free(mark);
    return yes;
}

qk_status qk__output_publish(qk_sink *sink, qk_error *err)
{
    bool done = false;
    if (sink->replaces && holds_old(sink))
        QK_TRY(publish_at_once(sink, &done, err));
    if (done)
        return QK_OK;
    if (!qk__is_dir(sink->fresh))
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: the finished capture is gone: run the command again", sink->fresh);
    if (sink->replaces)
        QK_TRY(clear_output(sink, err));
    QK_TRY(publish_pieces(sink, false, err));
    QK_TRY(publish_pieces(sink, true, err));
    qk__partial_drop(sink->settings.output);
    return QK_OK;
}
