/* SPDX-License-Identifier: Apache-2.0 */
/* Files of DuoAttention: a number for each key head, and how many keys a head sees that does without far ones. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "base/number.h"
#include "export/duo_scores.h"
#include "fetch/need.h"

static qk_status write_scores(qk__export *x, const qk__duo_scores *scores, qk_error *err)
{
    qk__buffer text = {0};
    qk_status status = QK_OK;
    for (size_t i = 0; i < scores->layers * scores->k_heads && status == QK_OK; i++)
        status = qk__csv_number(&text, scores->of[i],
                                (i + 1) % scores->k_heads == 0 ? '\n' : '\t', err);
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

/* By its configuration: weights are not read. */
static qk_status open_model(const qk_export_settings *s, qk_model **model, qk_error *err)
{
    static const char *const FILES[] = {"config.json"};
    const qk_hub_settings what = {.name = s->model,
                                  .model = true,
                                  .part = QK_HUB_ALL,
                                  .files = FILES,
                                  .num_files = 1,
                                  .cached = true,
                                  .context = s->context};
    qk__needed needed;
    QK_TRY(qk__fetch_need(&what, NULL, &needed, err));
    qk_status status = qk_model_open_shape(model, needed.path, NULL, err);
    free(needed.path);
    return status;
}

static qk_status find_scores(qk__export *x, const qk_model_facts *model, qk__duo_scores *scores,
                             qk_error *err)
{
    qk__manifest manifest;
    QK_TRY(qk__manifest_read(&manifest, x->settings->source, err));
    x->outcome->of_ablation = strcmp(qk__json_string(manifest.root, "kind"), "ablation") == 0;
    qk_status status = x->outcome->of_ablation
                           ? qk__duo_of_ablation(x->settings, model, &manifest, scores, err)
                           : qk__duo_of_means(x->settings, model, scores, err);
    qk__manifest_free(&manifest);
    return status;
}

qk_status qk__export_duo_attention(qk__export *x, qk_error *err)
{
    qk_model *model = NULL;
    qk__duo_scores scores = {0};
    if (x->settings->model)
        QK_TRY(open_model(x->settings, &model, err));
    qk_status status = find_scores(x, model ? qk_model_get_facts(model) : NULL, &scores, err);
    if (status == QK_OK)
        status = write_scores(x, &scores, err);
    x->outcome->layers = scores.layers;
    x->outcome->q_heads = scores.q_heads;
    x->outcome->k_heads = scores.k_heads;
    x->outcome->dim = scores.dim;
    x->outcome->heads = scores.layers * scores.k_heads;
    free(scores.of);
    qk_model_close(&model);
    return status;
}
