/* SPDX-License-Identifier: Apache-2.0 */
/* Finds files of moments that a capture keeps, and compares them with capture.json. */
#include "analysis/states.h"

#include <stdlib.h>

#include "base/error.h"

void qk__states_close(qk__states *states)
{
    if (!states->layers)
        return;
    for (size_t i = 0; i < states->files; i++) {
        qk__layer_file_close(&states->layers[i].file);
        free(states->layers[i].path);
    }
    free(states->layers);
    states->layers = NULL;
    pthread_mutex_destroy(&states->lock);
}

qk_status qk__states_find(const char *path, qk_error *err)
{
    return qk__is_file(path) ? QK_OK
                             : qk__fail(err, QK_ERR_NOT_FOUND,
                                        "%s: not there, but capture.json says that it is "
                                        "kept: fetch it again, or capture again",
                                        path);
}

qk_status qk__states_fit(const qk_head *head, int64_t rows, size_t dim, int64_t summed,
                         size_t of, qk_error *err)
{
    /* a head without rows has no dimension */
    if ((dim == of || rows == 0) && rows <= summed)
        return QK_OK;
    return qk__fail(
        err, QK_ERR_INCONSISTENT,
        "%s: %lld rows of dimension %zu are no part of the %lld of dimension %zu that %s has "
        "moments of: fetch both again, or capture again",
        head->files[0], (long long)rows, dim, (long long)summed, of, head->moments);
}

qk_status qk__states_head(const qk__layer_file *file, const qk_head *head,
                          qk__head_state **state, qk_error *err)
{
    char name[QK_HEAD_NAME_SIZE];
    const char *path = qk__layer_file_path(file);
    ptrdiff_t place = qk__layer_file_find(file, head->id.kind, head->id.head);
    qk_head_name(head->id, name);
    *state = NULL;
    if (qk__layer_file_layer(file) != head->id.layer)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: holds the moments of layer %d: fetch it again, or capture again",
                        path, qk__layer_file_layer(file));
    if (place < 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: has no moments of %s, which capture.json lists: fetch both again, "
                        "or capture again",
                        path, name);
    int64_t rows = qk__layer_file_rows(file, head->id.kind, (size_t)place);
    if (head->summed > 0 && rows != head->summed)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: has moments of %lld rows of %s, and capture.json lists %lld: "
                        "fetch both again, or capture again",
                        path, (long long)rows, name, (long long)head->summed);
    if (rows == 0)
        return qk__fail(err, QK_ERR_DEGENERATE, "%s: no rows of %s", path, name);
    return qk__layer_file_head(file, head->id.kind, (size_t)place, state, err);
}
