/* SPDX-License-Identifier: Apache-2.0 */
/* Where a dataset or a model lies: a local folder, or a snapshot in the Hugging Face cache,
 * whose layout is datasets--org--name/{refs/<revision>, snapshots/<commit>/...}, and
 * models--. */
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/expand.h"
#include "base/file.h"
#include "hub/hub.h"
#include "paths/model_files.h"
#include "paths/path_kind.h"

enum {
    MAX_VARIABLE_BYTES = 1 << 16,
    MAX_WORD = 96, /* of a name, before or after the slash */
};

/* ---- names ------------------------------------------------------------------------------ */

static bool is_hex(const char *text)
{
    return *text && text[strspn(text, "0123456789abcdef")] == 0;
}

/* Letters, digits, '-', '.' and '_', the ends neither '-' nor '.'. */
static bool is_hub_word(const char *text, size_t length)
{
    static const char KNOWN[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return length > 0 && length <= MAX_WORD && strspn(text, KNOWN) >= length &&
           !strchr("-.", text[0]) && !strchr("-.", text[length - 1]);
}

/* "name" alone is for the oldest datasets. */
bool qk__hub_is_name(const char *name)
{
    const char *slash = strchr(name, '/');
    const char *last = slash ? slash + 1 : name;
    return (!slash || is_hub_word(name, (size_t)(slash - name))) &&
           is_hub_word(last, strlen(last)) && !strstr(name, "..") && !strstr(name, "--");
}

/* A part of one between slashes; so git has it, too (git-check-ref-format). */
static bool is_revision_word(const char *text, size_t length)
{
    static const char LOCK[] = ".lock";
    size_t tail = sizeof LOCK - 1;
    return length > 0 && text[0] != '.' && text[length - 1] != '.' &&
           !(length >= tail && strncmp(text + length - tail, LOCK, tail) == 0);
}

bool qk__hub_is_revision(const char *revision)
{
    if (strlen(revision) > 200 || strstr(revision, "..") || strstr(revision, "@{") ||
        strcmp(revision, "@") == 0)
        return false;
    for (const char *p = revision; *p; p++)
        if ((unsigned char)*p <= 0x20 || *p == 0x7f || strchr("~^:?*[\\", *p))
            return false;
    for (const char *word = revision;;) {
        size_t length = strcspn(word, "/");
        if (!is_revision_word(word, length))
            return false;
        if (!word[length])
            return true;
        word += length + 1;
    }
}

const qk__repo_kind qk__hub_dataset = {"datasets", "dataset"};
const qk__repo_kind qk__hub_model = {"models", "model"};

#define NO_CAPTURE(what)                                                                       \
    what ": a capture is a folder of Parquet files (docs/capture-format.md)"

/* What files that are no capture are, by the end of their names; a name that ends so is a path, not a
 * name on the Hub. Of models, paths/model_files.c knows. */
static const struct {
    const char *end, *remedy;
} FILE_FORMS[] = {
    {".gguf", NULL},
    {".safetensors", NULL},
    {".parquet", "one head of a capture: give the folder of the capture"},
    {".npz", NO_CAPTURE("arrays of NumPy")},
    {".npy", NO_CAPTURE("an array of NumPy")},
    {".pt", NO_CAPTURE("tensors of PyTorch")},
    {".pth", NO_CAPTURE("tensors of PyTorch")},
    {".json", NULL},
    {".jsonl", NULL},
    {".ndjson", NULL},
    {".txt", NULL},
    {".md", NULL},
    {".yaml", NULL},
    {".yml", NULL},
    {".csv", NULL},
    {".tsv", NULL},
};

/* Whether a name ends as files do; *remedy: what to say of it where a capture is wanted, or NULL. */
static bool is_file_name(const char *name, const char **remedy)
{
    for (size_t i = 0; i < sizeof FILE_FORMS / sizeof *FILE_FORMS; i++)
        if (qk__ends_with(name, FILE_FORMS[i].end)) {
            *remedy = FILE_FORMS[i].remedy;
            return true;
        }
    return false;
}

/* Of a name: "org" is a folder here, so that "org/name" is a path in it. */
static bool begins_here(const char *name)
{
    char folder[MAX_WORD + 1];
    snprintf(folder, sizeof folder, "%.*s", (int)strcspn(name, "/"), name);
    return strchr(name, '/') && qk__is_dir(folder);
}

bool qk_hub_is_remote(const char *name)
{
    assert(name);
    const char *remedy;
    return strchr(name, '/') && qk__hub_is_name(name) && !is_file_name(name, &remedy) &&
           !qk__is_there(name) && !begins_here(name);
}

/* "org/name" -> "datasets--org--name" */
static char *cache_name(const qk__repo_kind *kind, const char *name)
{
    const char *slash = strchr(name, '/');
    return slash
               ? qk__format("%s--%.*s--%s", kind->folder, (int)(slash - name), name, slash + 1)
               : qk__format("%s--%s", kind->folder, name);
}

/* ---- where the cache is ----------------------------------------------------------------- */

/* Value with a leading ~ and variables replaced, then "/tail" if there is one. */
static qk_status expand_path(const char *value, const char *tail, char **path, qk_error *err)
{
    qk__buffer text = {0};
    const char *home = qk__environment("HOME");
    qk_status status = QK_OK;
    if (home && value[0] == '~' && (value[1] == '/' || value[1] == 0)) {
        status = qk__buffer_append(&text, home, strlen(home), err);
        value++;
    }
    if (status == QK_OK)
        status = qk__expand_variables(value, strlen(value), MAX_VARIABLE_BYTES, &text, err);
    if (status == QK_OK) {
        *path = *tail ? qk__path_join((char *)text.data, tail) : qk__strdup((char *)text.data);
        if (!*path)
            status = qk__nomem(err);
    }
    qk__buffer_free(&text);
    return status;
}

qk_status qk__hub_cache(const char *given, char **path, qk_error *err)
{
    static const struct {
        const char *variable;
        const char *tail;
    } PLACES[] = {
        {"HF_HUB_CACHE", ""},
        {"HUGGINGFACE_HUB_CACHE", ""}, /* its older name, still obeyed */
        {"HF_HOME", "hub"},
        {"XDG_CACHE_HOME", "huggingface/hub"},
        {"HOME", ".cache/huggingface/hub"},
    };
    if (given)
        return (*path = qk__strdup(given)) ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < sizeof PLACES / sizeof PLACES[0]; i++) {
        const char *value = qk__environment(PLACES[i].variable);
        if (value)
            return expand_path(value, PLACES[i].tail, path, err);
    }
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "no Hugging Face cache: neither HF_HUB_CACHE, HF_HOME nor HOME is set");
}

char *qk__hub_folder(const char *cache, const qk__repo_kind *kind, const char *name)
{
    char *own = cache_name(kind, name);
    char *folder = own ? qk__path_join(cache, own) : NULL;
    free(own);
    return folder;
}

/* ---- revisions -------------------------------------------------------------------------- */

static qk_status fail_ref(const char *path, qk_error *err)
{
    return qk__fail(err, QK_ERR_MALFORMED,
                    "%s: no commit hash in it: remove it, and it is fetched anew", path);
}

/* Commit that refs/<revision> holds, "" if there is no such file. */
static qk_status read_ref(const char *repo, const char *revision,
                          char commit[QK__MAX_COMMIT + 1], qk_error *err)
{
    qk__path path;
    qk__buffer text;
    *commit = 0;
    QK_TRY(qk__path_set(&path, err, "%s/refs/%s", repo, revision));
    if (!qk__is_file(path.text))
        return QK_OK;
    qk_status status = qk__read_file(path.text, 4096, &text, err);
    if (status != QK_OK)
        return status == QK_ERR_MALFORMED ? fail_ref(path.text, err) : status;
    char *hash = (char *)text.data;
    hash[strcspn(hash, " \t\r\n")] = 0;
    if (is_hex(hash) && strlen(hash) <= QK__MAX_COMMIT)
        memcpy(commit, hash, strlen(hash) + 1);
    else
        status = fail_ref(path.text, err);
    qk__buffer_free(&text);
    return status;
}

/* The snapshot that is or starts with `commit`: snapshots/<commit>. *path stays NULL when
 * there is none. */
static qk_status find_snapshot(const char *repo, const char *commit, char **path, qk_error *err)
{
    qk__path snapshots;
    qk__names names = {0};
    QK_TRY(qk__path_in(&snapshots, repo, "snapshots", err));
    qk_status status = QK_OK;
    if (qk__is_dir(snapshots.text))
        status = qk__list_dir(snapshots.text, &names, err);
    const char *match = NULL;
    size_t length = strlen(commit);
    for (size_t i = 0; status == QK_OK && i < names.count; i++) {
        if (strncmp(names.items[i], commit, length) != 0)
            continue;
        if (match && names.items[i][length] != 0)
            status = qk__fail(err, QK_ERR_NOT_FOUND,
                              "%s: revision %s is ambiguous: %s and %s start with it",
                              snapshots.text, commit, match, names.items[i]);
        match = names.items[i];
        if (match[length] == 0)
            break; /* the exact one: names are sorted, it comes first */
    }
    if (status == QK_OK && match && !(*path = qk__path_join(snapshots.text, match)))
        status = qk__nomem(err);
    qk__names_free(&names);
    return status;
}

/* Looks for a revision in <cache>/datasets--org--name; *path stays NULL if it is not
 * there. */
static qk_status find_in_repo(const char *repo, const char *revision, char **path,
                              qk_error *err)
{
    char commit[QK__MAX_COMMIT + 1];
    QK_TRY(read_ref(repo, revision, commit, err));
    size_t length = strlen(revision);
    if (!*commit && is_hex(revision) && length >= QK__MIN_COMMIT && length <= QK__MAX_COMMIT)
        memcpy(commit, revision, length + 1);
    if (!*commit)
        return QK_OK;
    QK_TRY(find_snapshot(repo, commit, path, err));
    if (*path && !qk__is_dir(*path)) {
        free(*path);
        *path = NULL;
    }
    return QK_OK;
}

qk_status qk__hub_cached_commit(const char *folder, const char *revision,
                                char commit[QK__MAX_COMMIT + 1], qk_error *err)
{
    char *path = NULL;
    QK_TRY(read_ref(folder, revision, commit, err));
    if (*commit)
        return QK_OK; /* its snapshot may not have been begun */
    QK_TRY(find_in_repo(folder, revision, &path, err));
    const char *name = path ? qk__file_name(path) : "";
    if (strlen(name) <= QK__MAX_COMMIT)
        memcpy(commit, name, strlen(name) + 1);
    free(path);
    return QK_OK;
}

static qk_status find_in_cache(const qk__repo_kind *kind, const char *cache, const char *name,
                               const char *revision, char **path, qk_error *err)
{
    char *repo = qk__hub_folder(cache, kind, name);
    qk_status status = repo ? QK_OK : qk__nomem(err);
    if (status == QK_OK && qk__is_dir(repo))
        status = find_in_repo(repo, revision, path, err);
    free(repo);
    return status;
}

/* ---- a local root ----------------------------------------------------------------------- */

/* Whether a folder is this dataset's, by its name or by what a download or a capture
 * leaves right in it. A folder of other captures must not be taken for it. */
static qk_status is_dataset(const char *dir, const char *name, bool *yes, qk_error *err)
{
    size_t length = strlen(dir);
    while (length > 1 && dir[length - 1] == '/')
        length--;
    const char *last = qk__file_name(name);
    size_t tail = strlen(last);
    *yes = length >= tail && strncmp(dir + length - tail, last, tail) == 0 &&
           (length == tail || dir[length - tail - 1] == '/');
    qk__names names;
    QK_TRY(qk__list_dir(dir, &names, err));
    for (size_t i = 0; i < names.count && !*yes; i++) {
        char kind[2];
        char rest;
        *yes = strcmp(names.items[i], "capture.json") == 0 ||
               strcmp(names.items[i], ".gitattributes") == 0 ||
               sscanf(names.items[i], "l%*[0-9]h%*[0-9]%1[qk]%c", kind, &rest) == 1;
    }
    qk__names_free(&names);
    return QK_OK;
}

qk_status qk__hub_find_in_root(const char *root, const char *name, char **path, qk_error *err)
{
    *path = NULL;
    char *joined = qk__path_join(root, name);
    if (!joined)
        return qk__nomem(err);
    if (qk__is_dir(joined)) {
        *path = joined;
        return QK_OK;
    }
    free(joined);
    if (!qk__is_dir(root))
        return QK_OK;
    bool yes;
    QK_TRY(is_dataset(root, name, &yes, err));
    if (!yes)
        return QK_OK;
    *path = qk__strdup(root);
    return *path ? QK_OK : qk__nomem(err);
}

/* ---- all together ----------------------------------------------------------------------- */

static qk_status fail_missing(const qk__repo_kind *kind, const char *cache, const char *name,
                              const char *revision, const char *local_root, qk_error *err)
{
    bool tell_root = local_root && *local_root;
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s: no such folder%s%s, and revision %s of a %s of this name is not "
                    "in the Hugging Face cache %s (HF_HUB_CACHE or HF_HOME choose another); "
                    "fetch it with: hf download %s --repo-type %s --revision %s",
                    name, tell_root ? ", nor one in local_root " : "",
                    tell_root ? local_root : "", revision, kind->what, cache, name, kind->what,
                    revision);
}

static qk_status fail_file(const qk__repo_kind *kind, const char *name, qk_error *err)
{
    bool model = kind == &qk__hub_model;
    const qk__model_form *form = model ? qk__model_form_of(qk__file_name(name)) : NULL;
    const char *remedy = form ? form->remedy : NULL;
    if (!model)
        is_file_name(name, &remedy);
    qk__set_error(err, QK_ERR_NOT_FOUND, "%s: a file; expected the folder of a %s%s%s", name,
                  kind->what, remedy ? "; " : "", remedy ? remedy : "");
    if (model && remedy) /* says more than what it is a part of */
        return QK_ERR_NOT_FOUND;
    return qk__path_tell(name, model ? QK__PATH_MODEL : QK__PATH_CAPTURE, QK_ERR_NOT_FOUND,
                         err);
}

static qk_status fail_path(const qk__repo_kind *kind, const char *name, qk_error *err)
{
    char *beside = qk__path_beside(name);
    bool here = qk__hub_is_name(name) && begins_here(name);
    qk__set_error(err, QK_ERR_NOT_FOUND, "%s: no such folder (%s Hub %s, org/name)%s%s", name,
                  here ? "and as its first word is a folder here, not looked for as a"
                       : "and not the name of a",
                  kind->what, beside ? "; beside it: " : "", beside ? beside : "");
    free(beside);
    return QK_ERR_NOT_FOUND;
}

static qk_status find_on_hub(const qk__repo_kind *kind, const char *name, const char *revision,
                             const char *local_root, char **path, qk_error *err)
{
    if (!qk__hub_is_name(name))
        return qk__is_file(name) ? fail_file(kind, name, err) : fail_path(kind, name, err);
    char *cache = NULL;
    const char *remedy;
    bool file = is_file_name(name, &remedy);
    QK_TRY(qk__hub_cache(NULL, &cache, err));
    qk_status status = find_in_cache(kind, cache, name, revision, path, err);
    if (status == QK_OK && !*path)
        status = qk__is_file(name) ? fail_file(kind, name, err)
                 : file            ? qk__fail(err, QK_ERR_NOT_FOUND, "%s: no such file", name)
                 : !strchr(name, '/') || begins_here(name)
                     ? fail_path(kind, name, err)
                     : fail_missing(kind, cache, name, revision, local_root, err);
    free(cache);
    return status;
}

static qk_status find(const qk__repo_kind *kind, const char *name, const char *revision,
                      const char *local_root, char **path, qk_error *err)
{
    *path = NULL;
    if (!name || !*name)
        return qk__fail(err, QK_ERR_ARGUMENT, "no %s given", kind->what);
    if (!revision || !*revision)
        revision = "main";
    if (!qk__hub_is_revision(revision))
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: not a revision", revision);
    if (local_root && *local_root && *name != '/')
        QK_TRY(qk__hub_find_in_root(local_root, name, path, err));
    if (!*path && local_root && *local_root && qk__hub_is_name(name)) /* it may be a cache */
        QK_TRY(find_in_cache(kind, local_root, name, revision, path, err));
    if (*path)
        return QK_OK;
    if (qk__is_dir(name)) {
        *path = qk__strdup(name);
        return *path ? QK_OK : qk__nomem(err);
    }
    return find_on_hub(kind, name, revision, local_root, path, err);
}

qk_status qk_hub_find_dataset(const char *name, const char *revision, const char *local_root,
                              char **path, qk_error *err)
{
    QK_NEED(err, path);
    *path = NULL;
    QK_NEED(err, name);
    return find(&qk__hub_dataset, name, revision, local_root, path, err);
}

qk_status qk_hub_find_model(const char *name, const char *revision, char **path, qk_error *err)
{
    QK_NEED(err, path);
    *path = NULL;
    QK_NEED(err, name);
    if (qk__is_whole_model(name) && qk__is_file(name)) {
        *path = qk__strdup(name);
        return *path ? QK_OK : qk__nomem(err);
    }
    return find(&qk__hub_model, name, revision, NULL, path, err);
}
