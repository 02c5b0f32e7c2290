/* SPDX-License-Identifier: Apache-2.0 */
/* Where a dataset or a model lies: a path, or a snapshot in the Hugging Face cache, which has
 * datasets--org--name/{refs/REVISION, snapshots/COMMIT/...} and models--org--name. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/expand.h"
#include "base/file.h"
#include "hub/hub.h"
#include "paths/model_files.h"
#include "paths/path_kind.h"

enum { MAX_WORD = 96 }; /* of a name, before or after the slash */

/* ---- names ------------------------------------------------------------------------------- */

static bool is_word(const char *text, size_t length)
{
    static const char KNOWN[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return length > 0 && length <= MAX_WORD && strspn(text, KNOWN) >= length &&
           !strchr("-.", text[0]) && !strchr("-.", text[length - 1]);
}

/* "org/name", or "name" alone, as the oldest repositories have it. */
static bool is_name(const char *name)
{
    const char *last = qk__file_name(name);
    return (last == name || is_word(name, (size_t)(last - name) - 1)) &&
           is_word(last, strlen(last)) && !strstr(name, "..") && !strstr(name, "--");
}

/* What ends so is a path. */
static bool is_file_name(const char *name)
{
    static const char *const ENDS[] = {
        ".gguf",  ".safetensors", ".parquet", ".npz", ".npy",  ".pt",  ".pth", ".json",
        ".jsonl", ".ndjson",      ".txt",     ".md",  ".yaml", ".yml", ".csv", ".tsv"};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
        if (qk__ends_with(name, ENDS[i]))
            return true;
    return false;
}

/* "org" of "org/name" is a folder here, so that the whole is meant as a path. */
static bool begins_here(const char *name)
{
    char folder[MAX_WORD + 1];
    snprintf(folder, sizeof folder, "%.*s", (int)strcspn(name, "/"), name);
    return strchr(name, '/') && qk__is_dir(folder);
}

bool qk_hub_is_remote(const char *name)
{
    assert(name);
    return strchr(name, '/') && is_name(name) && !is_file_name(name) && !qk__is_there(name) &&
           !begins_here(name);
}

static bool is_commit(const char *text)
{
    size_t digits = strspn(text, "0123456789abcdef");
    return !text[digits] && (digits == 40 || digits == QK__COMMIT_SIZE - 1);
}

/* ---- the cache --------------------------------------------------------------------------- */

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

/* A value with ~ at its front and variables in it, as huggingface_hub takes it, and the tail behind it. */
static qk_status expand_path(const char *value, const char *tail, qk__path *path, qk_error *err)
{
    qk__buffer text = {0};
    const char *home = qk__environment("HOME");
    bool at_home = home && value[0] == '~' && (value[1] == '/' || value[1] == 0);
    qk_status status = qk__expand_variables(value + at_home, strlen(value + at_home),
                                            sizeof path->text, &text, err);
    if (status == QK_OK)
        status =
            qk__path_set(path, err, "%s%s%s", at_home ? home : "", (char *)text.data, tail);
    qk__buffer_free(&text);
    return status;
}

static qk_status find_cache(qk__path *path, qk_error *err)
{
    static const struct {
        const char *variable, *tail;
    } PLACES[] = {
        {"HF_HUB_CACHE", ""},
        {"HUGGINGFACE_HUB_CACHE", ""}, /* its older name, still obeyed */
        {"HF_HOME", "/hub"},
        {"XDG_CACHE_HOME", "/huggingface/hub"},
        {"HOME", "/.cache/huggingface/hub"},
    };
    for (size_t i = 0; i < sizeof PLACES / sizeof PLACES[0]; i++) {
        const char *value = qk__environment(PLACES[i].variable);
        if (value)
            return expand_path(value, PLACES[i].tail, path, err);
    }
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "no Hugging Face cache: neither HF_HUB_CACHE, HF_HOME nor HOME is set");
}

/* What is no commit in refs/, hf writes anew. */
qk_status qk__repo_find_commit(qk__repo *repo, qk_error *err)
{
    qk__path path;
    qk__buffer text = {0};
    qk_status status = QK_OK;
    QK_TRY(qk__path_set(&path, err, "%s/refs/%s", repo->folder.text, repo->revision));
    if (qk__is_file(path.text))
        status = qk__read_file(path.text, QK__COMMIT_SIZE, &text, err);
    char *ref = (char *)text.data;
    if (ref)
        ref[strcspn(ref, " \t\r\n")] = 0;
    const char *commit = is_commit(repo->revision) ? repo->revision
                         : ref && is_commit(ref)   ? ref
                                                   : "";
    memcpy(repo->commit, commit, strlen(commit) + 1);
    qk__buffer_free(&text);
    return status == QK_ERR_MALFORMED ? QK_OK : status;
}

qk_status qk__repo_place(const qk__repo *repo, bool offline, char **path, qk_error *err)
{
    const char *why =
        offline ? ", and nothing may be fetched (--offline or HF_HUB_OFFLINE)" : "";
    *path = repo->path.text[0] ? qk__strdup(repo->path.text)
                               : qk__format("%s/snapshots/%s", repo->folder.text, repo->commit);
    if (!*path)
        return qk__nomem(err);
    if (repo->path.text[0] || (*repo->commit && qk__is_dir(*path)))
        return QK_OK;
    free(*path);
    *path = NULL;
    return qk__fail(
        err, QK_ERR_NOT_FOUND,
        "no such folder, and revision %s of a %s of this name is not in the Hugging "
        "Face cache %s (HF_HUB_CACHE or HF_HOME choose another)%s; fetch it with: "
        "hf download %s --repo-type %s --revision %s",
        repo->revision, repo->kind, repo->cache.text, why, repo->name, repo->kind,
        repo->revision);
}

/* ---- paths ------------------------------------------------------------------------------- */

static qk_status fail_path(const qk__repo *repo, bool model, qk_error *err)
{
    const char *name = repo->name;
    if (qk__is_file(name)) {
        const qk__model_form *form = model ? qk__model_form_of(qk__file_name(name)) : NULL;
        const char *remedy = form ? form->remedy : NULL;
        qk__set_error(err, QK_ERR_NOT_FOUND, "%s: a file; expected the folder of a %s%s%s",
                      name, model ? "model" : "capture, with Parquet files (docs/formats.md)",
                      remedy ? "; " : "", remedy ? remedy : "");
        if (remedy) /* which says more than what the file is a part of */
            return QK_ERR_NOT_FOUND;
        return qk__path_tell(name, model ? QK__PATH_MODEL : QK__PATH_CAPTURE, QK_ERR_NOT_FOUND,
                             err);
    }
    bool here = is_name(name) && begins_here(name);
    char *beside = qk__path_beside(name);
    qk__set_error(err, QK_ERR_NOT_FOUND, "%s: no such %s (%s Hub %s, org/name)%s%s", name,
                  is_file_name(name) ? "file" : "folder",
                  here ? "and as its first word is a folder here, not looked for as a"
                       : "and not the name of a",
                  repo->kind, beside ? "; beside it: " : "", beside ? beside : "");
    free(beside);
    return QK_ERR_NOT_FOUND;
}

/* Whether a folder is this dataset's, by its name or by a capture in it: a folder of other things must not be
 * taken for it. */
static bool is_dataset(const char *folder, const char *name)
{
    const char *last = qk__file_name(name);
    size_t length = strlen(folder), tail = strlen(last);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    return (length > tail && folder[length - tail - 1] == '/' &&
            strncmp(folder + length - tail, last, tail) == 0) ||
           qk__path_look(folder) == QK__PATH_CAPTURE;
}

/* local_root has it as a folder, or is it. */
static qk_status look_in_root(qk__repo *repo, const char *root, qk_error *err)
{
    QK_TRY(qk__path_in(&repo->path, root, repo->name, err));
    if (qk__is_dir(repo->path.text))
        return QK_OK;
    bool is = qk__is_dir(root) && is_dataset(root, repo->name);
    return qk__path_set(&repo->path, err, "%s", is ? root : "");
}

qk_status qk__repo_find(qk__repo *repo, const qk_hub_wanted *w, qk_error *err)
{
    const char *name = w->name ? w->name : "", *root = w->local_root ? w->local_root : "";
    bool model = w->part == QK_HUB_MODEL || w->part == QK_HUB_TOKENIZER;
    *repo = (qk__repo){.kind = model ? "model" : "dataset", .name = name};
    repo->revision = w->revision && *w->revision ? w->revision : "main";
    if (!*name)
        return qk__fail(err, QK_ERR_ARGUMENT, "no %s given", repo->kind);
    if (*root && *name != '/')
        QK_TRY(look_in_root(repo, root, err));
    if (repo->path.text[0])
        return QK_OK;
    if (qk__is_dir(name) || (model && qk__is_whole_model(name) && qk__is_file(name)))
        return qk__path_set(&repo->path, err, "%s", name);
    if (!is_name(name))
        return fail_path(repo, model, err);
    const char *slash = strchr(name, '/');
    QK_TRY(find_cache(&repo->cache, err));
    QK_TRY(qk__path_set(&repo->folder, err, "%s/%ss--%.*s%s%s", repo->cache.text, repo->kind,
                        (int)strcspn(name, "/"), name, slash ? "--" : "",
                        slash ? slash + 1 : ""));
    QK_TRY(qk__repo_find_commit(repo, err));
    return *repo->commit || qk_hub_is_remote(name) ? QK_OK : fail_path(repo, model, err);
}
