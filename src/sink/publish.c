/* SPDX-License-Identifier: Apache-2.0 */
/* Finished captures take their place. What is to be replaced stays until then: the new captures
 * are moved beside the output folder, PARENT/.NAME.partial, and then the two folders change
 * names in one step, so that a reader finds the old or the new, whatever happens to this
 * process. Where that cannot be (a file system that has no such step, a mount point, files of
 * others in the folder) they are moved piece by piece, and all readers refuse the folder until
 * the last piece is there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "capture/capture.h"
#include "sink/captures.h"
#include "sink/sink.h"

/* ---- beside the output folder ----------------------------------------------------------- */

void qk__publish_sweep(const char *output)
{
    int lock;
    char *beside = qk__place_beside(output, QK__PARTIAL);
    if (beside && qk__place_try(beside, &lock)) { /* else a run is putting it in its place */
        qk__output_remove(beside);
        close(lock);
    }
    free(beside);
}

/* The new captures, not what was in the output folder before: that has a .partial. */
static qk_status is_new(const char *beside, bool *yes, qk_error *err)
{
    bool partial;
    *yes = false;
    if (!qk__is_dir(beside))
        return QK_OK;
    QK_TRY(qk__look_below(beside, "." QK__PARTIAL, &partial, err));
    *yes = !partial;
    return QK_OK;
}

/* *beside is NULL where there is no such place. Without memory nobody knows what is there, and a
 * finished capture may be. */
static qk_status find_beside(const qk_sink *sink, char **beside, qk_error *err)
{
    errno = 0;
    *beside = qk__place_beside(sink->settings.output, QK__PARTIAL);
    return *beside || errno != ENOMEM ? QK_OK : qk__nomem(err);
}

qk_status qk__publish_ready(const qk_sink *sink, bool *ready, qk_error *err)
{
    char *beside;
    *ready = qk__is_dir(sink->fresh);
    if (*ready)
        return QK_OK;
    QK_TRY(find_beside(sink, &beside, err));
    qk_status status = beside ? is_new(beside, ready, err) : QK_OK;
    free(beside);
    return status;
}

/* ---- in one step ------------------------------------------------------------------------ */

/* *done is false where it cannot be; the new captures are in .partial then. */
static qk_status publish_at_once(qk_sink *sink, bool *done, qk_error *err)
{
    const char *output = sink->settings.output;
    char *beside;
    *done = false;
    qk_status status = find_beside(sink, &beside, err);
    if (beside && qk__holds_captures_alone(output)) {
        bool fresh = qk__is_dir(sink->fresh); /* else a run was killed before the last step */
        if (fresh)
            qk__publish_sweep(output);
        status = qk__place_exchange(&sink->place, fresh ? sink->fresh : beside, beside, true,
                                    done, err);
        if (*done)
            qk__output_remove(beside);
    }
    if (beside && status == QK_OK && !*done && !qk__is_dir(sink->fresh) &&
        rename(beside, sink->fresh) != 0)
        status = qk__fail(err, QK_ERR_IO, "%s: cannot move to %s: %s", beside, sink->fresh,
                          strerror(errno));
    free(beside);
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

static qk_status move_parts(const char *output, int place, const char *from, const char *to,
                            qk_error *err)
{
    qk__names names;
    QK_TRY(qk__make_below(output, qk__place_name(place), err));
    qk__output_sweep(output, qk__place_name(place));
    QK_TRY(qk__capture_mark(output, place, err));
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
    bool both = sink->stages[QK__POST] && sink->stages[QK__PRE];
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
                               : move_parts(sink->settings.output, both ? 1 + stage : 0, from,
                                            to, err);
        free(manifest);
        free(from);
        free(to);
    }
    return status;
}

/* Whether there are captures that have not been made way for. */
static bool holds_old(const qk_sink *sink)
{
    return !qk__is_file_in(sink->partial, "cleared") &&
           qk__holds_captures(sink->settings.output);
}

qk_status qk__output_publish(qk_sink *sink, qk_error *err)
{
    bool done = false, old = sink->replaces && holds_old(sink);
    if (old) /* again: something may have come while the run was at work */
        QK_TRY(qk__check_strangers(sink->settings.output, err));
    if (old)
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
