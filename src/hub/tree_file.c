/* SPDX-License-Identifier: Apache-2.0 */
/* trees/<commit>.json: which files a commit has. huggingface_hub writes it before it fetches, so it
 * tells a snapshot that is whole from one that was cut off. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "hub/hub.h"

enum { FORMAT = 1 };

void qk__repo_files_free(qk__repo_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->items[i].path);
    free(files->items);
    *files = (qk__repo_files){0};
}

/* QK_ERR_MALFORMED: it is not one that huggingface_hub would have written. */
static qk_status add_file(qk__repo_files *files, const char *path, const json_t *info,
                          qk_error *err)
{
    const json_t *size = json_object_get(info, "lfs_size");
    size = size ? size : json_object_get(info, "size");
    if (!*path || !json_is_integer(size))
        return QK_ERR_MALFORMED;
    if (files->count == files->capacity) {
        void *grown = qk__grow(files->items, &files->capacity, sizeof *files->items);
        if (!grown)
            return qk__nomem(err);
        files->items = grown;
    }
    char *copy = qk__strdup(path);
    if (!copy)
        return qk__nomem(err);
    files->items[files->count++] = (qk__repo_file){copy, json_integer_value(size), false};
    return QK_OK;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const qk__repo_file *)a)->path, ((const qk__repo_file *)b)->path);
}

static qk_status take_files(json_t *root, qk__repo_files *files, qk_error *err)
{
    json_t *list = json_object_get(root, "files"), *info;
    const char *path;
    if (!json_is_object(list) ||
        json_integer_value(json_object_get(root, "format_version")) != FORMAT)
        return QK_ERR_MALFORMED;
    json_object_foreach(list, path, info)
    {
        QK_TRY(add_file(files, path, info, err));
    }
    if (files->count > 1)
        qsort(files->items, files->count, sizeof *files->items, compare_paths);
    return QK_OK;
}

qk_status qk__tree_read(const char *folder, const char *commit, qk__repo_files *files,
                        bool *known, qk_error *err)
{
    qk__path path;
    qk__buffer text = {0};
    json_t *root = NULL;
    *files = (qk__repo_files){0};
    QK_TRY(qk__path_set(&path, err, "%s/trees/%s.json", folder, commit));
    qk_status status = QK_ERR_NOT_FOUND;
    if (qk__is_file(path.text))
        status = qk__read_file(path.text, qk__json_limits_of(QK__JSON_FILES)->text, &text, err);
    if (status == QK_OK)
        status = qk__json_parse(&root, text.data, text.size, QK__JSON_FILES, err);
    if (status == QK_OK)
        status = take_files(root, files, err);
    *known = status == QK_OK;
    if (!*known)
        qk__repo_files_free(files);
    json_decref(root);
    qk__buffer_free(&text);
    return status == QK_ERR_NOMEM ? qk__nomem(err) : QK_OK;
}
