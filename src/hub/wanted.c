/* SPDX-License-Identifier: Apache-2.0 */
/* Which files a commit has, and which of them a run needs: of a capture the chosen layers and heads, with the key
 * heads that query heads attend to; of a model its configuration, weights and tokenizer; tables of texts. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "capture/capture.h"
#include "hub/hub.h"

/* ---- the files of a commit --------------------------------------------------------------- */

void qk__files_free(qk__repo_files *files)
{
    free(files->items);
    json_decref(files->json);
    *files = (qk__repo_files){0};
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const qk__repo_file *)a)->path, ((const qk__repo_file *)b)->path);
}

/* QK_ERR_MALFORMED: huggingface_hub would not read it either. */
static qk_status take_files(qk__repo_files *files, qk_error *err)
{
    json_t *list = json_object_get(files->json, "files"), *info;
    const char *path;
    size_t count = json_object_size(list);
    if (json_integer_value(json_object_get(files->json, "format_version")) != 1 || count == 0)
        return QK_ERR_MALFORMED;
    if (!(files->items = qk__calloc(count, sizeof *files->items)))
        return qk__nomem(err);
    json_object_foreach(list, path, info)
    {
        const json_t *large = json_object_get(info, "lfs_size");
        const json_t *size = large ? large : json_object_get(info, "size");
        if (!*path || !json_is_integer(size))
            return QK_ERR_MALFORMED;
        files->items[files->count++] = (qk__repo_file){path, json_integer_value(size), false};
    }
    qsort(files->items, count, sizeof *files->items, compare_paths);
    return QK_OK;
}

qk_status qk__files_read(qk__repo_files *files, const qk__repo *repo, qk_error *err)
{
    qk__path path;
    qk__buffer text = {0};
    size_t limit = qk__json_limits_of(QK__JSON_FILES)->text;
    *files = (qk__repo_files){0};
    QK_TRY(qk__path_set(&path, err, "%s/trees/%s.json", repo->folder.text, repo->commit));
    if (!*repo->commit || !qk__is_file(path.text))
        return QK_OK;
    qk_status status = qk__read_file(path.text, limit, &text, err);
    if (status == QK_OK)
        status = qk__json_parse(&files->json, text.data, text.size, QK__JSON_FILES, err);
    if (status == QK_OK)
        status = take_files(files, err);
    if (status != QK_OK)
        qk__files_free(files);
    qk__buffer_free(&text);
    return status == QK_ERR_NOMEM ? qk__nomem(err) : QK_OK;
}

/* ---- captures ---------------------------------------------------------------------------- */

/* A file of a capture: "DIR/l00h00q/data.parquet", one with all heads of a layer, or sums. */
typedef struct capture_file {
    enum { NONE, MANIFEST, LAYER, HEAD } form;
    qk_head_id id;
    int dir; /* bytes of DIR, with its slash */
} capture_file;

static capture_file look_at(const char *path)
{
    capture_file f = {0};
    char folder[QK_HEAD_NAME_SIZE], rest;
    const char *name = qk__file_name(path), *at = name - (name > path);
    if (strcmp(name, "capture.json") == 0)
        return (capture_file){.form = MANIFEST, .dir = (int)(name - path)};
    while (at > path && at[-1] != '/')
        at--;
    if (name == path || name - at > (int)sizeof folder)
        return f;
    snprintf(folder, sizeof folder, "%.*s", (int)(name - at) - 1, at);
    f.dir = (int)(at - path);
    if (qk__is_sums_folder(folder) &&
        sscanf(name, "l%9d.safetensor%c", &f.id.layer, &rest) == 2)
        f.form = LAYER;
    else if (qk__ends_with(name, ".parquet"))
        f.form = qk_head_parse(folder, &f.id)     ? HEAD
                 : qk__layer_parse(folder, &f.id) ? LAYER
                                                  : NONE;
    return f;
}

static bool is_below(const char *path, const char *prefix)
{
    size_t length = prefix ? strlen(prefix) : 0;
    while (length > 0 && prefix[length - 1] == '/')
        length--;
    return length == 0 || (strncmp(path, prefix, length) == 0 && path[length] == '/');
}

/* Where layers have groups of several sizes, no size fits both the number of heads and the last one's. */
void qk__files_shape(const qk__repo_files *files, const char *prefix, qk_hub_place *place)
{
    int64_t count[2] = {0, 0}, most[2] = {0, 0};
    qk_head_id before = {-1, 0, QK_QUERY};
    for (size_t i = 0; i < files->count; i++) {
        capture_file f = look_at(files->items[i].path);
        if (f.form < LAYER || !is_below(files->items[i].path, prefix))
            continue;
        if (f.id.layer >= place->num_layers)
            place->num_layers = f.id.layer + 1;
        if (f.form != HEAD || qk__head_compare(f.id, before) == 0)
            continue; /* another file of a head */
        before = f.id;
        count[f.id.kind]++;
        if (f.id.head >= most[f.id.kind])
            most[f.id.kind] = f.id.head + 1;
    }
    int64_t size = count[QK_KEY] > 0 ? count[QK_QUERY] / count[QK_KEY] : 0;
    if (size * count[QK_KEY] == count[QK_QUERY] && size * most[QK_KEY] == most[QK_QUERY])
        place->q_per_kv_group = (int)size;
}

/* Without a group size (0) any key head may be the one. */
static bool wants_of_capture(const qk_hub_wanted *w, int group, const char *path)
{
    capture_file f = look_at(path);
    if (f.form <= MANIFEST || !is_below(path, w->prefix))
        return f.form == MANIFEST && is_below(path, w->prefix);
    if (w->layers.count > 0 && !qk_index_list_has(&w->layers, f.id.layer))
        return false;
    for (size_t i = 0; i < w->heads.count; i++) {
        const qk_head_range *r = &w->heads.items[i];
        bool layer = f.id.layer >= r->first_layer && f.id.layer <= r->last_layer;
        bool head = f.id.head >= r->first_head && f.id.head <= r->last_head;
        bool key = f.id.kind == QK_KEY && (group == 0 || (f.id.head >= r->first_head / group &&
                                                          f.id.head <= r->last_head / group));
        if (layer && (f.form == LAYER || head || key))
            return true;
    }
    return w->heads.count == 0;
}

/* A run takes one capture: that there are several is said before they are fetched. */
static qk_status check_one(const qk__repo_files *files, qk_error *err)
{
    const char *first = NULL;
    int length = 0;
    for (size_t i = 0; i < files->count; i++) {
        const char *path = files->items[i].path;
        capture_file f = look_at(path);
        bool hidden = *path == '.' || strstr(path, "/.");
        if (!files->items[i].wanted || f.form < LAYER || hidden ||
            (first && f.dir == length && strncmp(path, first, (size_t)length) == 0))
            continue;
        if (first)
            return qk__fail(
                err, QK_ERR_INCONSISTENT,
                "it holds several captures, such as %.*s and %.*s: choose one, with "
                "--split FOLDER",
                length > 0 ? length - 1 : 1, length > 0 ? first : ".",
                f.dir > 0 ? f.dir - 1 : 1, f.dir > 0 ? path : ".");
        first = path;
        length = f.dir;
    }
    return QK_OK;
}

/* ---- models and texts -------------------------------------------------------------------- */

/* Heads are looked for at the top, as the list tells of other folders. Of a model there may be a tokenizer in another
 * form: what reads it says then what to do. */
const char *const *qk__usual_names(qk_hub_part part)
{
    static const char *const USUAL[][8] = {
        [QK_HUB_CAPTURE] = {"capture.json", "l[0-9]*[qk]/*.parquet", "moments/l*.safetensors",
                            "attention/l*.safetensors"},
        [QK_HUB_TEXTS] = {"README.md"},
        [QK_HUB_TOKENIZER] = {"tokenizer.json", "tokenizer.model"},
        [QK_HUB_MODEL] = {"config.json", "adapter_config.json", "tokenizer.json",
                          "tokenizer.model", "model.safetensors",
                          "model.safetensors.index.json", "model-*.safetensors"},
    };
    return USUAL[part];
}

static bool is_usual(qk_hub_part part, const char *path)
{
    for (const char *const *name = qk__usual_names(part); *name; name++)
        if (!strchr(path, '/') && fnmatch(*name, path, 0) == 0)
            return true;
    return false;
}

static bool is_texts(const char *path)
{
    return *path != '.' && !strstr(path, "/.") &&
           (qk__ends_with_any_case(path, ".parquet") ||
            qk__ends_with_any_case(path, ".jsonl") || qk__ends_with_any_case(path, ".ndjson"));
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool qk__has_word(const char *path, const char *word)
{
    size_t length = strlen(word);
    for (const char *p = path; length > 0 && (p = strstr(p, word)) != NULL; p++)
        if ((p == path || !is_letter(p[-1])) && !is_letter(p[length]))
            return true;
    return false;
}

/* Of the files that are wanted those with a word, if any has it. */
static void keep_word(qk__repo_files *files, const char *word)
{
    bool any = false;
    for (size_t i = 0; word && i < files->count; i++)
        any |= files->items[i].wanted && qk__has_word(files->items[i].path, word);
    for (size_t i = 0; any && i < files->count; i++)
        files->items[i].wanted &= qk__has_word(files->items[i].path, word);
}

/* ---- all together ------------------------------------------------------------------------ */

qk_status qk__files_choose(qk__repo_files *files, const qk_hub_wanted *w, qk_error *err)
{
    static const char *const NOTHING[] = {
        [QK_HUB_CAPTURE] = "there are no folders of heads such as l00h00q, or not these",
        [QK_HUB_TEXTS] = "there are no Parquet or JSONL files",
        [QK_HUB_TOKENIZER] = "there is no tokenizer.json",
        [QK_HUB_MODEL] =
            "there are no weights as model*.safetensors; write others in this form "
            "with save_pretrained of transformers; a GGUF file is taken by its path, "
            "which hf download NAME FILE.gguf prints",
    };
    qk_hub_place shape = {0};
    bool any = false;
    qk__files_shape(files, w->prefix, &shape);
    int group = w->q_per_kv_group > 0 ? w->q_per_kv_group : shape.q_per_kv_group;
    for (size_t i = 0; i < files->count; i++) {
        qk__repo_file *file = &files->items[i];
        bool capture = w->part == QK_HUB_CAPTURE, model = w->part == QK_HUB_MODEL;
        file->wanted = capture                   ? wants_of_capture(w, group, file->path)
                       : w->part == QK_HUB_TEXTS ? is_texts(file->path)
                                                 : is_usual(w->part, file->path);
        any |= file->wanted && (!capture || look_at(file->path).form >= LAYER) &&
               (!model || qk__ends_with(file->path, ".safetensors"));
    }
    keep_word(files, w->text_name);
    keep_word(files, w->text_split);
    if (!any)
        return qk__fail(err, QK_ERR_NOT_FOUND, "of its %zu files none is wanted: %s",
                        files->count, NOTHING[w->part]);
    return w->part == QK_HUB_CAPTURE && !w->prefix ? check_one(files, err) : QK_OK;
}
