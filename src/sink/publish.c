/* SPDX-License-Identifier: Apache-2.0 */
/* Puts finished captures into their place. What they replace stays until then: the new captures are moved beside the
 * output folder, PARENT/.NAME.partial, and then the two folders change names in one step, so that a reader finds the
 * old or the new, even if this process is killed. Where that is impossible (the file system has no such step, the
 * folder is a mount point or has files of others) they are moved piece by piece, and all readers refuse the folder
 * until the last piece is there. */
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
    if (beside && qk__place_try(beside, &lock)) { /* else a run is moving it into place */
        qk__output_remove(beside);
        close(lock);
    }
    free(beside);
}

/* ---- in one step ------------------------------------------------------------------------ */

/* *done is false where it cannot be done; then the new captures are in .partial. */
static qk_status publish_at_once(qk_sink *sink, bool *done, qk_error *err)
{
    const char *output = sink->settings.output;
    *done = false;
    errno = 0;
    char *beside = qk__place_beside(output, QK__PARTIAL);
    if (!beside) /* there is no such place */
        return errno == ENOMEM ? qk__nomem(err) : QK_OK;
    qk__publish_sweep(output);
    qk_status status = qk__place_exchange(&sink->place, sink->fresh, beside, true, done, err);
    if (*done)
        qk__output_remove(beside);
    else if (status == QK_OK && !qk__is_dir(sink->fresh) && rename(beside, sink->fresh) != 0)
        status = qk__fail(err, QK_ERR_IO, "%s: cannot move to %s: %s", beside, sink->fresh,
                          strerror(errno));
    free(beside);
    return status;
}

/* ---- piece by piece --------------------------------------------------------------------- */

/* Makes way: removes old captures, of either form, and parts of this one that a killed run moved. */
static qk_status clear_output(const char *output, qk_error *err)
{
    QK_TRY(qk__each_capture(output, qk__capture_mark, err));
    return qk__each_capture(output, qk__capture_remove, err);
}

/* Without leave to replace, all that is there must be of this run, killed while it moved its parts. */
static qk_status check_own(const qk_sink *sink, qk_error *err)
{
    const bool both = sink->stages[QK__POST] && sink->stages[QK__PRE];
    qk_status status = QK_OK;
    for (int i = 0; status == QK_OK && i < QK__PLACES; i++) {
        char *folder = qk__place_folder(sink->settings.output, i);
        if (!folder)
            return qk__nomem(err);
        bool own = both == (i > 0) &&
                   (qk__is_changing(folder) || qk__is_capture_of(folder, sink->fingerprint));
        if (qk__holds_capture(folder) && !own)
            status = qk__fail(err, QK_ERR_EXISTS,
                              "%s: another capture came here while this one was made: move it "
                              "away and run the command again",
                              folder);
        free(folder);
    }
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

/* capture.json says that a capture is complete, so it goes last, after the parts of both stages. */
static qk_status publish_pieces(const qk_sink *sink, bool manifests, qk_error *err)
{
    bool both = sink->stages[QK__POST] && sink->stages[QK__PRE];
    qk_status status = QK_OK;
    for (int stage = 0; status == QK_OK && stage < QK__STAGES; stage++) {
        if (!sink->stages[stage])
            continue;
        char *from = qk__stage_folder(sink, sink->fresh, stage);
        char *to = qk__stage_folder(sink, sink->settings.output, stage);
        if (!from || !to)
            status = qk__nomem(err);
        else
            status = manifests ? move_below(from, to, QK_MANIFEST_NAME, err)
                               : move_parts(sink->settings.output, both ? 1 + stage : 0, from,
                                            to, err);
        free(from);
        free(to);
    }
    return status;
}

qk_status qk__output_publish(qk_sink *sink, qk_error *err)
{
    bool done = false, alone = true;
    const char *output = sink->settings.output;
    const bool old = qk__holds_captures(output);
    if (old) /* again: files may have come while the run worked */
        QK_TRY(qk__check_strangers(output, &alone, err));
    if (old && sink->replaces && alone)
        QK_TRY(publish_at_once(sink, &done, err));
    if (done)
        return QK_OK;
    if (old && !sink->replaces)
        QK_TRY(check_own(sink, err));
    if (old)
        QK_TRY(clear_output(output, err));
    QK_TRY(publish_pieces(sink, false, err));
    QK_TRY(publish_pieces(sink, true, err));
    qk__partial_drop(output);
    return QK_OK;
}
