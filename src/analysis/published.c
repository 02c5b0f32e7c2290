/* SPDX-License-Identifier: Apache-2.0 */
/* The files of settings of the original tool of attention plasticity. */
#include "analysis/published.h"

#include <assert.h>
#include <stdlib.h>

#include "base/error.h"

qk_status qk__published_read(qk_published **file, const char *path,
                             const qk_settings_table *table, qk__keys own, void *settings,
                             qk_error *err)
{
    *file = NULL;
    qk_published *f = calloc(1, sizeof *f);
    if (!f)
        return qk__nomem(err);
    qk_status status = qk__read_settings(path, &f->tree, err);
    if (status == QK_OK) {
        qk__node root = qk__tree_root(f->tree);
        status = qk__settings_read(&root, table, 0, own, settings, err);
        if (status != QK_OK)
            qk__context(err, status, "%s", path);
    }
    if (status != QK_OK)
        qk_published_free(&f);
    *file = f;
    return status;
}

void qk_published_free(qk_published **file)
{
    assert(file);
    if (!*file)
        return;
    qk__tree_free(&(*file)->tree);
    free(*file);
    *file = NULL;
}
