/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of compare-stages share: run_stages.c, the run, which leads; stages_head.c, one head. The run is that
 * of the capture after RoPE; its before_rope is the run before RoPE. */
#ifndef QK_ANALYSIS_STAGES_H
#define QK_ANALYSIS_STAGES_H

#include <qkscope/analysis.h>

#include "analysis/head_data.h"
#include "stats/score_curve.h"

/* A head on both sides, with its rows. */
typedef struct qk__stage_data {
    qk__head_data before, after;
} qk__stage_data;

/* Reads both sides and compares them: the same texts and positions in the same order. */
QK_MUST_CHECK qk_status qk__stage_data_read(qk__run *run, int worker, qk_head_id id,
                                            qk__stage_data *data, qk_error *err);
void qk__stage_data_free(qk__run *run, qk__stage_data *data);

/* The keys of a group, and what its query heads need of them. */
typedef struct qk__stage_keys {
    qk__stage_data data;
    qk__pairing pairing;
    qk__phasors phasors;
    qk__pair_means means;
    qk__turned turned;
    qk__key_sums sums;
    bool not_turned; /* reading failed: rows after RoPE are not the rows before it, turned */
    double *rest;    /* [dim - 2 pairs] means after RoPE of the dimensions that do not turn */
} qk__stage_keys;

/* frequencies: of the layer, [pairs]. */
QK_MUST_CHECK qk_status qk__stage_keys_read(qk__run *run, int worker, qk_head_id id,
                                            const double *frequencies, size_t pairs,
                                            qk__stage_keys *keys, qk_error *err);
void qk__stage_keys_free(qk__run *run, qk__stage_keys *keys);

/* All numbers of a query head; *stages is allocated. */
QK_MUST_CHECK qk_status qk__stage_head_analyse(const qk__run *after,
                                               const qk__stage_data *queries,
                                               const qk__stage_keys *keys,
                                               qk_head_stages **stages, qk_error *err);
void qk__head_stages_free(qk_head_stages **stages);

#endif
