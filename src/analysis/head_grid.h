/* SPDX-License-Identifier: Apache-2.0 */
/* A capture whose every head is wanted: checks that it is complete, and reads the moments of each head. */
#ifndef QK_ANALYSIS_HEAD_GRID_H
#define QK_ANALYSIS_HEAD_GRID_H

#include "analysis/run.h"

typedef struct qk__grid {
    qk__run run;
    qk_analysis_settings settings;
    size_t layers;
    size_t heads[2];   /* of a layer, by qk_kind; key heads: 0 unless groups are asked for */
    size_t group, dim; /* group: query heads per key head, 0 unless groups are asked for */
    double *sum_abs;   /* as in qk_head_moments; NULL: not asked for */
    int64_t texts, length; /* after the first head; the latest position of its rows, plus 1 */
} qk__grid;

/* To be closed in any case; it must not move. settings: the capture, its rows, the context; only moments are read.
 * stage: the stage that vectors must have. groups: key heads are asked for, too. */
QK_MUST_CHECK qk_status qk__grid_open(qk__grid *grid, const qk_analysis_settings *settings,
                                      qk_stage stage, bool groups, qk_error *err);
void qk__grid_close(qk__grid *grid);

/* Calls see for each head of a kind, at place layer * heads of a layer + head, from several threads. Returns the
 * failure of the lowest place; messages name the head. */
typedef qk_status qk__see_moments_fn(void *user, size_t place, const qk_moments *moments,
                                     qk_error *err);
QK_MUST_CHECK qk_status qk__grid_each(qk__grid *grid, qk_kind kind, qk__see_moments_fn *see,
                                      void *user, qk_error *err);

/* Moments of each head, by place; *of and its contents belong to the caller, even after a failure. */
QK_MUST_CHECK qk_status qk__grid_moments(qk__grid *grid, qk_kind kind, qk_moments ***of,
                                         qk_error *err);

#endif
