/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a commit as the Hub lists them. Nothing in a listing is believed: its paths become
 * paths of this machine, its sizes are what disks are asked for. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "hub/hub.h"

enum { MAX_PATH_BYTES = 2048, MAX_NAME_BYTES = 255, MAX_FILES = 500000 };
static const int64_t MAX_SIZE = (int64_t)1 << 50;

void qk__repo_files_free(qk__repo_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->items[i].path);
    free(files->items);
    *files = (qk__repo_files){0};
}

/* Why a path cannot be one of a repository; NULL: it can. */
static const char *fault_of_path(const char *path)
{
    if (!*path)
        return "is empty";
    if (*path == '/')
        return "is absolute";
    if (strlen(path) > MAX_PATH_BYTES)
        return "is too long";
    if (qk__utf8_valid((const uint8_t *)path, strlen(path)) < strlen(path))
        return "is not UTF-8";
    for (const char *p = path; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '\\')
            return *p == '\\' ? "has a backslash" : "has a control character";
    for (const char *part = path;;) {
        size_t length = strcspn(part, "/");
        if (length == 0)
            return "has an empty part";
        if ((length == 1 && part[0] == '.') ||
            (length == 2 && part[0] == '.' && part[1] == '.'))
            return "has a part . or ..";
        if (length > MAX_NAME_BYTES)
            return "has a part that is too long";
        if (!part[length])
            return NULL;
        part += length + 1;
    }
}

qk_status qk__repo_files_add(qk__repo_files *files, const qk__repo_file *file, qk_error *err)
{
    const char *fault = fault_of_path(file->path);
    if (fault)
        return qk__fail(err, QK_ERR_MALFORMED, "the path \"%.200s\" %s", file->path, fault);
    if (file->size < 0 || file->size > MAX_SIZE)
        return qk__fail(err, QK_ERR_MALFORMED, "%.200s: no file has %lld bytes", file->path,
                        (long long)file->size);
    if (files->count == MAX_FILES)
        return qk__fail(err, QK_ERR_MALFORMED, "more than %d files", MAX_FILES);
    if (files->count == files->capacity) {
        void *grown = qk__grow(files->items, &files->capacity, sizeof *files->items);
        if (!grown)
            return qk__nomem(err);
        files->items = grown;
    }
    qk__repo_file *added = &files->items[files->count];
    *added = *file;
    if (!(added->path = qk__strdup(file->path)))
        return qk__nomem(err);
    files->count++;
    return QK_OK;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const qk__repo_file *)a)->path, ((const qk__repo_file *)b)->path);
}

qk_status qk__repo_files_sort(qk__repo_files *files, qk_error *err)
{
    if (files->count > 1)
        qsort(files->items, files->count, sizeof *files->items, compare_paths);
    for (size_t i = 1; i < files->count; i++)
        if (strcmp(files->items[i - 1].path, files->items[i].path) == 0)
            return qk__fail(err, QK_ERR_MALFORMED, "%.200s is listed twice",
                            files->items[i].path);
    return QK_OK;
}

/* ---- a page ------------------------------------------------------------------------------ */

/* A hash of an entry into hash[]; "" where there is none and it need not be. */
static qk_status read_hash(const json_t *of, const char *key, size_t digits, const char *path,
                           char hash[QK__MAX_HASH + 1], qk_error *err)
{
    const char *text = json_string_value(json_object_get(of, key));
    size_t length = text ? strlen(text) : 0;
    if (!text || !(qk__is_hash(text, digits) || qk__is_hash(text, QK__MAX_HASH)))
        return qk__fail(err, QK_ERR_MALFORMED, "%.200s: its \"%s\" is no hash", path, key);
    memcpy(hash, text, length + 1);
    return QK_OK;
}

static qk_status read_size(const json_t *of, const char *path, int64_t *size, qk_error *err)
{
    const json_t *value = json_object_get(of, "size");
    if (!json_is_integer(value))
        return qk__fail(err, QK_ERR_MALFORMED, "%.200s: its size is no number of bytes", path);
    *size = json_integer_value(value);
    return QK_OK;
}

static qk_status add_entry(const json_t *entry, qk__repo_files *files, qk_error *err)
{
    enum { SHA1 = 40, SHA256 = 64 };
    const char *type = json_string_value(json_object_get(entry, "type"));
    const char *path = json_string_value(json_object_get(entry, "path"));
    if (!type || !path)
        return qk__fail(err, QK_ERR_MALFORMED, "an entry without type or path");
    if (strcmp(type, "directory") == 0)
        return QK_OK;
    if (strcmp(type, "file") != 0)
        return qk__fail(err, QK_ERR_MALFORMED, "%.200s: neither file nor directory", path);
    qk__repo_file file;
    memset(&file, 0, sizeof file);
    QK_TRY(read_size(entry, path, &file.size, err));
    QK_TRY(read_hash(entry, "oid", SHA1, path, file.oid, err));
    const json_t *lfs = json_object_get(entry, "lfs"), *xet = json_object_get(entry, "xetHash");
    if (lfs && !json_is_null(lfs)) {
        QK_TRY(read_hash(lfs, "oid", SHA256, path, file.sha256, err));
        QK_TRY(read_size(lfs, path, &file.size, err));
    }
    if (xet && !json_is_null(xet))
        QK_TRY(read_hash(entry, "xetHash", SHA256, path, file.xet, err));
    file.path = (char *)(uintptr_t)path; /* is copied */
    return qk__repo_files_add(files, &file, err);
}

qk_status qk__listing_read(const void *text, size_t size, qk__repo_files *files,
                           size_t *entries, qk_error *err)
{
    json_t *root;
    *entries = 0;
    QK_TRY(qk__json_parse(&root, text, size, QK__JSON_ANSWER, err));
    qk_status status = QK_OK;
    if (!json_is_array(root))
        status = qk__fail(err, QK_ERR_MALFORMED, "not a list of files");
    *entries = json_array_size(root);
    for (size_t i = 0; status == QK_OK && i < *entries; i++)
        status = add_entry(json_array_get(root, i), files, err);
    json_decref(root);
    return status;
}
