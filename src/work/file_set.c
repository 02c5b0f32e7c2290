/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a folder that are one whole: all are written before the first takes its place. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/json_build.h"
#include "work/place.h"

qk_status qk__file_set_add(qk__file_set *set, const char *name, qk__outfile *file,
                           qk_status status)
{
    if (status == QK_OK) {
        assert(set->count < QK__SET_FILES);
        set->names[set->count] = name;
        set->files[set->count++] = file;
    } else {
        qk__outfile_discard(&file);
    }
    return status;
}

qk_status qk__file_set_write(qk__file_set *set, const char *folder, const char *name,
                             const void *data, size_t size, qk_error *err)
{
    qk__outfile *file;
    QK_TRY(qk__outfile_open_in(&file, folder, name, err));
    qk_status status = qk__outfile_write(file, data, size, err);
    if (status == QK_OK)
        status = qk__outfile_finish(file, err);
    return qk__file_set_add(set, name, file, status);
}

bool qk__file_set_has(const qk__file_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->names[i], name) == 0)
            return true;
    return false;
}

qk_status qk__file_set_install(qk__file_set *set, qk__outfile *mark, qk__clear_fn *clear,
                               const void *context, qk_error *err)
{
    if (mark)
        QK_TRY(qk__outfile_commit(&mark, err));
    if (clear)
        QK_TRY(clear(context, err));
    for (size_t i = 0; i < set->count; i++)
        QK_TRY(qk__outfile_commit(&set->files[i], err));
    return QK_OK;
}

void qk__file_set_discard(qk__file_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        qk__outfile_discard(&set->files[i]);
}

/* ---- what a manifest says of them -------------------------------------------------------- */

qk_status qk__describe_table(json_t **contents, const char *name, const char *path,
                             qk_error *err)
{
    int64_t bytes;
    char hash[QK__FINGERPRINT_SIZE];
    QK_TRY(qk__fingerprint_file(path, &bytes, hash, err));
    *contents = qk__json_set(
        *contents, name, json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes, "xxh3_128", hash));
    return *contents ? QK_OK : qk__nomem(err);
}

qk_status qk__describe_files(json_t **entry, const qk__file_set *files, qk_error *err)
{
    json_t *tables = json_array(), *contents = json_object();
    qk_status status = QK_OK;
    for (size_t i = 0; i < files->count && status == QK_OK; i++) {
        const char *name = files->names[i];
        if (qk__ends_with(name, ".html"))
            continue;
        if (strcmp(name, QK__SCHEMA_NAME) != 0)
            tables = qk__json_append(tables, json_string(name));
        status =
            qk__describe_table(&contents, name, qk__outfile_temporary(files->files[i]), err);
    }
    *entry = qk__json_set(*entry, "tables", tables);
    *entry = qk__json_set(*entry, "contents", contents);
    if (status == QK_OK && !*entry)
        status = qk__nomem(err);
    if (status != QK_OK) {
        json_decref(*entry);
        *entry = NULL;
    }
    return status;
}
