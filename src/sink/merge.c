/* SPDX-License-Identifier: Apache-2.0 */
/* Unfinished captures of one run, each with some of its blocks, in one folder. Blocks do not depend on
 * who made them, so it does not matter in which order or by how many steps they come together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/context.h"
#include "base/error.h"
#include "work/place.h"
#include "sink/run_file.h"

typedef struct input {
    const char *folder;
    bool whole; /* a finished capture of the run: of a shard that had all of its texts */
    json_t *captured;
    char *partial;
    qk__run_file run;
    qk__unit_folder units;
    qk__names names; /* of its units */
} input;

typedef struct merging {
    const qk_merge_settings *settings;
    const input *first; /* with pieces: what the run is */
    const input *whole; /* NULL: none is */
    input *inputs;
    size_t count;
    const char *output;
} merging;

static void release_merging(merging *m)
{
    for (size_t i = 0; m->inputs && i < m->count; i++) {
        free(m->inputs[i].partial);
        json_decref(m->inputs[i].captured);
        qk__run_free(&m->inputs[i].run);
        qk__units_close(&m->inputs[i].units);
        qk__names_free(&m->inputs[i].names);
    }
    free(m->inputs);
}

/* ---- what is to be merged --------------------------------------------------------------- */

static qk_status fail_no_pieces(const char *folder, qk_error *err)
{
    if (qk__holds_captures(folder))
        return qk__fail(err, QK_ERR_EXISTS,
                        "%s: a finished capture: there is nothing to merge; texts of several "
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
    in->partial = qk__path_join(folder, "." QK__PARTIAL);
    if (!in->partial)
        return qk__nomem(err);
    if (!qk__is_dir(folder))
        return qk__fail(err, QK_ERR_NOT_FOUND, "%s: no such folder", folder);
    QK_TRY(qk__run_read(&in->run, in->partial, &found, err));
    if (!found) {
        QK_TRY(qk__captured_identity(folder, &in->captured, err));
        in->whole = in->captured != NULL;
        return in->whole ? QK_OK : fail_no_pieces(folder, err);
    }
    char fingerprint[QK__FINGERPRINT_SIZE];
    QK_TRY(qk__identity_fingerprint(in->run.identity, fingerprint, err));
    QK_TRY(qk__units_open(&in->units, in->partial, fingerprint, err));
    return qk__units_list(&in->units, &in->names, err);
}

static bool is_block(const char *name)
{
    return *name == 'b';
}

/* No two may have a block in common: somebody has made a mistake. */
static qk_status check_overlap(const merging *m, const input *b, qk_error *err)
{
    for (size_t n = 0; n < b->names.count; n++)
        for (const input *a = m->inputs; is_block(b->names.items[n]) && a < b; a++)
            if (qk__names_have(&a->names, b->names.items[n]))
                return qk__fail(err, QK_ERR_INCONSISTENT,
                                "%s and %s overlap: both hold block %s of the texts; leave out "
                                "one of them",
                                a->folder, b->folder, b->names.items[n] + 1);
    return QK_OK;
}

/* Whether an input is of the run of the first one with pieces. */
static qk_status check_run(const merging *m, const input *in, qk_error *err)
{
    const char *difference = qk__identity_difference(
        m->first->run.identity, in->whole ? in->captured : in->run.identity);
    if (difference)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s and %s are not of one run: they differ in %s", m->first->folder,
                        in->folder, difference);
    return check_overlap(m, in, err);
}

static qk_status open_inputs(merging *m, qk_error *err)
{
    const qk_merge_settings *s = m->settings;
    m->inputs = qk__calloc(s->num_inputs, sizeof *m->inputs);
    if (!m->inputs)
        return qk__nomem(err);
    for (m->count = 0; m->count < s->num_inputs;) {
        input *in = &m->inputs[m->count++];
        QK_TRY(open_input(in, s->inputs[in - m->inputs], err));
        m->first = m->first || in->whole ? m->first : in;
        m->whole = m->whole || !in->whole ? m->whole : in;
    }
    if (!m->first)
        return fail_no_pieces(s->inputs[0], err);
    for (size_t i = 0; i < m->count; i++)
        QK_TRY(check_run(m, &m->inputs[i], err));
    return QK_OK;
}

/* ---- bringing them together ------------------------------------------------------------- */

static qk_status copy_bytes(const char *from, const char *to, qk_error *err)
{
    enum { PIECE = 1 << 20 };
    int fd = -1;
    int64_t size = 0;
    qk__outfile *file = NULL;
    uint8_t *piece = malloc(PIECE);
    qk_status status = piece ? qk__open_file(from, &fd, &size, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__outfile_open(&file, to, err);
    for (int64_t at = 0; status == QK_OK && at < size; at += PIECE) {
        size_t take = size - at < PIECE ? (size_t)(size - at) : PIECE;
        status = qk__context(err, qk__read_at(fd, piece, take, at, err), "%s", from);
        if (status == QK_OK)
            status = qk__outfile_write(file, piece, take, err);
    }
    if (status == QK_OK)
        status = qk__outfile_commit(&file, err);
    qk__outfile_discard(&file);
    if (fd >= 0)
        close(fd);
    free(piece);
    return status;
}

/* A second name for the file, or a copy on another disk. */
static qk_status give_file(const char *from, const char *to, qk_error *err)
{
    return link(from, to) == 0 ? QK_OK : copy_bytes(from, to, err);
}

typedef qk_status give_fn(const char *from, const char *to, qk_error *err);

/* Gives a name of a folder to another folder. */
static qk_status give_below(const char *from, const char *to, const char *name, give_fn *give,
                            qk_error *err)
{
    char *source = qk__path_join(from, name), *target = qk__path_join(to, name);
    qk_status status = source && target ? give(source, target, err) : qk__nomem(err);
    free(source);
    free(target);
    return status;
}

static qk_status give_all(const char *from, const char *to, give_fn *give, qk_error *err)
{
    qk__names files;
    QK_TRY(qk__list_dir(from, &files, err));
    qk_status status = QK_OK;
    for (size_t i = 0; status == QK_OK && i < files.count; i++)
        status = give_below(from, to, files.items[i], give, err);
    qk__names_free(&files);
    return status;
}

static qk_status give_files(void *from, const char *folder, qk_error *err)
{
    return give_all(from, folder, give_file, err);
}

/* With its seal: what is wrong with it is said here, where its folder is known. */
static qk_status give_unit(const input *in, const char *name, const qk__unit_folder *to,
                           qk_error *err)
{
    char *from = qk__units_path(&in->units, name, NULL);
    if (!from)
        return qk__nomem(err);
    qk_status status = qk__unit_check(&in->units, name, NULL, err);
    if (status != QK_OK)
        qk__context(err, status, "%s: remove it and run the shard that made it again", from);
    else
        status = qk__unit_put(to, name, give_files, from, err);
    free(from);
    return status;
}

/* ---- a capture that is whole ------------------------------------------------------------ */

static qk_status copy_part(const char *from, const char *to, qk_error *err)
{
    if (!qk__is_dir(from))
        return copy_bytes(from, to, err);
    QK_TRY(qk__make_dirs(to, err));
    QK_TRY(qk__place_sweep(to, err)); /* of a merge that was killed */
    return give_all(from, to, copy_bytes, err);
}

/* What says that it is complete comes last. */
static qk_status copy_capture(const char *from, const char *to, qk_error *err)
{
    qk__names names;
    QK_TRY(qk__make_dirs(to, err));
    QK_TRY(qk__place_sweep(to, err));
    QK_TRY(qk__list_dir(from, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; status == QK_OK && i < names.count; i++)
        if (qk__is_part_of_capture(names.items[i]))
            status = give_below(from, to, names.items[i], copy_part, err);
    qk__names_free(&names);
    return status == QK_OK ? give_below(from, to, QK_MANIFEST_NAME, copy_bytes, err) : status;
}

static qk_status copy_stage(const input *in, const qk_sink *sink, int stage, qk_error *err)
{
    char *from = qk__stage_folder(sink, in->folder, stage);
    char *to = qk__stage_folder(sink, sink->fresh, stage);
    qk_status status = QK_OK;
    if (!from || !to)
        status = qk__nomem(err);
    else if (!qk__is_capture_of(from, sink->fingerprint))
        status = qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s: is being written, or is not what the other folders are of: end "
                          "the run that writes there, or leave it out",
                          from);
    else
        status = copy_capture(from, to, err);
    free(from);
    free(to);
    return status;
}

/* It has the bytes that merging would give. What was copied before may have begun to take its place. */
static qk_status take_whole(const input *in, const qk_sink *sink, qk_error *err)
{
    if (qk__is_built(sink))
        return QK_OK;
    qk__partial_unbuild(sink->partial);
    for (int stage = 0; stage < QK__STAGES; stage++)
        if (sink->stages[stage])
            QK_TRY(copy_stage(in, sink, stage, err));
    return qk__write_file_in(sink->partial, QK__BUILT, "", 0, err);
}

static qk_status gather_blocks(const merging *m, qk_sink *sink, qk_error *err)
{
    size_t all = 0, done = 0;
    for (size_t i = 0; i < m->count; i++)
        all += m->inputs[i].names.count;
    for (size_t i = 0; i < m->count; i++) {
        const input *in = &m->inputs[i];
        bool here = strcmp(in->units.path, sink->units.path) == 0;
        for (size_t n = 0; n < in->names.count; n++) {
            QK_TRY(qk__sink_ask(sink, "blocks", done++, all, err));
            if (!here)
                QK_TRY(give_unit(in, in->names.items[n], &sink->units, err));
        }
    }
    return QK_OK;
}

static void tell_missing(const qk_sink *sink, const qk_sink_outcome *outcome)
{
    if (outcome->blocks_there == outcome->blocks)
        qk__tell_notice(&sink->settings.context, QK_NOTICE_WARNING,
                        "%s: all blocks of texts are there, and another process puts them "
                        "together",
                        sink->settings.output);
    else
        qk__tell_notice(&sink->settings.context, QK_NOTICE_WARNING,
                        "%s: %lld of %lld blocks of texts are there: run the shards that are "
                        "missing, or merge their folders, too",
                        sink->settings.output, (long long)outcome->blocks_there,
                        (long long)outcome->blocks);
}

static qk_status merge(merging *m, qk_sink_outcome *outcome, qk_error *err)
{
    QK_TRY(open_inputs(m, err));
    qk_sink_settings settings = m->first->run.settings;
    settings.output = m->settings->output ? m->settings->output : m->inputs[0].folder;
    settings.force = m->settings->force;
    settings.context = m->settings->context;
    if (settings.token_strings && !m->whole)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "%s: the strings of tokens have to come from the tokenizer: run the "
                        "qkscope capture command there once more, with --shard none",
                        settings.output);
    qk_sink *sink;
    QK_TRY(qk__sink_open(&sink, &settings, true, err));
    qk_status status = sink->complete ? QK_OK
                       : m->whole     ? take_whole(m->whole, sink, err)
                                      : gather_blocks(m, sink, err);
    if (status == QK_OK)
        status = qk__sink_end(sink, true, outcome, err);
    if (status == QK_OK && !outcome->complete)
        tell_missing(sink, outcome);
    qk_sink_close(&sink);
    return status;
}

/* Whether a folder without pieces has a finished capture; that has all that it lists. */
static qk_status find_finished(const char *folder, bool *finished, qk_error *err)
{
    char *partial = qk__path_join(folder, "." QK__PARTIAL);
    bool pieces = partial && qk__is_dir(partial);
    *finished = false;
    if (!partial)
        return qk__nomem(err);
    free(partial);
    if (pieces)
        return QK_OK;
    for (int i = 0; i < QK__PLACES; i++) {
        char *place = qk__place_folder(folder, i);
        bool has = place && qk__holds_capture(place);
        qk_status status = !place ? qk__nomem(err)
                           : has  ? qk__capture_check_whole(place, err)
                                  : QK_OK;
        free(place);
        if (status != QK_OK)
            return status;
        *finished = *finished || has;
    }
    return QK_OK;
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
