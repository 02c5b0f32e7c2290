/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a folder of heads, and the heads that a search has found. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "capture/discover.h"
#include "paths/part_names.h"

enum { MAX_DEPTH = 4 }; /* of folders in a head's folder */

/* Hidden files do not count: some systems put one beside every file. */
static bool is_parquet_name(const char *name)
{
    return name[0] != '.' && qk__ends_with(name, ".parquet");
}

/* Rows in a folder of a head's folder would be left out silently. */
static qk_status see_name(const char *dir, int depth, const char *name, qk__names *files,
                          qk_error *err)
{
    qk__names below = {0};
    char *path = qk__path_join(dir, name);
    qk_status status = path ? QK_OK : qk__nomem(err);
    if (path && is_parquet_name(name)) {
        files->items[files->count++] = path;
        return QK_OK;
    }
    if (path && name[0] != '.' && depth < MAX_DEPTH && qk__is_dir(path))
        status = qk__search_files(path, depth + 1, &below, err);
    if (status == QK_OK && below.count > 0)
        status = qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s: files of a head lie right in its folder; move these there, or "
                          "elsewhere",
                          below.items[0]);
    qk__names_free(&below);
    free(path);
    return status;
}

qk_status qk__search_files(const char *dir, int depth, qk__names *files, qk_error *err)
{
    qk__names names;
    *files = (qk__names){0};
    QK_TRY(qk__list_dir(dir, &names, err));
    qk_status status = QK_OK;
    if (!(files->items = qk__calloc(names.count + 1, sizeof *files->items)))
        status = qk__nomem(err);
    for (size_t i = 0; status == QK_OK && i < names.count; i++)
        status = see_name(dir, depth, names.items[i], files, err);
    if (status == QK_OK)
        status = qk__parts_check(files->items, files->count, err);
    qk__names_free(&names);
    if (status != QK_OK)
        qk__names_free(files);
    return status;
}

qk_status qk__search_add(qk__search *s, qk_head_id id, qk__names *files, qk_head_part *parts,
                         qk_error *err)
{
    qk_capture *capture = s->capture;
    if (capture->num_entries == s->capacity) {
        qk__capture_entry *entries = qk__grow(capture->entries, &s->capacity, sizeof *entries);
        if (!entries) {
            qk__names_free(files);
            free(parts);
            return qk__nomem(err);
        }
        capture->entries = entries;
    }
    capture->entries[capture->num_entries++] = (qk__capture_entry){
        .head = {.id = id,
                 .files = (const char *const *)files->items,
                 .num_files = files->count,
                 .parts = parts},
        .files = *files,
        .parts = parts,
    };
    return QK_OK;
}

qk_status qk__entry_fail(qk__capture_entry *entry, const qk_error *failure, qk_error *err)
{
    if (!(entry->failure = malloc(sizeof *entry->failure)))
        return qk__nomem(err);
    *entry->failure = *failure;
    entry->head.failure = entry->failure;
    return QK_OK;
}

qk_status qk__search_add_failed(qk__search *s, qk_head_id id, const char *folder,
                                const qk_error *failure, qk_error *err)
{
    qk__names files = {.items = qk__calloc(1, sizeof *files.items)};
    if (!files.items || !(files.items[0] = qk__path_join(folder, "data.parquet"))) {
        qk__names_free(&files);
        return qk__nomem(err);
    }
    files.count = 1;
    QK_TRY(qk__search_add(s, id, &files, NULL, err));
    return qk__entry_fail(&s->capture->entries[s->capture->num_entries - 1], failure, err);
}
