/* SPDX-License-Identifier: Apache-2.0 */
/* How much key heads need far keys, from either source. duo_attention.c, which leads, writes it. */
#ifndef QK_EXPORT_DUO_SCORES_H
#define QK_EXPORT_DUO_SCORES_H

#include <qkscope/model.h>

#include "export/export.h"
#include "results/manifest.h"

typedef struct qk__duo_scores {
    size_t layers, q_heads, k_heads, dim; /* dim: 0 where it plays no part */
    double *of;                           /* [layers][k_heads] 0 to 1; NULL after a failure */
} qk__duo_scores;

/* What kvpress computes from mean queries and keys before RoPE (duo_means.c). model: NULL = the capture tells. */
QK_MUST_CHECK qk_status qk__duo_of_means(const qk_export_settings *settings,
                                         const qk_model_facts *model, qk__duo_scores *scores,
                                         qk_error *err);

/* What the model loses where heads see no far keys (duo_ablation.c). model: NULL = the manifest tells. */
QK_MUST_CHECK qk_status qk__duo_of_ablation(const qk_export_settings *settings,
                                            const qk_model_facts *model,
                                            const qk__manifest *manifest,
                                            qk__duo_scores *scores, qk_error *err);

#endif
