/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a folder that are one whole: all are written before the first takes its place. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "place/place.h"

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
