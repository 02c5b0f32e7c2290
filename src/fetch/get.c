/* SPDX-License-Identifier: Apache-2.0 */
/* Fetching what is wanted and not in the cache: the commit of a revision, its list of files, and then each
 * missing one by one request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/json_build.h"
#include "fetch/get.h"

enum { MAX_PAGES = 5000 };
static const int64_t MAX_HTTP_BYTES = 50000000000; /* above, the Hub wants its own protocol */

/* ---- open and close ---------------------------------------------------------------------- */

qk_status qk__fetch_open(qk__fetch *f, const qk_hub_settings *s, qk_error *err)
{
    *f = (qk__fetch){.settings = s,
                     .relay = {.to = &s->context, .lock = &f->lock},
                     .kind = s->model ? &qk__hub_model : &qk__hub_dataset,
                     .name = s->name,
                     .revision = s->revision && *s->revision ? s->revision : "main"};
    f->context = qk__relay_context(&f->relay);
    pthread_mutex_init(&f->lock, NULL);
    atomic_init(&f->requests, 0);
    atomic_init(&f->stopped, false);
    if (!s->name || !*s->name)
        return qk__fail(err, QK_ERR_ARGUMENT, "no name given");
    if (!qk__hub_is_name(s->name))
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: not the name of a Hub %s, org/name", s->name,
                        f->kind->what);
    if (!qk__hub_is_revision(f->revision) || (s->revision && !*s->revision))
        return qk__fail(err, QK_ERR_ARGUMENT, "\"%s\": not a revision, a branch, tag or commit",
                        s->revision);
    QK_TRY(qk__hub_cache(s->context.hub_cache, &f->cache, err));
    f->folder = qk__hub_folder(f->cache, f->kind, s->name);
    if (!f->folder)
        return qk__nomem(err);
    return qk__access_open(&f->access, &s->context, err);
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

qk_status qk__fail_not_cached(const qk__fetch *f, qk_error *err)
{
    return qk__fail(
        err, QK_ERR_NOT_FOUND,
        "revision %s of this %s is not in the cache %s, and nothing may be fetched "
        "(--offline or HF_HUB_OFFLINE); without that: qkscope get %s%s --revision %s",
        f->revision, f->kind->what, f->cache, f->kind->option, f->name, f->revision);
}

qk_status qk__fetch_take_commit(qk__fetch *f, const json_t *root, qk_error *err)
{
    const char *sha = qk__json_string(root, "sha");
    if (!qk__is_hash(sha, 40) && !qk__is_hash(sha, 64))
        return qk__fail(err, QK_ERR_MALFORMED, "the Hub's answer names no commit; is %s a Hub?",
                        f->access.endpoint);
    memcpy(f->commit, sha, strlen(sha) + 1);
    return QK_OK;
}

static qk_status ask_commit(qk__fetch *f, qk__connection *connection, qk_error *err)
{
    json_t *root;
    QK_TRY(qk__fetch_ask(connection, "/revision/", f->revision, &root, err));
    qk_status status = qk__fetch_take_commit(f, root, err);
    json_decref(root);
    return status;
}

/* A file without a commit is as good as none where the Hub can be asked. */
static qk_status ask_cache(qk__fetch *f, qk_error *err)
{
    qk_status status = qk__hub_cached_commit(f->folder, f->revision, f->commit, err);
    f->mends_ref = status == QK_ERR_MALFORMED && !f->access.offline;
    if (f->mends_ref)
        *f->commit = 0;
    return f->mends_ref ? QK_OK : status;
}

qk_status qk__fetch_settle_commit(qk__fetch *f, qk__connection *connection, qk_error *err)
{
    size_t length = strlen(f->revision);
    if (qk__is_hash(f->revision, 40) || qk__is_hash(f->revision, 64)) {
        memcpy(f->commit, f->revision, length + 1);
        return QK_OK;
    }
    if ((f->settings->cached || f->access.offline) && qk__is_dir(f->folder))
        QK_TRY(ask_cache(f, err));
    if (*f->commit)
        return QK_OK;
    if (f->access.offline)
        return qk__fail_not_cached(f, err);
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
        size_t entries = 0;
        status = qk__connection_get_text(connection, address, &text, &next, err);
        if (status == QK_OK)
            status = qk__text_fault(
                f, &text, qk__listing_read(text.data, text.size, files, &entries, err),
                "the Hub's list of files", err);
        if (status == QK_OK && next && (page == MAX_PAGES || entries == 0))
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
        .num_patterns = s->num_files,
        .words = {s->text_name, s->text_split}};
    return qk__wanted_choose(&wanted, files, count, err);
}

/* ---- the files that are missing ---------------------------------------------------------- */

typedef struct plan {
    qk__fetch *fetch;
    qk__download *items;
    size_t count;
    qk__names leftovers;
    qk__crew crew;
    bool last_chance;
} plan;

static qk_status fetch_one(void *context, size_t i, qk__connection *connection, qk_error *err)
{
    plan *p = context;
    qk__download *d = &p->items[i];
    if (p->last_chance && !d->busy)
        return QK_OK;
    qk_status status =
        qk__download_run(p->fetch, connection, d, &p->leftovers, p->last_chance, err);
    return qk__context(err, status, "%s", d->file->path);
}

static qk_status fetch_each(plan *p, qk_error *err)
{
    QK_TRY(qk__crew_run(&p->crew, p->count, fetch_one, p, err));
    /* What other processes were fetching should be there by now; else it is fetched twice. */
    p->last_chance = true;
    bool any = false;
    for (size_t i = 0; i < p->count; i++)
        any |= p->items[i].busy;
    return any ? qk__crew_run(&p->crew, p->count, fetch_one, p, err) : QK_OK;
}

static qk_status fetch_all(plan *p, qk_error *err)
{
    qk_status status = fetch_each(p, err);
    if (status != QK_ERR_CANCELLED)
        return status;
    return qk__fail(
        err, QK_ERR_CANCELLED,
        "stopped; what was fetched stays in the cache, and the same command goes on");
}

/* ---- before it begins -------------------------------------------------------------------- */

static qk_status check_sizes(const plan *p, qk_error *err)
{
    struct statvfs disk;
    const qk__fetch *f = p->fetch;
    int64_t bytes = 0;
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].file->size > MAX_HTTP_BYTES)
            return qk__fail(
                err, QK_ERR_UNSUPPORTED,
                "%s has more than 50 GB, which the Hub does not give out over plain "
                "HTTP: fetch it with hf download, which shares the cache",
                p->items[i].file->path);
    /* What a run that was cut off has gathered is copied before it is removed, and then the rest comes. */
    for (size_t i = 0; i < p->count; i++) {
        int64_t there = qk__download_gathered(f, p->items[i].file, &p->leftovers);
        int64_t left = p->items[i].file->size - there;
        bytes += left > there ? left : there;
    }
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
    qk__tell_notice(&f->context, QK_NOTICE_REMARK, "%s at %s: fetching %zu file%s, %s%s",
                    f->name, f->revision, p->count, qk__plural(p->count), size,
                    p->count < of ? " (the others are in the cache)" : "");
}

qk_status qk__fetch_check_size(const qk__fetch *f, const qk__repo_file *file, qk_error *err)
{
    if (!qk__snapshot_has_other(f->folder, f->commit, file))
        return QK_OK;
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s is in the cache and not whole (of %lld bytes), and nothing may be "
                    "fetched (--offline or HF_HUB_OFFLINE): mend it with qkscope get %s%s "
                    "--revision %s",
                    file->path, (long long)file->size, f->kind->option, f->name, f->revision);
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
    for (size_t i = 0; i < p->count && f->access.offline; i++)
        QK_TRY(qk__fetch_check_size(f, p->items[i].file, err));
    if (p->count > 0 && f->access.offline)
        return refuse_offline(p, bytes, of, err);
    if (f->access.offline)
        return QK_OK;
    if (p->count > 0) {
        QK_TRY(qk__hub_prepare(f->cache, f->folder, err));
        QK_TRY(qk__download_leftovers(f, &p->leftovers, err));
        QK_TRY(check_sizes(p, err));
        announce(p, bytes, of);
        f->total = bytes;
        QK_TRY(fetch_all(p, err));
    }
    /* Last: until the new commit is complete, the revision means the one that was. Where the cache
     * named the commit and has its files, it may be one that nobody may write to. */
    return f->settings->cached && p->count == 0 && !f->mends_ref
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

qk_status qk__fetch_describe(const qk__fetch *f, const qk__repo_files *chosen,
                             qk__wanted_form form, qk_hub_snapshot *snapshot, qk_error *err)
{
    const char *gguf = f->settings->model ? qk__wanted_gguf(chosen) : NULL;
    snapshot->path = qk__format("%s/snapshots/%s", f->folder, f->commit);
    snapshot->commit = qk__strdup(f->commit);
    snapshot->gguf = gguf && snapshot->path ? qk__path_join(snapshot->path, gguf) : NULL;
    snapshot->num_files = chosen->count;
    for (size_t i = 0; i < chosen->count; i++)
        snapshot->bytes += chosen->items[i].size;
    snapshot->fetched_bytes = f->came;
    snapshot->requests = atomic_load(&f->requests);
    snapshot->num_layers = form.num_layers;
    snapshot->q_per_kv_group = form.group;
    return snapshot->path && snapshot->commit && (!gguf || snapshot->gguf) ? QK_OK
                                                                           : qk__nomem(err);
}

static void warn_of_part(qk__fetch *f, const char *why)
{
    qk__tell_notice(&f->context, QK_NOTICE_WARNING,
                    "%s: taken as it is in the cache; whether it is whole is not known: %s",
                    f->name, why);
}

qk_status qk__fetch_list(qk__fetch *f, qk__connection *connection, bool keep,
                         qk__repo_files *files, bool *known, qk_error *err)
{
    qk_error why = {.status = QK_OK};
    qk__path snapshot;
    QK_TRY(qk__path_set(&snapshot, err, "%s/snapshots/%s", f->folder, f->commit));
    bool found = qk__is_dir(snapshot.text), there = f->settings->cached && found;
    f->hurried = there;
    qk_status status = qk__fetch_files(f, connection, keep, files, known, &why);
    f->hurried = false;
    if (status == QK_OK && !*known && found)
        warn_of_part(f, "nothing may be asked (--offline or HF_HUB_OFFLINE)");
    if (status == QK_OK)
        return QK_OK;
    if (!there || status == QK_ERR_NOMEM || status == QK_ERR_CANCELLED)
        return qk__fail(err, status, "%s", why.message);
    warn_of_part(f, why.message);
    qk__repo_files_free(files);
    *known = false;
    return QK_OK;
}

static qk_status fail_none_wanted(const qk__fetch *f, const qk__repo_files *files,
                                  qk_error *err)
{
    const qk_hub_settings *s = f->settings;
    bool heads = s->part == QK_HUB_CAPTURE || s->layers.count > 0 || s->heads.count > 0;
    return qk__fail(err, QK_ERR_NOT_FOUND, "none of the %zu files of revision %s is wanted%s",
                    files->count, f->revision,
                    s->part == QK_HUB_TEXTS ? ": there are no Parquet or JSONL files"
                    : heads ? ": there are no folders of heads such as l00h00q, or not these"
                            : "");
}

qk_status qk__fetch_find(qk__fetch *f, qk__connection *connection, bool keep,
                         qk__repo_files *files, qk__found *found, qk_error *err)
{
    *found = (qk__found){0};
    QK_TRY(qk__fetch_settle_commit(f, connection, err));
    QK_TRY(qk__fetch_list(f, connection, keep, files, &found->known, err));
    if (!found->known)
        return QK_OK;
    found->form = qk__wanted_shape(files, f->settings->prefix);
    QK_TRY(qk__fetch_choose(f, files, &found->chosen.count, err));
    found->chosen.items = files->items;
    return found->chosen.count > 0 ? QK_OK : fail_none_wanted(f, files, err);
}

/* A run that takes one capture would find several: that shows before anything is fetched. */
static qk_status check_one(const qk__fetch *f, const qk__repo_files *chosen, qk_error *err)
{
    const qk_hub_settings *s = f->settings;
    char list[600];
    if (!s->cached || s->model || s->prefix ||
        (s->part != QK_HUB_CAPTURE && s->part != QK_HUB_ALL) ||
        !qk__wanted_several(chosen, list, sizeof list))
        return QK_OK;
    const char *first = strncmp(list, "., ", 3) == 0 ? list + 3 : list;
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "it holds several captures: %s; choose one, with --split %.*s, say", list,
                    (int)strcspn(first, ","), first);
}

static qk_status get(plan *p, qk__repo_files *files, qk_hub_snapshot *snapshot, qk_error *err)
{
    qk__fetch *f = p->fetch;
    qk__connection **connection = &p->crew.connections[0];
    qk__found found;
    if (!f->access.offline)
        QK_TRY(qk__connection_open(connection, f, err));
    QK_TRY(qk__fetch_find(f, *connection, true, files, &found, err));
    if (found.known) {
        QK_TRY(check_one(f, &found.chosen, err));
        QK_TRY(find_missing(p, &found.chosen, err));
        QK_TRY(fetch_missing(p, found.chosen.count, err));
    }
    QK_TRY(qk__fetch_describe(f, &found.chosen, found.form, snapshot, err));
    snapshot->cached_files = found.chosen.count - p->count;
    for (size_t i = 0; i < p->count; i++)
        snapshot->fetched_files += p->items[i].fetched;
    return found.known || qk__is_dir(snapshot->path) ? QK_OK : qk__fail_not_cached(f, err);
}

qk_status qk_hub_get(const qk_hub_settings *settings, qk_hub_snapshot **snapshot, qk_error *err)
{
    QK_NEED(err, snapshot);
    *snapshot = NULL;
    QK_NEED(err, settings);
    qk__fetch fetch;
    plan p = {.fetch = &fetch, .crew.fetch = &fetch};
    qk__repo_files files = {0};
    qk_hub_snapshot *made = calloc(1, sizeof *made);
    qk_status status = qk__fetch_open(&fetch, settings, err);
    if (status == QK_OK)
        status =
            made ? qk__fetch_about(&fetch, get(&p, &files, made, err), err) : qk__nomem(err);
    qk__crew_close(&p.crew);
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
    if (s->is_outline)
        qk__remove_tree(s->path);
    free(s->path);
    free(s->commit);
    free(s->gguf);
    free(s);
    *snapshot = NULL;
}
