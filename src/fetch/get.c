/* SPDX-License-Identifier: Apache-2.0 */
/* Fetching what is wanted and not in the cache: the commit of a revision, its list of files, and then each
 * missing one by one request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "fetch/get.h"

enum { JOBS = 4, MAX_JOBS = 64, MAX_PAGES = 20000 };
static const int64_t MAX_HTTP_BYTES = 50000000000; /* above, the Hub wants its own protocol */
static const int64_t MEGABYTE = 1000000;

/* ---- open and close ---------------------------------------------------------------------- */

qk_status qk__fetch_open(qk__fetch *f, const qk_hub_settings *s, qk_error *err)
{
    *f = (qk__fetch){.settings = s,
                     .kind = s->model ? &qk__hub_model : &qk__hub_dataset,
                     .name = s->name,
                     .revision = s->revision && *s->revision ? s->revision : "main"};
    pthread_mutex_init(&f->lock, NULL);
    atomic_init(&f->requests, 0);
    atomic_init(&f->stopped, false);
    if (!s->name || !*s->name)
        return qk__fail(err, QK_ERR_ARGUMENT, "no name given");
    if (!qk__hub_is_name(s->name))
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: not the name of a Hub %s, org/name", s->name,
                        f->kind->what);
    if (!qk__hub_is_revision(f->revision))
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: not a revision", f->revision);
    QK_TRY(qk__hub_cache(s->cache, &f->cache, err));
    f->folder = qk__hub_folder(f->cache, f->kind, s->name);
    if (!f->folder)
        return qk__nomem(err);
    return qk__access_open(&f->access, s, err);
}

void qk__fetch_close(qk__fetch *f)
{
    qk__access_close(&f->access);
    qk__fetch_unload(f);
    free(f->folder);
    free(f->cache);
    pthread_mutex_destroy(&f->lock);
}

qk_status qk__fetch_about(const qk__fetch *f, qk_status status, qk_error *err)
{
    return qk__context(err, status, "%s", f->name);
}

/* ---- commit and files -------------------------------------------------------------------- */

char *qk__fetch_address(const qk__fetch *f, const char *tail, const char *word)
{
    qk__buffer out = {0};
    bool done = qk__buffer_printf(&out, NULL, "%s/api/%s/%s%s", f->access.endpoint,
                                  f->kind->folder, f->name, tail) == QK_OK &&
                qk__quote(&out, word, false, NULL) == QK_OK &&
                qk__buffer_append(&out, "", 1, NULL) == QK_OK;
    if (!done)
        qk__buffer_free(&out);
    return (char *)out.data;
}

qk_status qk__fetch_json(qk__connection *connection, const char *address, json_t **root,
                         qk_error *err)
{
    qk__buffer text = {0};
    *root = NULL;
    qk_status status = address ? qk__connection_get_text(connection, address, &text, NULL, err)
                               : qk__nomem(err);
    if (status == QK_OK)
        status =
            qk__context(err, qk__json_parse(root, text.data, text.size, QK__JSON_NO_ZEROS, err),
                        "the Hub's answer");
    qk__buffer_free(&text);
    return status;
}

qk_status qk__fetch_refs(qk__fetch *f, qk__connection *connection, json_t **root, qk_error *err)
{
    char *address = qk__fetch_address(f, "/refs", "");
    qk_status status = qk__fetch_json(connection, address, root, err);
    free(address);
    return status;
}

static qk_status fail_not_cached(const qk__fetch *f, qk_error *err)
{
    return qk__fail(
        err, QK_ERR_NOT_FOUND,
        "revision %s of this %s is not in the cache %s, and nothing may be fetched "
        "(--offline or HF_HUB_OFFLINE); without that: qkscope get %s%s --revision %s",
        f->revision, f->kind->what, f->cache, f->kind->option, f->name, f->revision);
}

static qk_status ask_commit(qk__fetch *f, qk__connection *connection, qk_error *err)
{
    char *address = qk__fetch_address(f, "/revision/", f->revision);
    json_t *root;
    qk_status status = qk__fetch_json(connection, address, &root, err);
    if (status == QK_OK) {
        const char *sha = json_string_value(json_object_get(root, "sha"));
        if (sha && (qk__is_hash(sha, 40) || qk__is_hash(sha, 64)))
            memcpy(f->commit, sha, strlen(sha) + 1);
        else
            status =
                qk__fail(err, QK_ERR_MALFORMED,
                         "the Hub's answer names no commit; is %s a Hub?", f->access.endpoint);
        json_decref(root);
    }
    free(address);
    return status;
}

qk_status qk__fetch_settle_commit(qk__fetch *f, qk__connection *connection, qk_error *err)
{
    size_t length = strlen(f->revision);
    if (qk__is_hash(f->revision, 40) || qk__is_hash(f->revision, 64)) {
        memcpy(f->commit, f->revision, length + 1);
        return QK_OK;
    }
    if ((f->settings->cached || f->access.offline) && qk__is_dir(f->folder))
        QK_TRY(qk__hub_cached_commit(f->folder, f->revision, f->commit, err));
    if (*f->commit)
        return QK_OK;
    if (f->access.offline)
        return fail_not_cached(f, err);
    return ask_commit(f, connection, err);
}

/* All pages of the list. */
static qk_status ask_files(qk__fetch *f, qk__connection *connection, qk__repo_files *files,
                           qk_error *err)
{
    char *base = qk__fetch_address(f, "/tree/", f->commit);
    char *address = base ? qk__format("%s?recursive=true&expand=false", base) : NULL;
    free(base);
    qk_status status = address ? QK_OK : qk__nomem(err);
    for (int page = 0; status == QK_OK && address; page++) {
        qk__buffer text = {0};
        char *next = NULL;
        size_t before = files->count;
        status = qk__connection_get_text(connection, address, &text, &next, err);
        if (status == QK_OK)
            status = qk__context(err, qk__listing_read(text.data, text.size, files, err),
                                 "the Hub's list of files");
        if (status == QK_OK && next &&
            (page == MAX_PAGES || (text.size < 3 && files->count == before)))
            status = qk__fail(err, QK_ERR_MALFORMED, "the Hub's list of files does not end");
        qk__buffer_free(&text);
        free(address);
        address = status == QK_OK && next ? qk__format("%s%s", f->access.origin, next) : NULL;
        if (status == QK_OK && next && !address)
            status = qk__nomem(err);
        free(next);
    }
    free(address);
    return status == QK_OK
               ? qk__context(err, qk__repo_files_sort(files, err), "the Hub's list of files")
               : status;
}

qk_status qk__fetch_files(qk__fetch *f, qk__connection *connection, bool keep,
                          qk__repo_files *files, bool *known, qk_error *err)
{
    QK_TRY(qk__tree_file_read(f->folder, f->commit, files, known, err));
    if (*known || f->access.offline)
        return QK_OK;
    QK_TRY(ask_files(f, connection, files, err));
    *known = true;
    if (!keep)
        return QK_OK;
    qk_status status = qk__hub_prepare(f->cache, f->folder, err);
    if (status == QK_OK)
        status = qk__tree_file_write(f->folder, f->commit, files, err);
    return status == QK_ERR_IO && f->hurried ? QK_OK : status; /* nobody may write there */
}

qk_status qk__fetch_choose(const qk__fetch *f, qk__repo_files *files, size_t *count,
                           qk_error *err)
{
    const qk_hub_settings *s = f->settings;
    const qk__wanted wanted = {
        .part = s->part == QK_HUB_ALL && s->model && s->num_files == 0 ? QK_HUB_MODEL : s->part,
        .layers = &s->layers,
        .heads = &s->heads,
        .group = s->q_per_kv_group,
        .prefix = s->prefix,
        .patterns = s->files,
        .num_patterns = s->num_files};
    return qk__wanted_choose(&wanted, files, count, err);
}

/* ---- the files that are missing ---------------------------------------------------------- */

typedef struct plan {
    qk__fetch *fetch;
    qk__download *items;
    size_t count;
    qk__names leftovers;
    qk__connection *connections[MAX_JOBS];
    bool last_chance;
    size_t first_failed; /* of the list; count = none */
    qk_status failed;
    qk_error failure;
} plan;

static void fetch_one(void *context, size_t i, int worker)
{
    plan *p = context;
    qk__fetch *f = p->fetch;
    qk_error err = {.status = QK_OK};
    qk__download *d = &p->items[i];
    if (atomic_load(&f->stopped) || (p->last_chance && !d->busy))
        return;
    qk__connection **connection = &p->connections[worker];
    qk_status status = *connection ? QK_OK : qk__connection_open(connection, f, &err);
    if (status == QK_OK)
        status = qk__download_run(f, *connection, d, &p->leftovers, p->last_chance, &err);
    if (status == QK_OK)
        return;
    qk__context(&err, status, "%s", d->file->path);
    pthread_mutex_lock(&f->lock);
    /* What fails first in the list is told, and what is only cancelled for it never. */
    bool worse = p->failed == QK_OK || (p->failed == QK_ERR_CANCELLED && status != p->failed) ||
                 (i < p->first_failed && status != QK_ERR_CANCELLED);
    if (worse) {
        p->failed = status;
        p->failure = err;
        p->first_failed = i;
    }
    pthread_mutex_unlock(&f->lock);
    atomic_store(&f->stopped, true);
}

static qk_status fetch_all(plan *p, qk_error *err)
{
    qk__fetch *f = p->fetch;
    int jobs = f->settings->jobs > 0 ? f->settings->jobs : JOBS;
    jobs = jobs < MAX_JOBS ? jobs : MAX_JOBS;
    qk__parallel_for(p->count, jobs, fetch_one, p);
    /* What other processes were fetching should be there by now; else it is fetched twice. */
    p->last_chance = true;
    bool any = false;
    for (size_t i = 0; i < p->count; i++)
        any |= p->items[i].busy;
    if (any)
        qk__parallel_for(p->count, jobs, fetch_one, p);
    if (p->failed != QK_OK)
        return qk__fail(err, p->failed, "%s", p->failure.message);
    return atomic_load(&f->stopped) ? qk__fail(err, QK_ERR_CANCELLED, "stopped") : QK_OK;
}

/* ---- before it begins -------------------------------------------------------------------- */

void qk__size_text(int64_t bytes, char text[24])
{
    double b = (double)bytes;
    if (bytes < MEGABYTE)
        snprintf(text, 24, "%.1f kB", b / 1e3);
    else if (bytes < 1000 * MEGABYTE)
        snprintf(text, 24, "%.1f MB", b / 1e6);
    else
        snprintf(text, 24, "%.2f GB", b / 1e9);
}

static const char *ending(size_t count)
{
    return count == 1 ? "" : "s";
}

static qk_status check_sizes(const plan *p, int64_t bytes, qk_error *err)
{
    struct statvfs disk;
    const qk__fetch *f = p->fetch;
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].file->size > MAX_HTTP_BYTES)
            return qk__fail(
                err, QK_ERR_UNSUPPORTED,
                "%s has more than 50 GB, which the Hub does not give out over plain "
                "HTTP: fetch it with hf download, which shares the cache",
                p->items[i].file->path);
    if (statvfs(f->folder, &disk) != 0)
        return QK_OK;
    char wanted[24], there[24];
    int64_t space = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
    qk__size_text(bytes, wanted);
    qk__size_text(space, there);
    if (space < bytes)
        return qk__fail(err, QK_ERR_IO,
                        "%s to fetch, and %s are free in %s: make room, or choose another "
                        "folder with HF_HUB_CACHE",
                        wanted, there, f->cache);
    return QK_OK;
}

static void announce(const plan *p, int64_t bytes, size_t of)
{
    qk__fetch *f = p->fetch;
    char size[24];
    qk__size_text(bytes, size);
    qk__fetch_notice(f, QK_NOTICE_REMARK, "%s at %s: fetching %zu file%s, %s%s", f->name,
                     f->revision, p->count, ending(p->count), size,
                     p->count < of ? " (the others are in the cache)" : "");
}

static qk_status refuse_offline(const plan *p, int64_t bytes, size_t of, qk_error *err)
{
    const qk__fetch *f = p->fetch;
    char size[24];
    qk__size_text(bytes, size);
    return qk__fail(
        err, QK_ERR_NOT_FOUND,
        "%zu of %zu files (%s) of revision %s are not in the cache, %s%s, and nothing "
        "may be fetched (--offline or HF_HUB_OFFLINE): complete it with qkscope get%s%s",
        p->count, of, size, f->revision, p->items[0].file->path, p->count > 1 ? " for one" : "",
        f->settings->model ? "" : ", or choose what is there with --layers and ",
        f->settings->model ? "" : "--heads");
}

/* ---- all together ------------------------------------------------------------------------ */

static qk_status fetch_missing(plan *p, size_t of, qk_error *err)
{
    qk__fetch *f = p->fetch;
    int64_t bytes = 0;
    for (size_t i = 0; i < p->count; i++)
        bytes += p->items[i].file->size;
    if (p->count > 0 && f->access.offline)
        return refuse_offline(p, bytes, of, err);
    if (f->access.offline)
        return QK_OK;
    if (p->count > 0) {
        QK_TRY(qk__hub_prepare(f->cache, f->folder, err));
        QK_TRY(check_sizes(p, bytes, err));
        QK_TRY(qk__download_leftovers(f, &p->leftovers, err));
        announce(p, bytes, of);
        f->total = bytes;
        QK_TRY(fetch_all(p, err));
    }
    /* Last: until the new commit is complete, the revision means the one that was. Where the cache
     * named the commit and has its files, it may be one that nobody may write to. */
    return f->settings->cached && p->count == 0
               ? QK_OK
               : qk__hub_write_ref(f->folder, f->revision, f->commit, err);
}

/* The files that the snapshot lacks, in p->items. */
static qk_status find_missing(plan *p, const qk__repo_files *chosen, qk_error *err)
{
    p->items = qk__calloc(chosen->count, sizeof *p->items);
    if (!p->items && chosen->count > 0)
        return qk__nomem(err);
    for (size_t i = 0; i < chosen->count; i++)
        if (!qk__snapshot_has(p->fetch->folder, p->fetch->commit, &chosen->items[i]))
            p->items[p->count++] = (qk__download){.file = &chosen->items[i]};
    return QK_OK;
}

/* What the names of all files told, before some were chosen. */
static qk_status fill_in(const plan *p, const qk__repo_files *chosen, qk__wanted_form form,
                         qk_hub_snapshot *snapshot, qk_error *err)
{
    const qk__fetch *f = p->fetch;
    const char *gguf = f->settings->model ? qk__wanted_gguf(chosen) : NULL;
    snapshot->path = qk__format("%s/snapshots/%s", f->folder, f->commit);
    snapshot->commit = qk__strdup(f->commit);
    snapshot->gguf = gguf && snapshot->path ? qk__path_join(snapshot->path, gguf) : NULL;
    snapshot->num_files = chosen->count;
    for (size_t i = 0; i < chosen->count; i++)
        snapshot->bytes += chosen->items[i].size;
    for (size_t i = 0; i < p->count; i++)
        snapshot->fetched_files += p->items[i].fetched;
    snapshot->fetched_bytes = f->came;
    snapshot->requests = atomic_load(&f->requests);
    snapshot->num_layers = form.num_layers;
    snapshot->q_per_kv_group = form.group;
    return snapshot->path && snapshot->commit && (!gguf || snapshot->gguf) ? QK_OK
                                                                           : qk__nomem(err);
}

/* A snapshot of a program that keeps no list of files is used also where the Hub cannot be asked, as
 * it was before there were such lists. */
static qk_status list_files(plan *p, qk__repo_files *files, bool *known, qk_error *err)
{
    qk__fetch *f = p->fetch;
    qk_error why = {.status = QK_OK};
    char *snapshot = qk__format("%s/snapshots/%s", f->folder, f->commit);
    if (!snapshot)
        return qk__nomem(err);
    bool there = f->settings->cached && qk__is_dir(snapshot);
    free(snapshot);
    f->hurried = there;
    qk_status status = qk__fetch_files(f, p->connections[0], true, files, known, &why);
    f->hurried = false;
    if (status == QK_OK)
        return QK_OK;
    if (!there || status == QK_ERR_NOMEM || status == QK_ERR_CANCELLED)
        return qk__fail(err, status, "%s", why.message);
    qk__fetch_notice(f, QK_NOTICE_WARNING,
                     "%s: taken as it is in the cache; whether it is whole is not known: %s",
                     f->name, why.message);
    qk__repo_files_free(files);
    *known = false;
    return QK_OK;
}

static qk_status get(plan *p, qk__repo_files *files, qk_hub_snapshot *snapshot, qk_error *err)
{
    qk__fetch *f = p->fetch;
    qk__repo_files chosen = {0};
    qk__wanted_form form = {0};
    bool known = false;
    if (!f->access.offline)
        QK_TRY(qk__connection_open(&p->connections[0], f, err));
    QK_TRY(qk__fetch_settle_commit(f, p->connections[0], err));
    QK_TRY(list_files(p, files, &known, err));
    if (known) {
        form = qk__wanted_shape(files, f->settings->prefix);
        QK_TRY(qk__fetch_choose(f, files, &chosen.count, err));
        chosen.items = files->items;
        if (chosen.count == 0)
            return qk__fail(
                err, QK_ERR_NOT_FOUND, "none of the %zu files of revision %s is wanted%s",
                files->count, f->revision,
                f->settings->part == QK_HUB_CAPTURE || f->settings->layers.count > 0 ||
                        f->settings->heads.count > 0
                    ? ": there are no folders of heads such as l00h00q, or not these"
                    : "");
        QK_TRY(find_missing(p, &chosen, err));
        QK_TRY(fetch_missing(p, chosen.count, err));
    }
    QK_TRY(fill_in(p, &chosen, form, snapshot, err));
    return known || qk__is_dir(snapshot->path) ? QK_OK : fail_not_cached(f, err);
}

qk_status qk_hub_get(const qk_hub_settings *settings, qk_hub_snapshot **snapshot, qk_error *err)
{
    QK_NEED(err, snapshot);
    *snapshot = NULL;
    QK_NEED(err, settings);
    qk__fetch fetch;
    plan p = {.fetch = &fetch};
    qk__repo_files files = {0};
    qk_hub_snapshot *made = calloc(1, sizeof *made);
    qk_status status = qk__fetch_open(&fetch, settings, err);
    if (status == QK_OK)
        status =
            made ? qk__fetch_about(&fetch, get(&p, &files, made, err), err) : qk__nomem(err);
    for (size_t i = 0; i < MAX_JOBS; i++)
        qk__connection_close(&p.connections[i]);
    qk__names_free(&p.leftovers);
    free(p.items);
    qk__repo_files_free(&files);
    qk__fetch_close(&fetch);
    if (status != QK_OK)
        qk_hub_snapshot_free(&made);
    *snapshot = made;
    return status;
}

void qk_hub_snapshot_free(qk_hub_snapshot **snapshot)
{
    qk_hub_snapshot *s = *snapshot;
    if (!s)
        return;
    free(s->path);
    free(s->commit);
    free(s->gguf);
    free(s);
    *snapshot = NULL;
}
