/* SPDX-License-Identifier: Apache-2.0 */
/* Reading files of settings of the original tool of attention plasticity. */
#include "study/published.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/parse_number.h"

qk_status qk__published_read(qk_published **file, const char *path, void *owner,
                             const qk__key *keys, size_t count, qk_error *err)
{
    *file = NULL;
    qk_published *f = calloc(1, sizeof *f);
    if (!f)
        return qk__nomem(err);
    f->config.owner = owner;
    qk_status status = qk__config_parse(&f->config, path, err);
    if (status == QK_OK) {
        status = qk__read_keys(&f->config, keys, count,
                               yaml_document_get_root_node(&f->config.document), "", err);
        if (status != QK_OK)
            qk__context(err, status, "%s", path);
    }
    if (status != QK_OK)
        qk_published_free(&f);
    *file = f;
    return status;
}

qk_status qk__published_real(const yaml_node_t *node, const char *key, double low, double high,
                             double *value, qk_error *err)
{
    const char *text = qk__yaml_text(node);
    if (text && qk__parse_number(text, value) && *value >= low && *value <= high)
        return QK_OK;
    return qk__fail(err, QK_ERR_ARGUMENT,
                    "line %llu: %s: expected a number from %g to %g, found \"%.60s\"",
                    qk__yaml_line(node), key, low, high, text ? text : "no number");
}

void qk_published_free(qk_published **file)
{
    assert(file);
    if (!*file)
        return;
    qk__config_release(&(*file)->config);
    free(*file);
    *file = NULL;
}
