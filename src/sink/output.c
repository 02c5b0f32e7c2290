/* SPDX-License-Identifier: Apache-2.0 */
/* Decides what a run may do with its output folder. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "capture/capture.h"
#include "sink/captures.h"
#include "sink/run_file.h"
#include "sink/sink.h"

/* ---- what is there ---------------------------------------------------------------------- */

bool qk__is_complete(const qk_sink *sink)
{
    bool yes = true;
    for (int stage = 0; stage < QK__STAGES; stage++) {
        char *folder = qk__stage_folder(sink, sink->settings.output, stage);
        yes &= !sink->stages[stage] || (folder && qk__is_capture_of(folder, sink->fingerprint));
        free(folder);
    }
    return yes;
}

/* Checks that the finished run's files are still there. */
static qk_status check_whole(const qk_sink *sink, qk_error *err)
{
    qk_status status = QK_OK;
    for (int stage = 0; status == QK_OK && stage < QK__STAGES; stage++) {
        if (!sink->stages[stage])
            continue;
        char *folder = qk__stage_folder(sink, sink->settings.output, stage);
        status = folder ? qk__capture_check_whole(folder, err) : qk__nomem(err);
        free(folder);
    }
    return status;
}

/* Counts what lies in the output folder besides .partial. */
static qk_status count_others(const char *output, size_t *others, bool *partial, qk_error *err)
{
    qk__names names = {0};
    *others = 0;
    *partial = false;
    struct stat st;
    if (stat(output, &st) != 0 && errno == ENOENT)
        return QK_OK;
    QK_TRY(qk__list_dir(output, &names, err));
    for (size_t i = 0; i < names.count; i++) {
        bool own = strcmp(names.items[i], "." QK__PARTIAL) == 0;
        *partial |= own;
        *others += !own;
    }
    qk__names_free(&names);
    return QK_OK;
}

static qk_status fail_not_empty(const char *output, qk_error *err)
{
    return qk__fail(err, QK_ERR_EXISTS,
                    "%s: the folder is not empty: choose another one, or --force to replace a "
                    "capture in it",
                    output);
}

/* A capture would replace files of these names; without a capture there they are not ours. */
static qk_status check_place(const char *folder, qk_error *err)
{
    struct stat st;
    qk__names names;
    if (stat(folder, &st) != 0 || qk__holds_capture(folder))
        return QK_OK;
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; status == QK_OK && i < names.count; i++)
        if (qk__is_part_of_capture(names.items[i]))
            status =
                qk__fail(err, QK_ERR_EXISTS,
                         "%s/%s: is in the way and belongs to no capture: move it, or choose "
                         "another folder",
                         folder, names.items[i]);
    qk__names_free(&names);
    return status;
}

static qk_status check_places(const char *output, qk_rope_stage stage, qk_error *err)
{
    bool both = stage == QK_ROPE_BOTH;
    qk_status status = QK_OK;
    for (int i = both ? 1 : 0; status == QK_OK && i < (both ? QK__PLACES : 1); i++) {
        char *folder = qk__place_folder(output, i);
        status = folder ? check_place(folder, err) : qk__nomem(err);
        free(folder);
    }
    return status;
}

qk_status qk__output_glance(const char *output, bool force, qk_rope_stage stage, qk_error *err)
{
    size_t others;
    bool partial, alone;
    QK_TRY(qk__check_links(output, err));
    QK_TRY(count_others(output, &others, &partial, err));
    if (others == 0)
        return QK_OK;
    if (force)
        QK_TRY(qk__check_strangers(output, &alone, err));
    return partial || force || qk__holds_captures(output) ? check_places(output, stage, err)
                                                          : fail_not_empty(output, err);
}

/* ---- beginning -------------------------------------------------------------------------- */

/* Shards write side by side, and a merge beside them; a run that removes what is there is alone. */
static qk_status enter(qk_sink *sink, qk_error *err)
{
    const qk_sink_settings *s = &sink->settings;
    sink->alone = s->shard.count == 1 && (!sink->merging || s->force);
    return (sink->alone ? qk__place_claim : qk__place_join)(&sink->place, s->output, err);
}

/* Opens the folder of the units, without what killed processes left. */
static qk_status open_units(const qk_sink *sink, qk_error *err)
{
    const char *const name = "." QK__PARTIAL "/" QK__UNITS_NAME;
    QK_TRY(qk__make_below(sink->settings.output, name, err));
    return qk__units_sweep(sink->settings.output, name, err);
}

static qk_status begin_output(qk_sink *sink, bool replaces, qk_error *err)
{
    /* Units of other shards stay: they are of this run, or are not looked at. */
    if (sink->settings.shard.count == 1)
        qk__partial_empty(sink->settings.output);
    qk__publish_sweep(sink->settings.output);
    sink->replaces = replaces;
    sink->began = true;
    QK_TRY(open_units(sink, err));
    return qk__run_write(sink, err);
}

static qk_status resume(qk_sink *sink, qk_error *err)
{
    QK_TRY(open_units(sink, err));
    QK_TRY(qk__blocks_look(sink, err));
    if (sink->settings.num_texts > 0 && sink->texts_before == sink->settings.num_texts)
        qk__tell_notice(&sink->settings.context, QK_NOTICE_INFO, "resuming: writing the files");
    else if (sink->settings.shard.count == 1 && !sink->merging)
        qk__tell_notice(&sink->settings.context, QK_NOTICE_INFO,
                        "resuming after %lld of %lld texts", (long long)sink->texts_before,
                        (long long)sink->settings.num_texts);
    return QK_OK;
}

static qk_status fail_other_run(const qk_sink *sink, const char *difference, qk_error *err)
{
    return qk__fail(err, QK_ERR_EXISTS,
                    "%s: holds an unfinished capture of another run (not the same: %s): give "
                    "the same settings to resume it, or %s",
                    sink->settings.output, difference,
                    sink->settings.shard.count > 1 ? "remove the folder to start over"
                                                   : "--force to start over");
}

/* Continues what is there, or begins. A shard with `force` begins if it is the first, else it joins the shards that
 * began the same run. */
static qk_status decide(qk_sink *sink, size_t others, qk_error *err)
{
    const char *output = sink->settings.output;
    bool found, force = sink->settings.force;
    qk__run_file run;
    if (force && sink->settings.shard.count == 1 && !sink->merging)
        return begin_output(sink, true, err);
    sink->complete = !force && qk__is_complete(sink);
    if (sink->complete)
        return QK_OK;
    qk_status status = qk__run_read(&run, sink->partial, &found, err);
    const char *difference =
        status == QK_OK && found ? qk__identity_difference(run.identity, sink->identity) : NULL;
    sink->replaces = run.replaces;
    bool unread = status == QK_ERR_MALFORMED && force;
    if (status != QK_OK && !unread)
        sink->replaces = false;
    else if (!unread && !found && others > 0 && !force)
        status = fail_not_empty(output, err);
    else if (unread || !found || (difference && force))
        status = begin_output(sink, force, err);
    else if (difference)
        status = fail_other_run(sink, difference, err);
    else
        status = resume(sink, err);
    qk__run_free(&run);
    return status;
}

static qk_status fail_other(const qk_sink *sink, qk_error *err)
{
    json_t *identity;
    qk_status status = qk__captured_identity(sink->settings.output, &identity, err);
    if (status != QK_OK) /* it may be good, so the message does not suggest replacing it */
        return qk__context(err, status,
                           "%s: which capture it holds cannot be read (mend its file, or "
                           "choose another folder)",
                           sink->settings.output);
    const char *difference =
        identity ? qk__identity_difference(identity, sink->identity) : NULL;
    status =
        qk__fail(err, QK_ERR_EXISTS,
                 "%s: holds a capture of other texts or settings%s%s%s: choose another folder, "
                 "or --force to replace it",
                 sink->settings.output, difference ? " (" : "", difference ? difference : "",
                 difference ? " differs)" : "");
    json_decref(identity);
    return status;
}

/* Removes what a run left that was killed after its capture was complete. */
static void tidy(qk_sink *sink)
{
    qk__publish_sweep(sink->settings.output);
    for (int i = 0; i < QK__PLACES; i++) {
        char *folder = qk__place_folder(sink->settings.output, i);
        if (folder && qk__holds_capture(folder))
            qk__output_sweep(sink->settings.output, qk__place_name(i));
        free(folder);
    }
    qk__partial_drop(sink->settings.output);
}

/* A finished capture is never written into, not even for a moment. */
static qk_status look_at_output(qk_sink *sink, size_t *others, qk_error *err)
{
    const char *output = sink->settings.output;
    bool partial, force = sink->settings.force;
    QK_TRY(qk__output_glance(output, force, sink->settings.stage, err));
    QK_TRY(count_others(output, others, &partial, err));
    sink->complete = !partial && !force && qk__is_complete(sink);
    if (sink->complete) {
        qk__publish_sweep(output);
        return check_whole(sink, err);
    }
    return *others == 0 || partial || force ? QK_OK : fail_other(sink, err);
}

qk_status qk__output_open(qk_sink *sink, qk_error *err)
{
    size_t others;
    QK_TRY(look_at_output(sink, &others, err));
    if (sink->complete)
        return QK_OK;
    QK_TRY(enter(sink, err));
    /* another run may have ended while this one waited */
    QK_TRY(look_at_output(sink, &others, err));
    if (sink->complete)
        return QK_OK;
    QK_TRY(qk__make_below(sink->settings.output, "." QK__PARTIAL, err));
    QK_TRY(decide(sink, others, err));
    if (sink->complete)
        tidy(sink);
    return QK_OK;
}
