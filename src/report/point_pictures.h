/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of the rows of heads, for the page. */
#ifndef QK_REPORT_POINT_PICTURES_H
#define QK_REPORT_POINT_PICTURES_H

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

typedef struct qk__stage_points {
    qk__points_plane planes[QK__NUM_POINT_PLANES];
    char *why;     /* there are none, for this reason; else NULL */
    char *command; /* what brings them then; NULL: nothing does */
} qk__stage_points;

typedef struct qk__model_points {
    qk__stage_points stages[QK__NUM_POINT_STAGES];
    qk_head_set chosen;
    size_t shown; /* heads with pictures of their own capture */
} qk__model_points;

typedef struct qk__points {
    size_t num_models;
    qk__model_points *models;
    size_t shown, bytes; /* heads with pictures, and what these take on the page */
} qk__points;

/* Pictures of the first size at which all have room, or of the last: those that have none then are empty. */
QK_MUST_CHECK qk_status qk__points_picture(qk__points *points, int threads, qk_error *err);

#endif
