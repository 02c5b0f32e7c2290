/* SPDX-License-Identifier: Apache-2.0 */
/* Where a dataset or a model lies: a local folder, or a snapshot in the Hugging Face cache,
 * whose layout is datasets--org--name/{refs/<revision>, snapshots/<commit>/...}, and
 * models--. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/capture.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/expand.h"
#include "base/file.h"

enum { MIN_COMMIT_DIGITS = 7, MAX_COMMIT_DIGITS = 64, MAX_VARIABLE_BYTES = 1 << 16 };

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
    return length > 0 && length <= 96 && strspn(text, KNOWN) >= length &&
           !strchr("-.", text[0]) && !strchr("-.", text[length - 1]);
}

/* "org/name", or "name" alone for the oldest datasets. */
static bool is_hub_name(const char *name)
{
    const char *slash = strchr(name, '/');
    const char *last = slash ? slash + 1 : name;
    return (!slash || is_hub_word(name, (size_t)(slash - name))) &&
           is_hub_word(last, strlen(last)) && !strstr(name, "..") && !strstr(name, "--");
}

/* A revision becomes a path below refs/ ("refs/pr/1" does, too); it must stay there. */
static bool is_revision(const char *revision)
{
    return *revision != '/' && strlen(revision) <= 200 && !strstr(revision, "..");
}

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* What is looked for. */
typedef struct repo_kind {
    const char *folder; /* what its folder in the cache begins with */
    const char *what;
    const char *option; /* of the program that downloads it */
} repo_kind;

static const repo_kind DATASET = {"datasets", "dataset", "--repo-type dataset "};
static const repo_kind MODEL = {"models", "model", ""};

/* "org/name" -> "datasets--org--name" */
static char *cache_name(const repo_kind *kind, const char *name)
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

static qk_status cache_root(char **path, qk_error *err)
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
    for (size_t i = 0; i < sizeof PLACES / sizeof PLACES[0]; i++) {
        const char *value = qk__environment(PLACES[i].variable);
        if (value)
            return expand_path(value, PLACES[i].tail, path, err);
    }
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "no Hugging Face cache: neither HF_HUB_CACHE, HF_HOME nor HOME is set");
}

/* ---- revisions -------------------------------------------------------------------------- */

/* Commit that refs/<revision> holds, "" if there is no such file. */
static qk_status read_ref(const char *repo, const char *revision,
                          char commit[MAX_COMMIT_DIGITS + 1], qk_error *err)
{
    char *path = qk__format("%s/refs/%s", repo, revision);
    qk_status status = path ? QK_OK : qk__nomem(err);
    *commit = 0;
    if (status == QK_OK && qk__is_file(path)) {
        qk__buffer text;
        status = qk__read_file(path, 4096, &text, err);
        if (status == QK_OK) {
            char *hash = (char *)text.data;
            hash[strcspn(hash, " \t\r\n")] = 0;
            if (is_hex(hash) && strlen(hash) <= MAX_COMMIT_DIGITS)
                memcpy(commit, hash, strlen(hash) + 1);
            else
                status = qk__fail(err, QK_ERR_MALFORMED, "%s: no commit hash in it", path);
            qk__buffer_free(&text);
        }
    }
    free(path);
    return status;
}

/* The snapshot that is or starts with `commit`: snapshots/<commit>. *path stays NULL when
 * there is none. */
static qk_status find_snapshot(const char *repo, const char *commit, char **path, qk_error *err)
{
    char *snapshots = qk__path_join(repo, "snapshots");
    if (!snapshots)
        return qk__nomem(err);
    qk__names names = {0};
    qk_status status = QK_OK;
    if (qk__is_dir(snapshots))
        status = qk__list_dir(snapshots, &names, err);
    const char *match = NULL;
    size_t length = strlen(commit);
    for (size_t i = 0; status == QK_OK && i < names.count; i++) {
        if (strncmp(names.items[i], commit, length) != 0)
            continue;
        if (match && names.items[i][length] != 0)
            status = qk__fail(err, QK_ERR_NOT_FOUND,
                              "%s: revision %s is ambiguous: %s and %s start with it",
                              snapshots, commit, match, names.items[i]);
        match = names.items[i];
        if (match[length] == 0)
            break; /* the exact one: names are sorted, it comes first */
    }
    if (status == QK_OK && match && !(*path = qk__path_join(snapshots, match)))
        status = qk__nomem(err);
    qk__names_free(&names);
    free(snapshots);
    return status;
}

/* Looks for a revision in <cache>/datasets--org--name; *path stays NULL if it is not
 * there. */
static qk_status find_in_repo(const char *repo, const char *revision, char **path,
                              qk_error *err)
{
    char commit[MAX_COMMIT_DIGITS + 1];
    QK_TRY(read_ref(repo, revision, commit, err));
    size_t length = strlen(revision);
    if (!*commit && is_hex(revision) && length >= MIN_COMMIT_DIGITS &&
        length <= MAX_COMMIT_DIGITS)
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

static qk_status find_in_cache(const repo_kind *kind, const char *cache, const char *name,
                               const char *revision, char **path, qk_error *err)
{
    char *folder = cache_name(kind, name);
    char *repo = folder ? qk__path_join(cache, folder) : NULL;
    qk_status status = repo ? QK_OK : qk__nomem(err);
    if (status == QK_OK && qk__is_dir(repo))
        status = find_in_repo(repo, revision, path, err);
    free(folder);
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
    const char *last = last_component(name);
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

static qk_status find_in_root(const char *root, const char *name, const char *revision,
                              char **path, qk_error *err)
{
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
    if (!yes) /* it may be a cache folder itself */
        return find_in_cache(&DATASET, root, name, revision, path, err);
    *path = qk__strdup(root);
    return *path ? QK_OK : qk__nomem(err);
}

/* ---- all together ----------------------------------------------------------------------- */

static qk_status fail_missing(const repo_kind *kind, const char *cache, const char *name,
                              const char *revision, const char *local_root, qk_error *err)
{
    bool tell_root = local_root && *local_root;
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s: no such folder%s%s, and revision %s of a %s of this name is not "
                    "in the Hugging Face cache %s (HF_HUB_CACHE or HF_HOME choose another); "
                    "download it with: hf download %s%s --revision %s",
                    name, tell_root ? ", nor one in local_root " : "",
                    tell_root ? local_root : "", revision, kind->what, cache, kind->option,
                    name, revision);
}

static qk_status fail_file(const repo_kind *kind, const char *name, qk_error *err)
{
    return qk__fail(err, QK_ERR_NOT_FOUND, "%s: a file; expected the folder of a %s", name,
                    kind->what);
}

static qk_status find_on_hub(const repo_kind *kind, const char *name, const char *revision,
                             const char *local_root, char **path, qk_error *err)
{
    if (!is_hub_name(name))
        return qk__is_file(name)
                   ? fail_file(kind, name, err)
                   : qk__fail(err, QK_ERR_NOT_FOUND,
                              "%s: no such folder (and not the name of a Hub %s, org/name)",
                              name, kind->what);
    char *cache = NULL;
    QK_TRY(cache_root(&cache, err));
    qk_status status = find_in_cache(kind, cache, name, revision, path, err);
    if (status == QK_OK && !*path)
        status = qk__is_file(name) ? fail_file(kind, name, err)
                                   : fail_missing(kind, cache, name, revision, local_root, err);
    free(cache);
    return status;
}

static qk_status find(const repo_kind *kind, const char *name, const char *revision,
                      const char *local_root, char **path, qk_error *err)
{
    *path = NULL;
    if (!name || !*name)
        return qk__fail(err, QK_ERR_ARGUMENT, "no %s given", kind->what);
    if (!revision || !*revision)
        revision = "main";
    if (!is_revision(revision))
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: not a revision", revision);
    if (local_root && *local_root && *name != '/')
        QK_TRY(find_in_root(local_root, name, revision, path, err));
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
    return find(&DATASET, name, revision, local_root, path, err);
}

qk_status qk_hub_find_model(const char *name, const char *revision, char **path, qk_error *err)
{
    static const char suffix[] = ".gguf";
    QK_NEED(err, path);
    *path = NULL;
    QK_NEED(err, name);
    size_t length = strlen(name), end = sizeof suffix - 1;
    if (length > end && strcmp(name + length - end, suffix) == 0 && qk__is_file(name)) {
        *path = qk__strdup(name);
        return *path ? QK_OK : qk__nomem(err);
    }
    return find(&MODEL, name, revision, NULL, path, err);
}
