/* SPDX-License-Identifier: Apache-2.0 */
/* Unfinished captures of one run, each with some of its blocks, in one folder. Blocks do not depend on
 * who made them, so it does not matter in which order or by how many steps they come together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/context.h"
#include "base/error.h"
#include "sink/run_file.h"

typedef struct input {
    const char *folder;
    bool whole; /* a finished capture of the run: of a shard that had all of its texts */
    json_t *captured;
    char *partial, *units;
    char fingerprint[QK__FINGERPRINT_SIZE];
    qk__run_file run;
    qk__names names; /* of its blocks */
} input;

typedef struct merging {
    const qk_merge_settings *settings;
    const input *first; /* with pieces: what the run is */
    const input *whole; /* NULL: none is */
    input *inputs;
    size_t count;
} merging;

static void release_merging(merging *m)
{
    for (size_t i = 0; m->inputs && i < m->count; i++) {
        free(m->inputs[i].partial);
        json_decref(m->inputs[i].captured);
        qk__run_free(&m->inputs[i].run);
        free(m->inputs[i].units);
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

/* Lists the blocks that are there. */
static qk_status list_blocks(input *in, qk_error *err)
{
    size_t kept = 0;
    bool there;
    if (!qk__is_dir(in->units))
        return QK_OK;
    QK_TRY(qk__list_dir(in->units, &in->names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < in->names.count; i++) {
        char *name = in->names.items[i];
        there = false;
        if (status == QK_OK && qk__temporary_stem(name) == 0)
            status = qk__unit_look(in->units, name, in->fingerprint, NULL, &there, err);
        if (there)
            in->names.items[kept++] = name;
        else
            free(name);
    }
    in->names.count = kept;
    return status;
}

static qk_status open_input(input *in, const char *folder, qk_error *err)
{
    bool found = false;
    in->folder = folder;
    in->partial = qk__path_join(folder, "." QK__PARTIAL);
    in->units = in->partial ? qk__path_join(in->partial, QK__UNITS_NAME) : NULL;
    if (!in->units)
        return qk__nomem(err);
    if (!qk__is_dir(folder))
        return qk__fail(err, QK_ERR_NOT_FOUND, "%s: no such folder", folder);
    QK_TRY(qk__run_read(&in->run, in->partial, &found, err));
    if (!found) {
        QK_TRY(qk__captured_identity(folder, &in->captured, err));
        in->whole = in->captured != NULL;
        return in->whole ? QK_OK : fail_no_pieces(folder, err);
    }
    QK_TRY(qk__identity_fingerprint(in->run.identity, in->fingerprint, err));
    return list_blocks(in, err);
}

static bool has_name(const qk__names *names, const char *name)
{
    size_t i = 0;
    while (i < names->count && strcmp(names->items[i], name) != 0)
        i++;
    return i < names->count;
}

/* No two may have a block in common: somebody has made a mistake. */
static qk_status check_overlap(const merging *m, const input *b, qk_error *err)
{
    for (size_t n = 0; n < b->names.count; n++)
        for (const input *a = m->inputs; a < b; a++)
            if (has_name(&a->names, b->names.items[n]))
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

/* On another disk: a copy, which becomes a unit by a rename. Begun among the units, it would be swept by whoever begins
 * meanwhile, since nobody has it locked. */
static qk_status copy_block(const char *from, const char *name, const char *to,
                            const qk_sink *sink, qk_error *err)
{
    char *beside = qk__path_join(sink->partial, name);
    qk_status status = beside ? copy_bytes(from, beside, err) : qk__nomem(err);
    if (status == QK_OK && rename(beside, to) != 0 && !qk__is_file(to))
        status =
            qk__fail(err, QK_ERR_IO, "%s: cannot move to %s: %s", beside, to, strerror(errno));
    free(beside);
    return status;
}

/* Another name for the file, in place of what an earlier merge gave. */
static bool link_block(const char *from, const char *to)
{
    return link(from, to) == 0 || (errno == EEXIST && unlink(to) == 0 && link(from, to) == 0);
}

/* What is wrong with it is said here, where its folder is known. */
static qk_status give_block(const input *in, const char *name, const qk_sink *sink,
                            qk_error *err)
{
    int fd;
    char *from = qk__path_join(in->units, name), *to = qk__path_join(sink->units, name);
    qk_status status = from && to ? QK_OK : qk__nomem(err);
    if (status == QK_OK)
        status =
            qk__context(err, qk__unit_open(in->units, name, in->fingerprint, &fd, NULL, err),
                        "%s: remove it and run the shard that made it again", from);
    if (status == QK_OK) {
        close(fd);
        status = link_block(from, to) ? QK_OK : copy_block(from, name, to, sink, err);
    }
    free(from);
    free(to);
    return status;
}

/* ---- a capture that is whole ------------------------------------------------------------ */

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

static qk_status give_all(const char *from, const char *to, bool parts, give_fn *give,
                          qk_error *err)
{
    qk__names names;
    QK_TRY(qk__make_dirs(to, err));
    QK_TRY(qk__list_dir(from, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; status == QK_OK && i < names.count; i++)
        if (!parts || qk__is_part_of_capture(names.items[i]))
            status = give_below(from, to, names.items[i], give, err);
    qk__names_free(&names);
    return status;
}

static qk_status copy_part(const char *from, const char *to, qk_error *err)
{
    return qk__is_dir(from) ? give_all(from, to, false, copy_bytes, err)
                            : copy_bytes(from, to, err);
}

/* What says that it is complete comes last. */
static qk_status copy_capture(const char *from, const char *to, qk_error *err)
{
    QK_TRY(give_all(from, to, true, copy_part, err));
    return give_below(from, to, QK_MANIFEST_NAME, copy_bytes, err);
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

/* It has the bytes that merging would give. */
static qk_status take_whole(const input *in, qk_sink *sink, qk_error *err)
{
    if (!qk__sink_may_end(sink))
        return qk__fail(err, QK_ERR_EXISTS, "%s: another process puts a capture together there",
                        sink->settings.output);
    qk__partial_unbuild(sink->settings.output);
    for (int stage = 0; stage < QK__STAGES; stage++)
        if (sink->stages[stage])
            QK_TRY(copy_stage(in, sink, stage, err));
    QK_TRY(qk__output_publish(sink, err));
    sink->complete = true;
    return QK_OK;
}

static qk_status gather_blocks(const merging *m, qk_sink *sink, qk_error *err)
{
    size_t all = 0, done = 0;
    for (size_t i = 0; i < m->count; i++)
        all += m->inputs[i].names.count;
    for (size_t i = 0; i < m->count; i++) {
        const input *in = &m->inputs[i];
        bool here = strcmp(in->units, sink->units) == 0;
        for (size_t n = 0; n < in->names.count; n++) {
            QK_TRY(qk__sink_ask(sink, "blocks", done++, all, err));
            if (!here)
                QK_TRY(give_block(in, in->names.items[n], sink, err));
        }
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
    QK_TRY(qk__sink_open(&sink, &settings, m->first->run.ids_hash, err));
    qk_status status = sink->complete ? QK_OK
                       : m->whole     ? take_whole(m->whole, sink, err)
                                      : gather_blocks(m, sink, err);
    if (status == QK_OK)
        status = qk__sink_end(sink, outcome, err);
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
