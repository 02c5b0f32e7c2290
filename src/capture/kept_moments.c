/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that keep moments, a file a layer, instead of all rows: which heads have them, and whether capture.json
 * agrees. The contents of the files are not read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "capture/capture.h"

bool qk__is_sums_folder(const char *name)
{
    return strcmp(name, QK__MOMENTS_FOLDER) == 0 || strcmp(name, QK__ATTENTION_FOLDER) == 0;
}

void qk__sums_name(const char *folder, int layer, char name[QK__SUMS_NAME_SIZE])
{
    snprintf(name, QK__SUMS_NAME_SIZE, "%s/l%02d.safetensors", folder, layer);
}

static bool is_layer_name(const char *name)
{
    size_t digits = *name == 'l' ? strspn(name + 1, "0123456789") : 0;
    return digits > 0 && strcmp(name + 1 + digits, ".safetensors") == 0;
}

qk_status qk__has_moments(const char *folder, bool *has, qk_error *err)
{
    *has = false;
    char *path = qk__path_join(folder, QK__MOMENTS_FOLDER);
    if (!path)
        return qk__nomem(err);
    qk__names names = {0};
    qk_status status = qk__is_dir(path) ? qk__list_dir(path, &names, err) : QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++)
        *has = *has || is_layer_name(names.items[i]);
    qk__names_free(&names);
    free(path);
    return status;
}

/* A head without rows: its file is that of its moments, which has no rows to read. */
static qk_status set_rowless(qk__capture_entry *entry, qk_error *err)
{
    char name[QK_HEAD_NAME_SIZE];
    if (!entry->head.missing) {
        qk_head_name(entry->head.id, name);
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: here are rows of %s, and capture.json says that none are kept",
                        entry->head.files[0], name);
    }
    char *path = qk__strdup(entry->moments);
    if (!path)
        return qk__nomem(err);
    free(entry->files.items[0]);
    entry->files.items[0] = path;
    entry->head.num_files = 0;
    entry->head.missing = !qk__is_file(path);
    return QK_OK;
}

/* Rows beside moments may be a few of many, which only a manifest can say. */
static qk_status refuse_moments_alone(const qk_capture *capture, qk_error *err)
{
    bool has;
    QK_TRY(qk__has_moments(capture->path, &has, err));
    return has ? qk__fail(
                     err, QK_ERR_NOT_FOUND,
                     "%s: there are moments beside the rows, and no capture.json that says "
                     "%s: fetch it%s, or remove the folder " QK__MOMENTS_FOLDER,
                     capture->path,
                     capture->info.has_manifest ? "so (\"keep\")" : "what was kept",
                     capture->info.has_manifest ? " again" : "")
               : QK_OK;
}

static qk_status check_counts(const qk_capture *capture, const qk_head *head, qk_error *err)
{
    char name[QK_HEAD_NAME_SIZE];
    bool all = capture->info.kept == QK_ROWS_ALL;
    if (!all || head->summed == 0 || head->rows == head->summed)
        return QK_OK;
    qk_head_name(head->id, name);
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s: capture.json says that all rows are kept, and lists %lld rows of %s "
                    "where %lld were summed: fetch it again, or capture again",
                    capture->path, (long long)head->rows, name, (long long)head->summed);
}

qk_status qk__capture_set_moments(qk_capture *capture, qk_error *err)
{
    const qk_capture_info *info = &capture->info;
    if (capture->num_entries == 0)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: there is a folder " QK__MOMENTS_FOLDER
                        ", and no capture.json of a finished capture that lists its heads",
                        capture->path);
    if (!info->has_moments)
        return refuse_moments_alone(capture, err);
    for (size_t i = 0; i < capture->num_entries; i++) {
        qk__capture_entry *entry = &capture->entries[i];
        QK_TRY(check_counts(capture, &entry->head, err));
        char name[QK__SUMS_NAME_SIZE];
        qk__sums_name(QK__MOMENTS_FOLDER, entry->head.id.layer, name);
        entry->moments = qk__path_join(capture->path, name);
        if (!entry->moments)
            return qk__nomem(err);
        entry->head.moments = entry->moments;
        if (info->kept == QK_ROWS_NONE)
            QK_TRY(set_rowless(entry, err));
    }
    return QK_OK;
}
