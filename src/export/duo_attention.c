/* SPDX-License-Identifier: Apache-2.0 */
/* Files of DuoAttention: a number for each key head, and how many keys a head sees that does without far ones. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "base/number.h"
#include "export/export.h"
#include "results/manifest.h"

static qk_status write_scores(qk__export *x, const qk__duo_scores *scores, qk_error *err)
{
    qk__buffer text = {0};
    qk_status status = QK_OK;
    x->outcome->heads = scores->layers * scores->heads;
    for (size_t i = 0; i < x->outcome->heads && status == QK_OK; i++)
        status = qk__csv_number(&text, scores->of[i],
                                (i + 1) % scores->heads == 0 ? '\n' : '\t', err);
    if (status == QK_OK)
        status = qk__file_set_write(&x->files, x->settings->output, QK__EXPORT_DUO, text.data,
                                    text.size, err);
    qk__buffer_free(&text);
    if (status != QK_OK)
        return status;
    return qk__export_json(x, QK__EXPORT_CONFIG,
                           json_pack("{s:i, s:i}", "sink_size", x->settings->sink,
                                     "recent_size", x->settings->recent),
                           err);
}

qk_status qk__export_duo_attention(qk__export *x, qk_error *err)
{
    qk__manifest manifest;
    qk__duo_scores scores = {0};
    QK_TRY(qk__manifest_read(&manifest, x->settings->source, err));
    const bool ablation = strcmp(qk__json_string(manifest.root, "kind"), "ablation") == 0;
    qk_status status = ablation ? qk__manifest_verify(&manifest, x->settings->source, err)
                                : qk__scores_by_means(x->settings, &scores, err);
    if (status == QK_OK && ablation)
        status = qk__scores_by_loss(x->settings, manifest.root, &scores, err);
    if (status == QK_OK)
        status = write_scores(x, &scores, err);
    qk__manifest_free(&manifest);
    free(scores.of);
    return status;
}
