/* SPDX-License-Identifier: Apache-2.0 */
/* trees/<commit>.json: which files a commit has. huggingface_hub writes it before it fetches, so it
 * tells a snapshot that is whole from one that was cut off. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "hub/hub.h"

enum { FORMAT = 1 };

static qk_status find_tree(qk__path *path, const char *folder, const char *commit,
                           qk_error *err)
{
    return qk__path_set(path, err, "%s/trees/%s.json", folder, commit);
}

/* ---- reading ----------------------------------------------------------------------------- */

static bool copy_hash(const json_t *info, const char *key, char hash[QK__MAX_HASH + 1])
{
    const char *text = json_string_value(json_object_get(info, key));
    if (!text || !(qk__is_hash(text, 40) || qk__is_hash(text, 64)))
        return false;
    memcpy(hash, text, strlen(text) + 1);
    return true;
}

/* Whether the file is one that this program, and the other one, would have written. */
static bool read_file(const char *path, const json_t *info, qk__repo_file *file)
{
    *file = (qk__repo_file){.path = (char *)(uintptr_t)path};
    const json_t *size = json_object_get(info, "size");
    if (!json_is_integer(size) || !copy_hash(info, "blob_id", file->oid))
        return false;
    file->size = json_integer_value(size);
    if (json_object_get(info, "lfs_sha256")) {
        size = json_object_get(info, "lfs_size");
        if (!json_is_integer(size) || !copy_hash(info, "lfs_sha256", file->sha256))
            return false;
        file->size = json_integer_value(size);
    }
    return !json_object_get(info, "xet_hash") || copy_hash(info, "xet_hash", file->xet);
}

qk_status qk__tree_file_read(const char *folder, const char *commit, qk__repo_files *files,
                             bool *known, qk_error *err)
{
    *known = false;
    *files = (qk__repo_files){0};
    qk__path path;
    QK_TRY(find_tree(&path, folder, commit, err));
    qk__buffer text = {0};
    json_t *root = NULL;
    qk_status status = QK_ERR_NOT_FOUND;
    if (qk__is_file(path.text))
        status = qk__read_file(path.text, qk__json_limits_of(QK__JSON_FILES)->text, &text, err);
    if (status == QK_OK)
        status = qk__json_parse(&root, text.data, text.size, QK__JSON_FILES, err);
    json_t *list = json_object_get(root, "files"), *info;
    const char *name;
    *known = status == QK_OK && json_is_object(list) &&
             json_integer_value(json_object_get(root, "format_version")) == FORMAT;
    if (*known)
        json_object_foreach(list, name, info)
        {
            qk__repo_file file;
            if (!read_file(name, info, &file))
                status = QK_ERR_MALFORMED;
            else
                status = qk__repo_files_add(files, &file, err);
            if (status != QK_OK)
                break;
        }
    if (*known && status == QK_OK)
        status = qk__repo_files_sort(files, err);
    *known = *known && status == QK_OK;
    if (!*known)
        qk__repo_files_free(files);
    json_decref(root);
    qk__buffer_free(&text);
    /* One that cannot be read is written anew. */
    return status == QK_ERR_NOMEM ? qk__nomem(err) : QK_OK;
}

/* ---- writing ----------------------------------------------------------------------------- */

/* A string as Python's json has it. */
static qk_status put_string(qk__buffer *out, const char *text, qk_error *err)
{
    qk_status status = qk__buffer_append(out, "\"", 1, err);
    for (const uint8_t *p = (const uint8_t *)text; *p && status == QK_OK;) {
        size_t length;
        uint32_t c = qk__utf8_read(p, &length);
        if (c == '"' || c == '\\')
            status = qk__buffer_printf(out, err, "\\%c", (int)c);
        else if (c >= 0x20 && c < 0x7f)
            status = qk__buffer_append(out, p, 1, err);
        else if (c < 0x10000)
            status = qk__buffer_printf(out, err, "\\u%04x", (unsigned)c);
        else
            status = qk__buffer_printf(out, err, "\\u%04x\\u%04x",
                                       (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
                                       (unsigned)(0xdc00 + ((c - 0x10000) & 0x3ff)));
        p += length;
    }
    return status == QK_OK ? qk__buffer_append(out, "\"", 1, err) : status;
}

static qk_status put_file(qk__buffer *out, const qk__repo_file *file, bool first, qk_error *err)
{
    QK_TRY(qk__buffer_printf(out, err, "%s\n  ", first ? "" : ","));
    QK_TRY(put_string(out, file->path, err));
    QK_TRY(qk__buffer_printf(out, err, ": {\n   \"size\": %lld,\n   \"blob_id\": \"%s\"",
                             (long long)file->size, file->oid));
    if (*file->sha256)
        QK_TRY(qk__buffer_printf(out, err,
                                 ",\n   \"lfs_sha256\": \"%s\",\n   \"lfs_size\": %lld",
                                 file->sha256, (long long)file->size));
    if (*file->xet)
        QK_TRY(qk__buffer_printf(out, err, ",\n   \"xet_hash\": \"%s\"", file->xet));
    return qk__buffer_append(out, "\n  }", 4, err);
}

qk_status qk__tree_file_write(const char *folder, const char *commit,
                              const qk__repo_files *files, qk_error *err)
{
    qk__path path;
    qk__buffer out = {0};
    QK_TRY(find_tree(&path, folder, commit, err));
    QK_TRY(qk__make_parents(path.text, err));
    QK_TRY(qk__cache_sweep(path.text, err));
    qk_status status =
        qk__buffer_printf(&out, err, "{\n \"format_version\": %d,\n \"files\": {", FORMAT);
    for (size_t i = 0; i < files->count && status == QK_OK; i++)
        status = put_file(&out, &files->items[i], i == 0, err);
    if (status == QK_OK)
        status = qk__buffer_printf(&out, err, "%s}\n}", files->count > 0 ? "\n " : "");
    if (status == QK_OK)
        status = qk__write_file(path.text, out.data, out.size, err);
    qk__buffer_free(&out);
    return status;
}
