/* SPDX-License-Identifier: Apache-2.0 */
/* Queries and keys of heads as small pictures, for the page, which draws axes and words around them. They
 * come from the captures that the manifests of the results name. */
#ifndef QK_REPORT_HEAD_POINTS_H
#define QK_REPORT_HEAD_POINTS_H

#include "figure/theme.h"
#include "report/provenance.h"
#include "results/results.h"
#include "scatter/scatter.h"

/* Of one model on a pair of axes. */
typedef struct qk__points_plane {
    qk__head_cells cells;
    /* [cells.count] PNG, white being transparent; empty: the cell has a reason, or there was no room */
    qk__buffer *pictures;
} qk__points_plane;

enum { QK__PLANE_PCA, QK__PLANE_AB, QK__NUM_POINT_PLANES };

/* Of the capture that the numbers are of, and of the one before RoPE that it was compared with. */
enum { QK__POINTS_OWN, QK__POINTS_BEFORE, QK__NUM_POINT_STAGES };
extern const char *const qk__point_plane_names[QK__NUM_POINT_STAGES][QK__NUM_POINT_PLANES];

typedef struct qk__stage_points {
    qk__points_plane planes[QK__NUM_POINT_PLANES];
    char *why;     /* there are none, for this reason; else NULL */
    char *command; /* what brings them then; NULL: nothing does */
} qk__stage_points;

typedef struct qk__model_points {
    qk__stage_points stages[QK__NUM_POINT_STAGES];
    qk_head_set chosen;
    size_t shown; /* heads with pictures */
} qk__model_points;

typedef struct qk__points {
    size_t num_models;
    qk__model_points *models;
    size_t shown, bytes; /* heads with pictures, and what these take on the page */
} qk__points;

/* Draws those of the heads that settings.heads names; of none, of all heads, or where these are too many
 * for a page, of the most extreme ones of each model and others at equal steps. Pictures have as many colours
 * and are as large as leaves room for all. A capture that is not there, or is another one by now, is
 * a reason, and no failure. staging: a folder that is to be removed. */
QK_MUST_CHECK qk_status qk__points_draw(const qk_report_settings *settings,
                                        const qk__results *results,
                                        const qk__provenance *provenance, const char *staging,
                                        qk__points *points, qk_error *err);
void qk__points_free(qk__points *points);
/* Whether a head was chosen. */
bool qk__points_has(const qk__model_points *of, const qk__result_head *head);
/* What a page has of all heads, and of more than that of the chosen ones alone. */
enum { QK__MOST_HEADS_SHOWN = 300 };

#endif
