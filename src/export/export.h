/* SPDX-License-Identifier: Apache-2.0 */
/* What the formats share: what is asked, and files that wait for their places. export.c leads. A format is a file:
 * kvpress_stats.c, q_filters.c, duo_attention.c, head_list_file.c; those of a capture open it with export_capture.c. */
#ifndef QK_EXPORT_EXPORT_H
#define QK_EXPORT_EXPORT_H

#include <jansson.h>

#include <qkscope/export.h>

#include "analysis/head_grid.h"
#include "place/place.h"
#include "tensors/tensors_write.h"

typedef struct qk__export {
    const qk_export_settings *settings;
    qk_export_outcome *outcome;
    qk__file_set files;
} qk__export;

/* Formats: each adds its files, and counts heads. */
QK_MUST_CHECK qk_status qk__export_kvpress_stats(qk__export *x, qk_error *err);
QK_MUST_CHECK qk_status qk__export_duo_attention(qk__export *x, qk_error *err);
QK_MUST_CHECK qk_status qk__export_q_filters(qk__export *x, qk_error *err);
QK_MUST_CHECK qk_status qk__export_head_list(qk__export *x, qk_error *err);

/* Names of files; the first two are those of PyTorchModelHubMixin. */
#define QK__EXPORT_TENSORS "model.safetensors"
#define QK__EXPORT_CONFIG  "config.json"
#define QK__EXPORT_DUO     "full_attention_heads.tsv"
#define QK__EXPORT_HEADS   "heads.json"

/* ---- files (export_files.c) ------------------------------------------------------------- */

/* Adds a file of arrays, and one of JSON; root is released, and NULL is out of memory. */
QK_MUST_CHECK qk_status qk__export_tensors(qk__export *x, const qk__tensor_out *tensors,
                                           size_t count, qk_error *err);
QK_MUST_CHECK qk_status qk__export_json(qk__export *x, const char *name, json_t *root,
                                        qk_error *err);

/* A number as float32. QK_ERR_INCONSISTENT: it is too large, or none. */
QK_MUST_CHECK qk_status qk__export_float(double value, float *to, qk_error *err);

/* ---- a capture (export_capture.c) ------------------------------------------------------- */

/* qk__grid_open of the source. from: positions below it are left out, unless the settings say otherwise. */
QK_MUST_CHECK qk_status qk__export_open(qk__grid *grid, const qk_export_settings *settings,
                                        qk_stage stage, bool groups, int64_t from,
                                        qk_error *err);

/* ---- how much key heads need far keys (duo_means.c, duo_ablation.c) --------------------- */

typedef struct qk__duo_scores {
    size_t layers, heads;
    double *of; /* [layers][heads] 0 to 1; the caller's to free, after a failure, too */
} qk__duo_scores;

/* What kvpress computes from mean queries and keys before RoPE. */
QK_MUST_CHECK qk_status qk__scores_by_means(const qk_export_settings *settings,
                                            qk__duo_scores *scores, qk_error *err);
/* What the model loses where heads see no far keys. manifest: of the ablation. */
QK_MUST_CHECK qk_status qk__scores_by_loss(const qk_export_settings *settings,
                                           const json_t *manifest, qk__duo_scores *scores,
                                           qk_error *err);

#endif
