/* SPDX-License-Identifier: Apache-2.0 */
/* Removing what was fetched. Links go first, so that no name ever leads to nothing; then bytes to which no
 * link leads. They are renamed to what a download that was cut off leaves, and looked at once more: whoever
 * made a link meanwhile has them back. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "fetch/get.h"

enum { MAX_DEPTH = 1100 };

typedef struct dropping {
    qk__fetch *fetch;
    const qk__repo_file **items; /* in the cache, wanted, and recorded */
    size_t count;
    qk__names linked; /* names in blobs/ to which links lead, sorted */
    size_t capacity;
} dropping;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool has_name(const qk__names *names, const char *name)
{
    return names->count > 0 &&
           bsearch(&name, names->items, names->count, sizeof *names->items, compare_names);
}

static qk_status find_blob(qk__path *path, const qk__fetch *fetch, const qk__repo_file *file,
                           const char *ending, qk_error *err)
{
    return qk__path_set(path, err, "%s/blobs/%s%s", fetch->folder, qk__repo_file_etag(file),
                        ending);
}

/* ---- links ------------------------------------------------------------------------------- */

static qk_status note_link(dropping *d, const char *path, qk_error *err)
{
    char target[4096];
    ssize_t size = readlink(path, target, sizeof target - 1);
    if (size <= 0)
        return QK_OK;
    target[size] = 0;
    const char *name = strrchr(target, '/');
    if (d->linked.count == d->capacity) {
        void *grown = qk__grow(d->linked.items, &d->capacity, sizeof *d->linked.items);
        if (!grown)
            return qk__nomem(err);
        d->linked.items = grown;
    }
    if (!(d->linked.items[d->linked.count] = qk__strdup(name ? name + 1 : target)))
        return qk__nomem(err);
    d->linked.count++;
    return QK_OK;
}

/* Those of all snapshots. What cannot be listed fails: it may have some. */
static qk_status find_links(dropping *d, const char *folder, int depth, qk_error *err)
{
    qk__names names;
    struct stat st;
    if (depth > MAX_DEPTH)
        return qk__fail(err, QK_ERR_IO, "%s: too many folders", folder);
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++) {
        char *path = qk__path_join(folder, names.items[i]);
        if (!path)
            status = qk__nomem(err);
        else if (lstat(path, &st) != 0)
            status = errno == ENOENT
                         ? QK_OK
                         : qk__fail(err, QK_ERR_IO, "%s: %s", path, strerror(errno));
        else if (S_ISLNK(st.st_mode))
            status = note_link(d, path, err);
        else if (S_ISDIR(st.st_mode))
            status = find_links(d, path, depth + 1, err);
        free(path);
    }
    qk__names_free(&names);
    return status;
}

static qk_status list_links(dropping *d, qk_error *err)
{
    qk__path snapshots;
    qk__names_free(&d->linked);
    d->linked = (qk__names){0};
    d->capacity = 0;
    qk_status status = qk__path_in(&snapshots, d->fetch->folder, "snapshots", err);
    if (status == QK_OK && qk__is_dir(snapshots.text))
        status = find_links(d, snapshots.text, 0, err);
    if (d->linked.count > 1)
        qsort(d->linked.items, d->linked.count, sizeof *d->linked.items, compare_names);
    return status;
}

/* The link of a file, and the folders of the snapshot that are empty then. */
static qk_status remove_link(const dropping *d, const qk__repo_file *file, qk_error *err)
{
    qk__path top, path;
    struct stat st;
    QK_TRY(qk__path_set(&top, err, "%s/snapshots/%s", d->fetch->folder, d->fetch->commit));
    QK_TRY(qk__path_in(&path, top.text, file->path, err));
    if (lstat(path.text, &st) == 0 && S_ISLNK(st.st_mode) && unlink(path.text) != 0)
        return qk__fail(err, QK_ERR_IO, "%s: cannot remove: %s", path.text, strerror(errno));
    char *above = path.text + strlen(top.text);
    for (char *slash; (slash = strrchr(path.text, '/')) > above;) {
        *slash = 0;
        if (rmdir(path.text) != 0)
            break;
    }
    return QK_OK;
}

/* ---- bytes ------------------------------------------------------------------------------- */

#define ASIDE ".dropped0.qkscope.incomplete"

/* Takes the bytes away from their name, unless a link leads there. */
static qk_status set_aside(dropping *d, qk_error *err)
{
    size_t kept = 0;
    QK_TRY(list_links(d, err));
    for (size_t i = 0; i < d->count; i++)
        if (!has_name(&d->linked, qk__repo_file_etag(d->items[i])))
            d->items[kept++] = d->items[i];
    d->count = kept;
    QK_TRY(qk__record_add(d->fetch, '-', d->items, d->count, err));
    for (size_t i = 0; i < d->count; i++) {
        qk__path blob, aside;
        QK_TRY(find_blob(&blob, d->fetch, d->items[i], "", err));
        QK_TRY(find_blob(&aside, d->fetch, d->items[i], ASIDE, err));
        if (rename(blob.text, aside.text) != 0 && errno != ENOENT)
            return qk__fail(err, QK_ERR_IO, "%s: cannot rename: %s", blob.text,
                            strerror(errno));
    }
    return QK_OK;
}

/* A link that came meanwhile has its bytes back, unless it has fetched them. */
static qk_status settle_link(dropping *d, size_t i, int64_t *freed, qk_error *err)
{
    qk__path blob, aside;
    QK_TRY(find_blob(&blob, d->fetch, d->items[i], "", err));
    QK_TRY(find_blob(&aside, d->fetch, d->items[i], ASIDE, err));
    if (has_name(&d->linked, qk__repo_file_etag(d->items[i])))
        (void)(link(aside.text, blob.text) !=
               0); /* where links are not to be had, it is fetched again */
    if (unlink(aside.text) == 0 && !qk__is_there(blob.text))
        *freed += d->items[i]->size;
    return QK_OK;
}

/* ---- all together ------------------------------------------------------------------------ */

/* Blobs that are links belong to the shared store, and nobody fetched them here. */
static bool has_bytes(const qk__fetch *f, const qk__repo_file *file)
{
    struct stat st;
    qk__path blob;
    return find_blob(&blob, f, file, "", NULL) == QK_OK && lstat(blob.text, &st) == 0 &&
           S_ISREG(st.st_mode);
}

static qk_status choose(dropping *d, const qk__repo_files *chosen, qk_error *err)
{
    qk__names recorded;
    qk_status status = qk__record_read(d->fetch, &recorded, err);
    if (status == QK_OK && !(d->items = qk__calloc(chosen->count + 1, sizeof(*d->items))))
        status = qk__nomem(err);
    for (size_t i = 0; i < chosen->count && status == QK_OK; i++) {
        const qk__repo_file *file = &chosen->items[i];
        qk__path aside;
        if (find_blob(&aside, d->fetch, file, ASIDE, NULL) == QK_OK)
            unlink(aside.text); /* of a call that was killed */
        bool before = false;    /* the same bytes under another name */
        for (size_t k = 0; k < d->count && !before; k++)
            before = strcmp(qk__repo_file_etag(d->items[k]), qk__repo_file_etag(file)) == 0;
        if (!has_name(&recorded, qk__repo_file_etag(file)) || !has_bytes(d->fetch, file))
            continue;
        status = remove_link(d, file, err);
        if (!before)
            d->items[d->count++] = file;
    }
    qk__names_free(&recorded);
    return status;
}

static qk_status drop(dropping *d, qk__repo_files *files, int64_t *freed, qk_error *err)
{
    qk__fetch *f = d->fetch;
    bool known;
    qk__repo_files chosen = {0};
    if (!qk__is_dir(f->folder))
        return QK_OK;
    QK_TRY(qk__hub_cached_commit(f->folder, f->revision, f->commit, err));
    if (!*f->commit)
        return QK_OK;
    QK_TRY(qk__tree_file_read(f->folder, f->commit, files, &known, err));
    if (!known)
        return QK_OK;
    QK_TRY(qk__fetch_choose(f, files, &chosen.count, err));
    chosen.items = files->items;
    QK_TRY(choose(d, &chosen, err));
    if (d->count == 0)
        return QK_OK;
    QK_TRY(set_aside(d, err));
    QK_TRY(list_links(d, err));
    for (size_t i = 0; i < d->count; i++)
        QK_TRY(settle_link(d, i, freed, err));
    return QK_OK;
}

qk_status qk_hub_drop(const qk_hub_settings *settings, int64_t *freed, qk_error *err)
{
    QK_NEED(err, freed);
    *freed = 0;
    QK_NEED(err, settings);
    qk__fetch fetch;
    dropping d = {.fetch = &fetch};
    qk__repo_files files = {0};
    qk_status status = qk__fetch_open(&fetch, settings, err);
    if (status == QK_OK && settings->record)
        status = qk__fetch_about(&fetch, drop(&d, &files, freed, err), err);
    qk__names_free(&d.linked);
    free(d.items);
    qk__repo_files_free(&files);
    qk__fetch_close(&fetch);
    return status;
}
