/* SPDX-License-Identifier: Apache-2.0 */
/* Having what is wanted in the cache: where something of it is missing, `hf download` of huggingface_hub
 * fetches it. Which files there are, the list tells that hf keeps of a commit; where there is none yet, a
 * first call fetches small files, and with them the list. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/context.h"
#include "base/error.h"
#include "base/expand.h"
#include "base/file.h"
#include "hub/hub.h"

/* ---- open and close ---------------------------------------------------------------------- */

static bool is_true(const char *value)
{
    static const char *const WORDS[] = {"1", "on", "yes", "true"};
    for (size_t i = 0; value && i < sizeof WORDS / sizeof *WORDS; i++)
        if (strcasecmp(value, WORDS[i]) == 0)
            return true;
    return false;
}

bool qk__hub_is_offline(const qk_context *context)
{
    const char *own = qk__environment("HF_HUB_OFFLINE");
    return context->offline || is_true(own ? own : qk__environment("TRANSFORMERS_OFFLINE"));
}

/* A local_root that has the repository as a cache has it is the cache that is meant. */
static qk_status settle_cache(qk__fetch *f, qk_error *err)
{
    const char *root = f->wanted->local_root;
    f->given = f->wanted->context.hub_cache;
    if (root && *root) {
        if (!(f->folder = qk__hub_folder(root, f->kind, f->name)))
            return qk__nomem(err);
        if (qk__is_dir(f->folder))
            f->given = root;
        free(f->folder);
        f->folder = NULL;
    }
    QK_TRY(qk__hub_cache(f->given, &f->cache, err));
    f->folder = qk__hub_folder(f->cache, f->kind, f->name);
    return f->folder ? QK_OK : qk__nomem(err);
}

static void close_fetch(qk__fetch *f)
{
    qk__repo_files_free(&f->files);
    free(f->folder);
    free(f->cache);
}

/* ---- what the cache has ------------------------------------------------------------------ */

static bool is_here(const qk__fetch *f, const qk__repo_file *file)
{
    struct stat st;
    qk__path path;
    return qk__path_set(&path, NULL, "%s/snapshots/%s/%s", f->folder, f->commit, file->path) ==
               QK_OK &&
           stat(path.text, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == file->size;
}

static bool has_snapshot(const qk__fetch *f)
{
    qk__path path;
    return *f->commit &&
           qk__path_set(&path, NULL, "%s/snapshots/%s", f->folder, f->commit) == QK_OK &&
           qk__is_dir(path.text);
}

/* The first file that is wanted and not here. */
static const qk__repo_file *first_missing(const qk__fetch *f)
{
    for (size_t i = 0; i < f->files.count; i++)
        if (f->files.items[i].wanted && !is_here(f, &f->files.items[i]))
            return &f->files.items[i];
    return NULL;
}

static bool is_commit(const char *revision)
{
    size_t digits = strspn(revision, "0123456789abcdef");
    return !revision[digits] && (digits == 40 || digits == QK__MAX_COMMIT);
}

/* A file without a commit is as good as none where hf may write it anew. */
static qk_status find_commit(qk__fetch *f, qk_error *err)
{
    *f->commit = 0;
    if (is_commit(f->revision)) {
        memcpy(f->commit, f->revision, strlen(f->revision) + 1);
        return QK_OK;
    }
    qk_status status = qk__hub_cached_commit(f->folder, f->revision, f->commit, err);
    if (status != QK_ERR_MALFORMED || f->offline)
        return status;
    *f->commit = 0;
    return QK_OK;
}

static qk_status fail_none_wanted(const qk__fetch *f, qk_error *err)
{
    qk_hub_part part = f->wanted->part;
    return qk__fail(err, QK_ERR_NOT_FOUND, "none of the %zu files of revision %s is wanted%s",
                    f->files.count, f->revision,
                    part == QK_HUB_TEXTS ? ": there are no Parquet or JSONL files"
                    : part == QK_HUB_CAPTURE
                        ? ": there are no folders of heads such as l00h00q, or not these"
                        : "");
}

/* A run that takes one capture would find several: that shows before anything is fetched. */
static qk_status check_one(const qk__fetch *f, qk_error *err)
{
    char list[600];
    if (f->wanted->part != QK_HUB_CAPTURE || f->wanted->prefix ||
        !qk__wanted_several(&f->files, list, sizeof list))
        return QK_OK;
    const char *first = strncmp(list, "., ", 3) == 0 ? list + 3 : list;
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "it holds several captures: %s; choose one, with --split %.*s, say", list,
                    (int)strcspn(first, ","), first);
}

/* Commit, list of files, those that are wanted, and how many of them are missing. */
static qk_status look(qk__fetch *f, qk_error *err)
{
    qk__repo_files_free(&f->files);
    f->known = false;
    f->num_missing = 0;
    QK_TRY(find_commit(f, err));
    if (*f->commit)
        QK_TRY(qk__tree_read(f->folder, f->commit, &f->files, &f->known, err));
    if (!f->known)
        return QK_OK;
    QK_TRY(qk__wanted_choose(f->wanted, &f->files, &f->num_wanted, err));
    if (f->num_wanted == 0)
        return fail_none_wanted(f, err);
    QK_TRY(check_one(f, err));
    for (size_t i = 0; i < f->files.count; i++)
        f->num_missing += f->files.items[i].wanted && !is_here(f, &f->files.items[i]);
    return QK_OK;
}

/* ---- patterns ---------------------------------------------------------------------------- */

/* What is small and often wanted, and what is asked for where no list of files is kept. */
static const char *const SMALL[][3] = {
    [QK_HUB_CAPTURE] = {"capture.json"},
    [QK_HUB_TEXTS] = {"README.md"},
    [QK_HUB_MODEL] = {"config.json"},
    [QK_HUB_TOKENIZER] = {"tokenizer.json", "config.json"},
};
static const char *const UNLISTED[][3] = {
    [QK_HUB_CAPTURE] = {"*capture.json", "*.parquet", "*.safetensors"},
    [QK_HUB_TEXTS] = {"*.parquet", "*.jsonl", "*.ndjson"},
    [QK_HUB_MODEL] = {"*.json", "*.safetensors", "*.model"},
    [QK_HUB_TOKENIZER] = {"*.json", "*.model"},
};

static void add_patterns(qk__hf_words *w, const char *const patterns[3])
{
    for (size_t i = 0; i < 3 && patterns[i]; i++)
        qk__hf_include(w, patterns[i], strlen(patterns[i]), "");
}

/* The files i to the one that is returned, which is none of them, are all that begin so, and they are wanted; i:
 * one of them is not. */
static size_t all_wanted(const qk__repo_files *files, size_t i, size_t length)
{
    const char *path = files->items[i].path;
    size_t end = i;
    if (i > 0 && strncmp(files->items[i - 1].path, path, length) == 0)
        return i;
    for (; end < files->count && strncmp(files->items[end].path, path, length) == 0; end++)
        if (!files->items[end].wanted)
            return i;
    return end;
}

static bool is_any_missing(const qk__fetch *f, size_t i, size_t end)
{
    for (; i < end; i++)
        if (!is_here(f, &f->files.items[i]))
            return true;
    return false;
}

/* The files that are wanted, by beginnings of names that all of them and no others have. */
static void add_wanted(qk__hf_words *w, const qk__fetch *f)
{
    const qk__repo_files *files = &f->files;
    for (size_t i = 0, end; i < files->count; i = end) {
        const char *path = files->items[i].path;
        size_t whole = strlen(path), length = 1;
        end = i + 1;
        if (!files->items[i].wanted)
            continue;
        while (length <= whole && all_wanted(files, i, length) == i)
            length++;
        if (length <= whole)
            end = all_wanted(files, i, length);
        if (is_any_missing(f, i, end))
            qk__hf_include(w, path, end > i + 1 ? length : whole, end > i + 1 ? "*" : "");
    }
}

/* ---- all together ------------------------------------------------------------------------ */

static void warn_of_part(const qk__fetch *f, const char *why)
{
    qk__tell_notice(&f->wanted->context, QK_NOTICE_WARNING,
                    "%s: taken as it is in the cache; whether it is whole is not known: %s",
                    f->name, why);
}

static qk_status refuse_offline(const qk__fetch *f, qk_error *err)
{
    const qk__repo_file *missing = first_missing(f);
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%zu of %zu files of revision %s are not in the cache, or not whole, %s "
                    "for one, and nothing may be fetched (--offline or HF_HUB_OFFLINE): run it "
                    "without that%s",
                    f->num_missing, f->num_wanted, f->revision, missing ? missing->path : "",
                    f->kind == &qk__hub_dataset
                        ? ", or choose what is there with --layers and --heads"
                        : "");
}

static qk_status fail_not_cached(const qk__fetch *f, qk_error *err)
{
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "revision %s of this %s is not in the cache %s, and nothing may be fetched "
                    "(--offline or HF_HUB_OFFLINE); without that: hf download %s --repo-type "
                    "%s --revision %s",
                    f->revision, f->kind->what, f->cache, f->name, f->kind->what, f->revision);
}

/* hf takes a file for whole whose size is another, as after a power failure. */
static qk_status check_whole(const qk__fetch *f, qk_error *err)
{
    const qk__repo_file *missing = first_missing(f);
    if (!missing)
        return QK_OK;
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s is not whole (of %lld bytes), and hf download did not mend it: hf "
                    "download %s %s --repo-type %s --revision %s --force-download",
                    missing->path, (long long)missing->size, f->name, missing->path,
                    f->kind->what, f->commit);
}

static qk_status fetch_files(qk__fetch *f, qk_error *err)
{
    qk__hf_words w = {0};
    qk__tell_notice(&f->wanted->context, QK_NOTICE_REMARK,
                    "%s at %s: %zu of %zu files are to be fetched by hf download", f->name,
                    f->revision, f->num_missing, f->num_wanted);
    add_wanted(&w, f);
    qk_status status = qk__hf_download(f, &w, err);
    qk__hf_words_free(&w);
    return status == QK_OK ? check_whole(f, err) : status;
}

static qk_status run_patterns(qk__fetch *f, const char *const patterns[3], qk_error *err)
{
    qk__hf_words w = {0};
    add_patterns(&w, patterns);
    qk_status status = qk__hf_download(f, &w, err);
    qk__hf_words_free(&w);
    return status == QK_OK ? look(f, err) : status;
}

/* What there is on the Hub is not known yet. A snapshot of a program that keeps no list of files is used also
 * where hf cannot fetch. */
static qk_status find_out(qk__fetch *f, qk_error *err)
{
    qk_error why = {.status = QK_OK};
    if (f->offline && !has_snapshot(f))
        return fail_not_cached(f, err);
    if (f->offline) {
        warn_of_part(f, "nothing may be asked (--offline or HF_HUB_OFFLINE)");
        return QK_OK;
    }
    qk_hub_part part = f->wanted->part;
    bool there = has_snapshot(f);
    qk_status status = run_patterns(f, SMALL[part], &why);
    if (status == QK_OK && !f->known)
        status = run_patterns(f, UNLISTED[part], &why);
    if (status == QK_OK)
        return QK_OK;
    if (!there || (status != QK_ERR_IO && status != QK_ERR_NOT_FOUND))
        return qk__fail(err, status, "%s", why.message);
    warn_of_part(f, why.message);
    return QK_OK;
}

static qk_status bring(qk__fetch *f, qk_hub_place *place, qk_error *err)
{
    QK_TRY(look(f, err));
    if (!f->known)
        QK_TRY(find_out(f, err));
    if (f->num_missing > 0)
        QK_TRY(f->offline ? refuse_offline(f, err) : fetch_files(f, err));
    const char *gguf =
        f->known && f->wanted->part == QK_HUB_MODEL ? qk__wanted_gguf(&f->files) : NULL;
    place->path = qk__format("%s/snapshots/%s%s%s", f->folder, f->commit, gguf ? "/" : "",
                             gguf ? gguf : "");
    if (f->known && f->wanted->part == QK_HUB_CAPTURE)
        qk__wanted_shape(&f->files, f->wanted->prefix, place);
    return place->path ? QK_OK : qk__nomem(err);
}

static qk_status get_remote(const qk_hub_wanted *wanted, qk_hub_place *place, qk_error *err)
{
    bool model = wanted->part == QK_HUB_MODEL || wanted->part == QK_HUB_TOKENIZER;
    qk__fetch f = {.wanted = wanted,
                   .kind = model ? &qk__hub_model : &qk__hub_dataset,
                   .name = wanted->name,
                   .revision =
                       wanted->revision && *wanted->revision ? wanted->revision : "main",
                   .offline = qk__hub_is_offline(&wanted->context)};
    if (!qk__hub_is_revision(f.revision))
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: not a revision, a branch, tag or commit",
                        f.revision);
    if (wanted->local_root && *wanted->local_root)
        QK_TRY(qk__hub_find_in_root(wanted->local_root, f.name, &place->path, err));
    if (place->path)
        return QK_OK;
    qk_status status = settle_cache(&f, err);
    if (status == QK_OK)
        status = qk__context(err, bring(&f, place, err), "%s", f.name);
    close_fetch(&f);
    return status;
}

qk_status qk_hub_get(const qk_hub_wanted *wanted, qk_hub_place *place, qk_error *err)
{
    QK_NEED(err, wanted);
    QK_NEED(err, place);
    *place = (qk_hub_place){0};
    const char *name = wanted->name ? wanted->name : "";
    if (qk_hub_is_remote(name))
        return get_remote(wanted, place, err);
    return wanted->part == QK_HUB_MODEL || wanted->part == QK_HUB_TOKENIZER
               ? qk_hub_find_model(name, wanted->revision, &place->path, err)
               : qk_hub_find_dataset(name, wanted->revision, wanted->local_root, &place->path,
                                     err);
}
