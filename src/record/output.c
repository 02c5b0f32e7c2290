/* SPDX-License-Identifier: Apache-2.0 */
/* The output folder of a run: what may be done with it, and how finished captures take their
 * place in it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "capture/capture.h"
#include "record/run.h"
#include "study/json.h"

#define PARTIAL_NAME "partial"
enum { MAX_DEPTH = 8 };

/* ---- removing -------------------------------------------------------------------------- */

/* Links are removed, not followed. What cannot be removed stays. */
static void remove_tree(const char *path, int depth)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return;
    qk_names names = {0};
    if (!S_ISDIR(st.st_mode)) {
        unlink(path);
        return;
    }
    if (depth < MAX_DEPTH && qk__list_dir(path, &names, NULL) == QK_OK)
        for (size_t i = 0; i < names.count; i++) {
            char *child = qk__path_join(path, names.items[i]);
            if (child)
                remove_tree(child, depth + 1);
            free(child);
        }
    qk__names_free(&names);
    rmdir(path);
}

static void remove_below(const char *folder, const char *name)
{
    char *path = qk__path_join(folder, name);
    if (path)
        remove_tree(path, 0);
    free(path);
}

/* "NAME.tmp-123-0", as qk__outfile calls a file until it is complete. */
static bool is_temporary(const char *file, const char *name)
{
    static const char TAIL[] = ".tmp-";
    size_t length = strlen(name);
    return strncmp(file, name, length) == 0 &&
           strncmp(file + length, TAIL, sizeof TAIL - 1) == 0 &&
           file[length + sizeof TAIL - 1 +
                strspn(file + length + sizeof TAIL - 1, "0123456789-")] == 0;
}

void qk__output_sweep(const char *folder)
{
    static const char *const OURS[] = {QK_MANIFEST_NAME, "README.md", "examples.csv",
                                       "journal.json", "data.parquet"};
    qk_names names;
    if (qk__list_dir(folder, &names, NULL) != QK_OK)
        return;
    for (size_t i = 0; i < names.count; i++)
        for (size_t j = 0; j < sizeof OURS / sizeof *OURS; j++)
            if (is_temporary(names.items[i], OURS[j]))
                remove_below(folder, names.items[i]);
    qk__names_free(&names);
}

/* capture.json is no part of it: it goes last, or is replaced. */
static bool is_part_of_capture(const char *name)
{
    qk_head_id id;
    return qk_head_parse(name, &id) || strcmp(name, "README.md") == 0 ||
           strcmp(name, "examples.csv") == 0;
}

static qk_status mark_incomplete(const char *folder, qk_error *err)
{
    static const char TEXT[] = "{\"format\": \"" QK_MANIFEST_FORMAT
                               "\", \"format_version\": 1, \"complete\": false}\n";
    char *path = qk__path_join(folder, QK_MANIFEST_NAME);
    qk_status status = path ? qk__write_file(path, TEXT, sizeof TEXT - 1, err) : qk__nomem(err);
    free(path);
    return status;
}

static bool has_manifest(const char *folder)
{
    char *path = qk__path_join(folder, QK_MANIFEST_NAME);
    bool yes = path && qk__is_file(path);
    free(path);
    return yes;
}

/* Removes a capture, nothing else; it is not taken for a whole one at any time. */
static qk_status remove_capture(const char *folder, qk_error *err)
{
    qk_names names;
    if (!qk__is_dir(folder))
        return QK_OK;
    qk__output_sweep(folder);
    QK_TRY(mark_incomplete(folder, err));
    QK_TRY(qk__list_dir(folder, &names, err));
    for (size_t i = 0; i < names.count; i++)
        if (is_part_of_capture(names.items[i]))
            remove_below(folder, names.items[i]);
    qk__names_free(&names);
    remove_below(folder, QK_MANIFEST_NAME);
    return QK_OK;
}

/* ---- what is there -------------------------------------------------------------------------
 */

static char *stage_folder(const char *root, int stage)
{
    return qk__path_join(root, qk__stage_name(stage));
}

static bool is_double(const qk_recording *r)
{
    return r->stages[QK__POST] && r->stages[QK__PRE];
}

/* Whether a folder is the finished capture of a run. */
static bool is_capture_of(const char *folder, const char *fingerprint)
{
    char *path = qk__path_join(folder, QK_MANIFEST_NAME);
    json_t *root = path && qk__is_file(path) ? qk__json_read(path) : NULL;
    const char *found = json_string_value(json_object_get(root, "fingerprint"));
    bool yes = found && strcmp(found, fingerprint) == 0 &&
               json_is_true(json_object_get(root, "complete"));
    json_decref(root);
    free(path);
    return yes;
}

bool qk__output_has(const qk_recording *r, int stage)
{
    const char *output = r->settings->output;
    char *folder = is_double(r) ? stage_folder(output, stage) : qk__strdup(output);
    bool yes = folder && is_capture_of(folder, r->fingerprint);
    free(folder);
    return yes;
}

static bool is_complete(const qk_recording *r)
{
    bool yes = true;
    for (int stage = 0; stage < QK__STAGES; stage++)
        yes &= !r->stages[stage] || qk__output_has(r, stage);
    return yes;
}

/* Counts what lies in the output folder besides .partial. */
static qk_status count_others(const char *output, size_t *others, bool *partial, qk_error *err)
{
    qk_names names = {0};
    *others = 0;
    *partial = false;
    struct stat st;
    if (stat(output, &st) != 0 && errno == ENOENT)
        return QK_OK;
    QK_TRY(qk__list_dir(output, &names, err));
    for (size_t i = 0; i < names.count; i++) {
        bool own = strcmp(names.items[i], "." PARTIAL_NAME) == 0;
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

qk_status qk__output_glance(const qk_record_settings *settings, qk_error *err)
{
    size_t others;
    bool partial;
    QK_TRY(count_others(settings->output, &others, &partial, err));
    if (others == 0 || partial || settings->force || has_manifest(settings->output))
        return QK_OK;
    bool captures = false;
    for (int stage = 0; stage < QK__STAGES; stage++) {
        char *folder = qk__path_join(settings->output, qk__stage_name(stage));
        captures |= folder && has_manifest(folder);
        free(folder);
    }
    return captures ? QK_OK : fail_not_empty(settings->output, err);
}

/* ---- beginning ----------------------------------------------------------------------------
 */

static qk_status take_lock(qk_recording *r, qk_error *err)
{
    char *path = qk__path_join(r->partial, "lock");
    if (!path)
        return qk__nomem(err);
    qk_status status = QK_OK;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    r->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (r->lock < 0)
        status = qk__fail(err, QK_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    else if (fcntl(r->lock, F_SETLK, &whole) != 0 && (errno == EACCES || errno == EAGAIN))
        status = qk__fail(err, QK_ERR_EXISTS, "%s: another run is writing here",
                          r->settings->output);
    free(path);
    return status;
}

/* Everything in .partial but the lock. */
static void clear_partial(const qk_recording *r)
{
    qk_names names;
    if (qk__list_dir(r->partial, &names, NULL) != QK_OK)
        return;
    remove_below(r->partial, "journal.json"); /* first: the rest is nothing without it */
    for (size_t i = 0; i < names.count; i++)
        if (strcmp(names.items[i], "lock") != 0)
            remove_below(r->partial, names.items[i]);
    qk__names_free(&names);
}

static qk_status begin(qk_recording *r, qk_error *err)
{
    clear_partial(r);
    size_t parts = 2 * (size_t)r->facts->num_layers;
    int64_t *rows = r->journal.rows;
    memset(rows, 0, parts * sizeof *rows);
    r->journal = (qk_journal){.rows = rows, .replaces = r->settings->force};
    QK_TRY(qk__make_dirs(r->spool, err));
    return qk__journal_write(r, err);
}

static qk_status resume(qk_recording *r, qk_error *err)
{
    r->outcome->texts_before = r->journal.texts;
    r->outcome->tokens_before = r->journal.tokens;
    if (r->journal.writing)
        qk__record_notice(r, QK_NOTICE_INFO, "going on with writing the files");
    else
        qk__record_notice(r, QK_NOTICE_INFO, "going on after %lld of %lld texts",
                          (long long)r->journal.texts, (long long)r->num_texts);
    return qk__make_dirs(r->spool, err);
}

static qk_status decide(qk_recording *r, size_t others, bool *complete, qk_error *err)
{
    const char *output = r->settings->output;
    bool found;
    json_t *identity;
    *complete = !r->settings->force && is_complete(r);
    if (*complete)
        return QK_OK;
    if (r->settings->force)
        return begin(r, err);
    QK_TRY(qk__journal_read(r, &found, &identity, err));
    if (!found)
        return others > 0 ? fail_not_empty(output, err) : begin(r, err);
    const char *difference = qk__identity_difference(identity, r->identity);
    qk_status status =
        difference
            ? qk__fail(err, QK_ERR_EXISTS,
                       "%s: holds an unfinished capture of another run (%s differs): give "
                       "the same settings to go on with it, or --force to begin anew",
                       output, difference)
            : resume(r, err);
    json_decref(identity);
    return status;
}

qk_status qk__output_open(qk_recording *r, bool *complete, qk_error *err)
{
    size_t others;
    bool partial;
    QK_TRY(count_others(r->settings->output, &others, &partial, err));
    r->partial = qk__path_join(r->settings->output, "." PARTIAL_NAME);
    r->spool = r->partial ? qk__path_join(r->partial, "spool") : NULL;
    if (!r->spool)
        return qk__nomem(err);
    /* A finished capture is not to be written into, not even for a moment. */
    *complete = !partial && !r->settings->force && is_complete(r);
    if (*complete)
        return QK_OK;
    if (others > 0 && !partial && !r->settings->force)
        return qk__fail(
            err, QK_ERR_EXISTS,
            "%s: holds a capture of other texts or settings: choose another folder, "
            "or --force to replace it",
            r->settings->output);
    QK_TRY(qk__make_dirs(r->partial, err));
    QK_TRY(take_lock(r, err));
    QK_TRY(decide(r, others, complete, err));
    if (*complete)
        qk__output_drop(r);
    return QK_OK;
}

/* ---- the end
 * --------------------------------------------------------------------------------- */

void qk__output_drop(qk_recording *r)
{
    clear_partial(r);
    remove_tree(r->partial, 0);
}

static qk_status move(const char *from, const char *to, qk_error *err)
{
    if (rename(from, to) == 0)
        return QK_OK;
    return qk__fail(err, QK_ERR_IO, "%s: cannot move to %s: %s", from, to, strerror(errno));
}

static qk_status move_below(const char *from, const char *to, const char *name, qk_error *err)
{
    char *source = qk__path_join(from, name);
    char *target = qk__path_join(to, name);
    qk_status status = source && target ? move(source, target, err) : qk__nomem(err);
    free(source);
    free(target);
    return status;
}

/* Makes way: an old capture, of either form. Once, because what lies there later is ours. */
static qk_status clear_output(const qk_recording *r, qk_error *err)
{
    char *mark = qk__path_join(r->partial, "cleared");
    if (!mark)
        return qk__nomem(err);
    qk_status status = QK_OK;
    if (!qk__is_file(mark)) {
        const char *output = r->settings->output;
        if (has_manifest(output))
            status = remove_capture(output, err);
        for (int stage = 0; status == QK_OK && stage < QK__STAGES; stage++) {
            char *folder = stage_folder(output, stage);
            status = !folder                ? qk__nomem(err)
                     : has_manifest(folder) ? remove_capture(folder, err)
                                            : QK_OK;
            if (folder)
                rmdir(folder);
            free(folder);
        }
        if (status == QK_OK)
            status = qk__write_file(mark, "", 0, err);
    }
    free(mark);
    return status;
}

/* Into a folder that holds .partial itself, so piece by piece: what says that the capture is
 * complete comes last. */
static qk_status publish_pieces(const qk_recording *r, const char *from, qk_error *err)
{
    const char *output = r->settings->output;
    qk_names names;
    qk__output_sweep(output);
    QK_TRY(mark_incomplete(output, err));
    QK_TRY(qk__list_dir(from, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; status == QK_OK && i < names.count; i++)
        if (is_part_of_capture(names.items[i]))
            status = move_below(from, output, names.items[i], err);
    qk__names_free(&names);
    return status == QK_OK ? move_below(from, output, QK_MANIFEST_NAME, err) : status;
}

qk_status qk__output_publish(qk_recording *r, qk_error *err)
{
    qk_status status = r->journal.replaces ? clear_output(r, err) : QK_OK;
    for (int stage = 0; status == QK_OK && stage < QK__STAGES; stage++) {
        if (!r->stages[stage])
            continue;
        char *from = stage_folder(r->partial, stage);
        if (!from)
            status = qk__nomem(err);
        else if (!is_double(r))
            status = publish_pieces(r, from, err);
        else if (qk__is_dir(from)) /* else it has moved before */
            status = move_below(r->partial, r->settings->output, qk__stage_name(stage), err);
        free(from);
    }
    if (status == QK_OK)
        qk__output_drop(r);
    return status;
}
