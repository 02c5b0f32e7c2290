/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture or a model holds, without its bytes: a folder with the same names, in which files that
 * the cache has are links and the others have their footers and headers, and holes. Whatever reads a
 * capture or a model can open it. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/expand.h"
#include "base/folder.h"
#include "fetch/get.h"

enum {
    FIRST_TAIL = 8 << 10, /* bytes asked for where nothing is known of footers yet */
    PARQUET_END = 8,      /* length of the footer, "PAR1" */
    FIRST_HEAD = 64 << 10,
    HEAD_BEGIN = 8, /* length of a safetensors header */
    MAX_PIECE = 64 << 20,
};

/* What of a file tells of it. */
typedef enum role { ROLE_HOLE, ROLE_WHOLE, ROLE_TAIL, ROLE_HEAD } role;

typedef struct outlining {
    qk__fetch *fetch;
    const qk__repo_file **missing; /* that the snapshot has not */
    size_t count;
    char *folder;
    qk__crew crew;
    int64_t tail; /* bytes that were enough for every footer so far; fetch->lock guards it */
} outlining;

/* ---- a part of a file -------------------------------------------------------------------- */

typedef struct piece {
    const qk__repo_file *file;
    int64_t from, size;
    uint8_t *bytes; /* [size] */
    int64_t have;
    qk__fetch *fetch;
} piece;

static qk_status begin_outline(void *user, int64_t *from, const char **etag, qk_error *err)
{
    piece *p = user;
    (void)etag, (void)err;
    p->have = 0;
    *from = p->from;
    return QK_OK;
}

static qk_status check_answer(const piece *p, const qk__headers *answer, qk_error *err)
{
    int64_t total = answer->status == 206 ? answer->total : answer->length;
    if (answer->status == 200 && p->size < p->file->size)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "a server that gives no parts of files: fetch it with qkscope get");
    if (answer->status == 206 && answer->first != p->from)
        return qk__fail(err, QK_ERR_INCONSISTENT, "another range than the one asked for");
    if (total >= 0 && total != p->file->size)
        return qk__fail(err, QK_ERR_INCONSISTENT, "%lld bytes, where the Hub lists %lld",
                        (long long)total, (long long)p->file->size);
    return QK_OK;
}

static qk_status take_outline(void *user, const qk__headers *answer, const uint8_t *bytes,
                              size_t size, qk_error *err)
{
    piece *p = user;
    if (p->have == 0)
        QK_TRY(check_answer(p, answer, err));
    if ((int64_t)size > p->size - p->have)
        return qk__fail(err, QK_ERR_INCONSISTENT, "more bytes than were asked for");
    memcpy(p->bytes + p->have, bytes, size);
    p->have += (int64_t)size;
    return qk__fetch_tick(p->fetch, 0, (int64_t)size)
               ? QK_OK
               : qk__fail(err, QK_ERR_CANCELLED, "stopped");
}

static qk_status end_outline(void *user, const qk__headers *answer, qk_error *err)
{
    const piece *p = user;
    (void)answer;
    return p->have == p->size
               ? QK_OK
               : qk__fail(err, QK_ERR_INCONSISTENT, "%lld bytes, where %lld were asked for",
                          (long long)p->have, (long long)p->size);
}

/* Fetches a part of the file, and writes it into its place in the outline. *bytes, which the caller
 * releases, has it. */
static qk_status fetch_piece(const outlining *o, qk__connection *connection,
                             const qk__repo_file *file, int fd, int64_t from, int64_t size,
                             uint8_t **bytes, qk_error *err)
{
    qk__buffer address = {0};
    *bytes = NULL;
    if (size > MAX_PIECE)
        return qk__fail(err, QK_ERR_MALFORMED, "a footer or header of more than %d MB",
                        MAX_PIECE >> 20);
    piece p = {.file = file, .from = from, .size = size, .fetch = o->fetch};
    p.bytes = *bytes = malloc((size_t)size);
    qk_status status = p.bytes ? QK_OK : qk__nomem(err);
    if (status == QK_OK)
        status = qk__file_address(o->fetch, file, &address, err);
    const qk__request request = {(char *)address.data, from + size, &p,  begin_outline,
                                 take_outline,         end_outline, NULL};
    if (status == QK_OK)
        status = qk__connection_get(connection, &request, err);
    qk__buffer_free(&address);
    return status == QK_OK ? qk__write_at(fd, *bytes, (size_t)size, from, err) : status;
}

static uint64_t little_endian(const uint8_t *bytes, int count)
{
    uint64_t value = 0;
    for (int i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* ---- footers and headers ----------------------------------------------------------------- */

static int64_t guess_tail(outlining *o, int64_t at_least)
{
    pthread_mutex_lock(&o->fetch->lock);
    o->tail = at_least > o->tail ? at_least : o->tail;
    int64_t tail = o->tail;
    pthread_mutex_unlock(&o->fetch->lock);
    return tail;
}

/* Files of a capture are alike: once a footer was longer than expected, others are asked for at
 * such a length. */
static qk_status fetch_tail(outlining *o, qk__connection *connection, const qk__repo_file *file,
                            int fd, qk_error *err)
{
    int64_t size = guess_tail(o, FIRST_TAIL);
    size = size < file->size ? size : file->size;
    uint8_t *bytes;
    qk_status status =
        fetch_piece(o, connection, file, fd, file->size - size, size, &bytes, err);
    int64_t footer = 0;
    if (status == QK_OK && size >= PARQUET_END && memcmp(bytes + size - 4, "PAR1", 4) == 0) {
        footer = (int64_t)little_endian(bytes + size - PARQUET_END, 4) + PARQUET_END;
        status = qk__write_at(fd, "PAR1", 4, 0, err); /* it begins with that, too */
    }
    free(bytes);
    if (status != QK_OK || footer <= size ||
        footer > file->size) /* the reader says what is wrong */
        return status;
    guess_tail(o, footer + footer / 8);
    status =
        fetch_piece(o, connection, file, fd, file->size - footer, footer - size, &bytes, err);
    free(bytes);
    return status;
}

static qk_status fetch_head(const outlining *o, qk__connection *connection,
                            const qk__repo_file *file, int fd, qk_error *err)
{
    int64_t size = file->size < FIRST_HEAD ? file->size : FIRST_HEAD;
    uint8_t *bytes;
    uint64_t header = 0;
    qk_status status = fetch_piece(o, connection, file, fd, 0, size, &bytes, err);
    if (status == QK_OK && size >= HEAD_BEGIN)
        header = little_endian(bytes, HEAD_BEGIN);
    free(bytes);
    if (status != QK_OK || header >= (uint64_t)file->size ||
        (int64_t)header + HEAD_BEGIN <= size)
        return status;
    status = fetch_piece(o, connection, file, fd, size, (int64_t)header + HEAD_BEGIN - size,
                         &bytes, err);
    free(bytes);
    return status;
}

static qk_status fetch_whole(const outlining *o, qk__connection *connection,
                             const qk__repo_file *file, int fd, qk_error *err)
{
    uint8_t *bytes;
    qk_status status = fetch_piece(o, connection, file, fd, 0, file->size, &bytes, err);
    free(bytes);
    return status;
}

/* ---- a file ------------------------------------------------------------------------------ */

/* capture.json tells of moments; a tokenizer tells nothing of a model. */
static role role_of(const outlining *o, const qk__repo_file *file)
{
    const char *name = qk__file_name(file->path);
    if (!o->fetch->settings->model)
        return qk__ends_with(name, ".parquet")     ? ROLE_TAIL
               : strcmp(name, "capture.json") == 0 ? ROLE_WHOLE
                                                   : ROLE_HOLE;
    return qk__ends_with(name, ".safetensors")                      ? ROLE_HEAD
           : qk__ends_with(name, ".json") && !strstr(name, "token") ? ROLE_WHOLE
                                                                    : ROLE_HOLE;
}

/* Opens a file of the outline for writing, as long as the real one. */
static qk_status make_hole(const outlining *o, const qk__repo_file *file, int *fd,
                           qk_error *err)
{
    qk__path path;
    QK_TRY(qk__path_in(&path, o->folder, file->path, err));
    QK_TRY(qk__make_parents(path.text, err));
    *fd = open(path.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return *fd >= 0 && ftruncate(*fd, file->size) == 0
               ? QK_OK
               : qk__fail(err, QK_ERR_IO, "%s: cannot create: %s", path.text, strerror(errno));
}

static qk_status outline_file(outlining *o, const qk__repo_file *file,
                              qk__connection *connection, qk_error *err)
{
    int fd = -1;
    qk_status status = make_hole(o, file, &fd, err);
    if (status == QK_OK && file->size > 0) {
        switch (role_of(o, file)) {
        case ROLE_TAIL:
            status = fetch_tail(o, connection, file, fd, err);
            break;
        case ROLE_HEAD:
            status = fetch_head(o, connection, file, fd, err);
            break;
        case ROLE_WHOLE:
            status = fetch_whole(o, connection, file, fd, err);
            break;
        case ROLE_HOLE:
            break;
        }
    }
    if (fd >= 0)
        close(fd);
    return status;
}

static qk_status outline_one(void *context, size_t i, qk__connection *connection, qk_error *err)
{
    outlining *o = context;
    const qk__repo_file *file = o->missing[i];
    qk_status status = outline_file(o, file, connection, err);
    if (status == QK_OK && !qk__fetch_tick(o->fetch, 1, 0))
        status = qk__fail(err, QK_ERR_CANCELLED, "stopped");
    return qk__context(err, status, "%s", file->path);
}

/* ---- the folder -------------------------------------------------------------------------- */

static qk_status link_cached(const outlining *o, const qk__repo_file *file, qk_error *err)
{
    qk__path path, bytes;
    QK_TRY(qk__path_in(&path, o->folder, file->path, err));
    QK_TRY(qk__path_set(&bytes, err, "%s/snapshots/%s/%s", o->fetch->folder, o->fetch->commit,
                        file->path));
    QK_TRY(qk__make_parents(path.text, err));
    char *target = realpath(bytes.text, NULL);
    qk_status status = QK_OK;
    if (!target || symlink(target, path.text) != 0)
        status = qk__fail(err, QK_ERR_IO, "%s: cannot make this link: %s", path.text,
                          strerror(errno));
    free(target);
    return status;
}

static qk_status make_folder(outlining *o, qk_error *err)
{
    const char *parent = qk__environment("TMPDIR");
    o->folder = qk__format("%s/qkscope-outline.XXXXXX", parent ? parent : "/tmp");
    if (!o->folder)
        return qk__nomem(err);
    if (mkdtemp(o->folder))
        return QK_OK;
    qk_status status =
        qk__fail(err, QK_ERR_IO, "%s: cannot create: %s (TMPDIR chooses another)", o->folder,
                 strerror(errno));
    free(o->folder);
    o->folder = NULL;
    return status;
}

static qk_status check_missing(const outlining *o, qk_error *err)
{
    for (size_t i = 0; i < o->count; i++)
        if (qk__ends_with(o->missing[i]->path, ".gguf"))
            return qk__fail(
                err, QK_ERR_UNSUPPORTED,
                "its weights are GGUF files, which are not looked at on the Hub: qkscope "
                "get --model %s brings them, and prints the path to inspect",
                o->fetch->name);
    return QK_OK;
}

static void announce(const outlining *o, const qk__repo_files *chosen)
{
    size_t asked = 0;
    for (size_t i = 0; i < o->count; i++)
        asked += role_of(o, o->missing[i]) != ROLE_HOLE;
    if (asked > 0)
        qk__tell_notice(&o->fetch->context, QK_NOTICE_REMARK,
                        "%s at %s: looking into %zu file%s on the Hub%s", o->fetch->name,
                        o->fetch->revision, asked, qk__plural(asked),
                        o->count < chosen->count ? " (the others are in the cache)" : "");
}

static qk_status build(outlining *o, const qk__repo_files *chosen, qk_error *err)
{
    char several[4];
    qk_status status = QK_OK;
    QK_TRY(make_folder(o, err));
    for (size_t i = 0, missing = 0; i < chosen->count && status == QK_OK; i++) {
        if (missing < o->count && o->missing[missing] == &chosen->items[i])
            missing++;
        else
            status = link_cached(o, &chosen->items[i], err);
    }
    if (qk__wanted_several(chosen, several, sizeof several)) { /* names are enough to say so */
        for (size_t i = 0; i < o->count && status == QK_OK; i++) {
            int fd = -1;
            status = make_hole(o, o->missing[i], &fd, err);
            if (fd >= 0)
                close(fd);
        }
        return status;
    }
    announce(o, chosen);
    o->fetch->counts_files = true;
    o->fetch->total = (int64_t)o->count;
    return status == QK_OK ? qk__crew_run(&o->crew, o->count, outline_one, o, err) : status;
}

/* ---- all together ------------------------------------------------------------------------ */

static qk_status find_missing(outlining *o, const qk__repo_files *chosen, qk_error *err)
{
    o->missing = qk__calloc(chosen->count, sizeof(*o->missing));
    if (!o->missing && chosen->count > 0)
        return qk__nomem(err);
    for (size_t i = 0; i < chosen->count; i++)
        if (!qk__snapshot_has(o->fetch->folder, o->fetch->commit, &chosen->items[i]))
            o->missing[o->count++] = &chosen->items[i];
    return QK_OK;
}

static qk_status outline(outlining *o, qk__repo_files *files, qk_hub_snapshot *snapshot,
                         qk_error *err)
{
    qk__fetch *f = o->fetch;
    qk__connection **connection = &o->crew.connections[0];
    qk__found found;
    if (!f->access.offline)
        QK_TRY(qk__connection_open(connection, f, err));
    QK_TRY(qk__fetch_find(f, *connection, false, files, &found, err));
    QK_TRY(find_missing(o, &found.chosen, err));
    size_t cached = found.chosen.count - o->count;
    for (size_t i = 0; i < o->count && f->access.offline; i++)
        QK_TRY(qk__fetch_check_size(f, o->missing[i], err));
    if (o->count > 0 && !f->access.offline) {
        QK_TRY(check_missing(o, err));
        QK_TRY(build(o, &found.chosen, err));
    } else if (o->count > 0 && cached > 0) {
        qk__tell_notice(&f->context, QK_NOTICE_WARNING,
                        "%s: %zu of its %zu files are not in the cache, and nothing may be "
                        "fetched: this is what is there",
                        f->name, o->count, found.chosen.count);
    }
    QK_TRY(qk__fetch_describe(f, &found.chosen, found.form, snapshot, err));
    snapshot->cached_files = cached;
    if (o->folder) {
        free(snapshot->path);
        snapshot->path = o->folder;
        snapshot->is_outline = true;
        o->folder = NULL;
        return QK_OK;
    }
    bool there = found.known ? cached > 0 : qk__is_dir(snapshot->path);
    return there ? QK_OK : qk__fail_not_cached(f, err);
}

qk_status qk_hub_outline(const qk_hub_settings *settings, qk_hub_snapshot **snapshot,
                         qk_error *err)
{
    QK_NEED(err, snapshot);
    *snapshot = NULL;
    QK_NEED(err, settings);
    qk__fetch fetch;
    outlining o = {.fetch = &fetch, .crew.fetch = &fetch};
    qk__repo_files files = {0};
    qk_hub_snapshot *made = calloc(1, sizeof *made);
    qk_status status = qk__fetch_open(&fetch, settings, err);
    if (status == QK_OK)
        status = made ? qk__fetch_about(&fetch, outline(&o, &files, made, err), err)
                      : qk__nomem(err);
    qk__crew_close(&o.crew);
    if (o.folder)
        qk__remove_tree(o.folder);
    free(o.folder);
    free(o.missing);
    qk__repo_files_free(&files);
    qk__fetch_close(&fetch);
    if (status != QK_OK)
        qk_hub_snapshot_free(&made);
    *snapshot = made;
    return status;
}
