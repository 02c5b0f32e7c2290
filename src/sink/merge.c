/* SPDX-License-Identifier: Apache-2.0 */
/* Joins unfinished captures of one run, each with some of its blocks, in one folder. Blocks do not depend on who made
 * them: so order and steps do not matter, and a block that two folders have is the same. */
#include <stdlib.h>

#include "base/context.h"
#include "base/error.h"
#include "sink/run_file.h"

typedef struct input {
    const char *folder;
    char *units;
    qk__run_file run;
} input;

typedef struct merging {
    const qk_merge_settings *settings;
    input *inputs; /* the first input says what the run is */
    size_t count;
} merging;

static void release_merging(merging *m)
{
    for (size_t i = 0; m->inputs && i < m->count; i++) {
        qk__run_free(&m->inputs[i].run);
        free(m->inputs[i].units);
    }
    free(m->inputs);
}

/* ---- what is to be merged --------------------------------------------------------------- */

static qk_status fail_no_pieces(const char *folder, qk_error *err)
{
    if (qk__holds_captures(folder))
        return qk__fail(err, QK_ERR_EXISTS,
                        "%s: a finished capture: there is nothing to merge. With few texts one "
                        "shard has them all: its folder is the capture. Texts of several "
                        "captures come together by capturing them in one run",
                        folder);
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s: no pieces of a capture, which 'qkscope capture --shard I/N' leaves in "
                    "its folder",
                    folder);
}

static qk_status open_input(input *in, const char *folder, qk_error *err)
{
    bool found = false;
    in->folder = folder;
    if (!qk__is_dir(folder))
        return qk__fail(err, QK_ERR_NOT_FOUND, "%s: no such folder", folder);
    char *partial = qk__path_join(folder, "." QK__PARTIAL);
    in->units = partial ? qk__path_join(partial, QK__UNITS_NAME) : NULL;
    qk_status status =
        in->units ? qk__run_read(&in->run, partial, &found, err) : qk__nomem(err);
    free(partial);
    return status != QK_OK || found ? status : fail_no_pieces(folder, err);
}

static qk_status open_inputs(merging *m, qk_error *err)
{
    const qk_merge_settings *s = m->settings;
    m->inputs = qk__calloc(s->num_inputs, sizeof *m->inputs);
    if (!m->inputs)
        return qk__nomem(err);
    while (m->count < s->num_inputs) {
        input *in = &m->inputs[m->count];
        QK_TRY(open_input(in, s->inputs[m->count++], err));
        const char *difference =
            qk__identity_difference(m->inputs->run.identity, in->run.identity);
        if (difference)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s and %s are not of one run: they differ in %s",
                            m->inputs->folder, in->folder, difference);
    }
    return QK_OK;
}

/* ---- bringing them together ------------------------------------------------------------- */

/* Gives the sink a block of an input. */
static qk_status give_block(const input *in, int64_t number, const qk_sink *sink, bool *there,
                            qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE];
    qk__block_name(number, name);
    QK_TRY(qk__unit_look(in->units, name, sink->fingerprint, NULL, there, err));
    if (!*there)
        return QK_OK;
    return qk__context(err, qk__unit_give(in->units, name, sink->fingerprint, sink->units, err),
                       "%s/%s: remove it and run the shard that made it again", in->units,
                       name);
}

static qk_status gather_blocks(const merging *m, qk_sink *sink, qk_error *err)
{
    for (int64_t b = 0; b < sink->num_blocks; b++) {
        bool there = false;
        QK_TRY(qk__sink_ask(sink, "blocks", (size_t)b, (size_t)sink->num_blocks, err));
        for (size_t i = 0; !there && i < m->count; i++)
            QK_TRY(give_block(&m->inputs[i], b, sink, &there, err));
    }
    return QK_OK;
}

static void tell_missing(const qk_sink *sink, const qk_sink_outcome *outcome)
{
    if (outcome->blocks_there < outcome->blocks)
        qk__tell_notice(&sink->settings.context, QK_NOTICE_WARNING,
                        "%s: %lld of %lld blocks of texts are there: run the shards that are "
                        "missing, or merge their folders, too",
                        sink->settings.output, (long long)outcome->blocks_there,
                        (long long)outcome->blocks);
}

static qk_status merge(merging *m, qk_sink_outcome *outcome, qk_error *err)
{
    QK_TRY(open_inputs(m, err));
    qk_sink_settings settings = m->inputs->run.settings;
    settings.output = m->settings->output ? m->settings->output : m->inputs[0].folder;
    settings.force = m->settings->force;
    settings.context = m->settings->context;
    if (settings.token_strings)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "%s: the strings of tokens have to come from the tokenizer: run the "
                        "qkscope capture command there once more, with --shard none",
                        settings.output);
    qk_sink *sink;
    QK_TRY(qk__sink_open(&sink, &settings, m->inputs->run.ids_hash, err));
    qk_status status = sink->complete ? QK_OK : gather_blocks(m, sink, err);
    if (status == QK_OK)
        status = qk__sink_end(sink, outcome, err);
    if (status == QK_OK && !outcome->complete)
        tell_missing(sink, outcome);
    qk_sink_close(&sink);
    return status;
}

/* Whether a folder without pieces has a finished capture, with all that the capture lists. */
static qk_status find_finished(const char *folder, bool *finished, qk_error *err)
{
    char *place = qk__path_join(folder, "." QK__PARTIAL);
    const bool pieces = place && qk__is_dir(place);
    qk_status status = place ? QK_OK : qk__nomem(err);
    *finished = false;
    free(place);
    for (int i = 0; status == QK_OK && !pieces && i < QK__PLACES; i++) {
        place = qk__place_folder(folder, i);
        const bool has = place && qk__holds_capture(place);
        status = has ? qk__capture_check_whole(place, err) : place ? QK_OK : qk__nomem(err);
        *finished |= has;
        free(place);
    }
    return status;
}

qk_status qk_sink_merge(const qk_merge_settings *settings, qk_sink_outcome *outcome,
                        qk_error *err)
{
    QK_NEED(err, settings, outcome);
    *outcome = (qk_sink_outcome){0};
    if (settings->num_inputs == 0 || (settings->num_inputs > 1 && !settings->output))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        settings->num_inputs == 0 ? "nothing to merge"
                                                  : "where to? no output folder given");
    if (settings->num_inputs == 1 && !settings->output)
        QK_TRY(find_finished(settings->inputs[0], &outcome->complete, err));
    if (outcome->complete)
        return QK_OK;
    merging m = {.settings = settings};
    qk_status status = merge(&m, outcome, err);
    release_merging(&m);
    return status;
}
