/* SPDX-License-Identifier: Apache-2.0 */
/* The heads of a packed folder, "l00q", from the footers of its files. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "capture/discover.h"
#include "capture/packed_file.h"

/* The parts in all files of a folder. */
typedef struct part_list {
    qk__packed_part *items;
    size_t count;
} part_list;

static int compare_parts(const void *a, const void *b)
{
    const qk__packed_part *x = a, *y = b;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    return (x->file > y->file) - (x->file < y->file);
}

static qk_status add_file(part_list *list, const char *path, size_t file, qk_error *err)
{
    qk__packed_part *parts;
    size_t count;
    QK_TRY(qk__packed_file_parts(path, &parts, &count, err));
    qk__packed_part *items = realloc(list->items, (list->count + count + 1) * sizeof *items);
    if (!items) {
        free(parts);
        return qk__nomem(err);
    }
    list->items = items;
    for (size_t i = 0; i < count; i++) {
        items[list->count] = parts[i];
        items[list->count++].file = file;
    }
    free(parts);
    return QK_OK;
}

static qk_status list_parts(part_list *list, const qk__names *files, qk_error *err)
{
    for (size_t i = 0; i < files->count; i++)
        QK_TRY(add_file(list, files->items[i], i, err));
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, compare_parts);
    return QK_OK;
}

/* A head with `count` parts, in as many files. */
static qk_status add_head(qk__search *s, qk_head_id id, const qk__names *files,
                          const qk__packed_part *parts, size_t count, qk_error *err)
{
    qk__names names = {.items = qk__calloc(count, sizeof *names.items)};
    qk_head_part *own = qk__calloc(count, sizeof *own);
    bool failed = !names.items || !own;
    for (size_t i = 0; !failed && i < count; i++) {
        own[i] = parts[i].part;
        names.items[names.count++] = qk__strdup(files->items[parts[i].file]);
        failed = !names.items[i];
    }
    if (!failed)
        return qk__search_add(s, id, &names, own, err);
    qk__names_free(&names);
    free(own);
    return qk__nomem(err);
}

static qk_status add_heads(qk__search *s, qk_head_id id, const qk__names *files,
                           const part_list *list, qk_error *err)
{
    for (size_t i = 0, next; i < list->count; i = next) {
        for (next = i + 1; next < list->count && list->items[next].head == list->items[i].head;)
            next++;
        id.head = list->items[i].head;
        QK_TRY(add_head(s, id, files, list->items + i, next - i, err));
    }
    return QK_OK;
}

qk_status qk__search_note_packed(qk__search *s, qk_head_id id, const qk_error *failure,
                                 qk_error *err)
{
    if (s->num_packed == s->packed_capacity) {
        qk__packed_folder *folders = qk__grow(s->packed, &s->packed_capacity, sizeof *folders);
        if (!folders)
            return qk__nomem(err);
        s->packed = folders;
    }
    s->packed[s->num_packed++] = (qk__packed_folder){.id = id, .failure = *failure};
    return QK_OK;
}

qk_status qk__search_add_packed(qk__search *s, qk_head_id id, qk__names *files, qk_error *err)
{
    part_list list = {0};
    qk_error failure = {0};
    qk_status status = list_parts(&list, files, &failure);
    failure.status = status;
    if (status == QK_ERR_NOMEM)
        status = qk__nomem(err);
    else if (status == QK_OK)
        status = add_heads(s, id, files, &list, err);
    else
        status = QK_OK; /* its heads report it */
    if (status == QK_OK)
        status = qk__search_note_packed(s, id, &failure, err);
    free(list.items);
    qk__names_free(files);
    return status;
}

/* ---- heads that capture.json lists ------------------------------------------------------ */

static qk__packed_folder *find_folder(const qk__search *s, qk_head_id id)
{
    for (size_t i = 0; i < s->num_packed; i++)
        if (s->packed[i].id.layer == id.layer && s->packed[i].id.kind == id.kind)
            return &s->packed[i];
    return NULL;
}

qk_status qk__search_add_unfound(qk__search *s, const qk__listed_head *listed, bool *added,
                                 qk_error *err)
{
    char own[QK_HEAD_NAME_SIZE], name[sizeof own + sizeof "/data.parquet"];
    *added = s->num_packed > 0;
    if (!*added)
        return QK_OK;
    qk__packed_folder *folder = find_folder(s, listed->id);
    qk__layer_name(listed->id.layer, listed->id.kind, own);
    snprintf(name, sizeof name, "%s/data.parquet", own);
    char *path = qk__path_join(s->capture->path, name);
    const qk__packed_part nothing = {0};
    qk_status status =
        path ? add_head(s, listed->id, &(const qk__names){&path, 1}, &nothing, 1, err)
             : qk__nomem(err);
    free(path);
    QK_TRY(status);
    qk__capture_entry *entry = &s->capture->entries[s->capture->num_entries - 1];
    entry->head.rows = listed->rows;
    if (folder && folder->failure.status != QK_OK) {
        QK_TRY(qk__entry_fail(entry, &folder->failure, err));
        folder->told = true;
    } else {
        entry->head.missing = !folder || listed->rows > 0; /* no rows need no row group */
    }
    return QK_OK;
}

qk_status qk__search_check_packed(const qk__search *s, qk_error *err)
{
    for (size_t i = 0; i < s->num_packed; i++)
        if (s->packed[i].failure.status != QK_OK && !s->packed[i].told)
            return qk__fail(err, s->packed[i].failure.status, "%s",
                            s->packed[i].failure.message);
    return QK_OK;
}
