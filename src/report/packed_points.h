/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of heads as points, packed for the page. */
#ifndef QK_REPORT_PACKED_POINTS_H
#define QK_REPORT_PACKED_POINTS_H

#include "scatter/scatter.h"

/* The points of one model on a pair of axes. */
typedef struct qk__points_plane {
    qk__head_cells cells;
    qk__buffer *packed; /* [cells.count]; empty: the cell has a reason, or there was no room */
    /* where points have strings of tokens: those of points that are packed, the most frequent first; and of each
     * point 1 + the place of its own (0: none), 7 bits a byte, the low ones first. Else NULL. */
    uint32_t *listed; /* [num_listed] numbers of cells.strings */
    size_t num_listed;
    qk__buffer *tokens; /* [cells.count] */
} qk__points_plane;

enum { QK__PLANE_PCA, QK__PLANE_AB, QK__NUM_POINT_PLANES };

/* Points of the capture that the numbers come from, and of the capture before RoPE that it was compared with. */
enum { QK__POINTS_OWN, QK__POINTS_BEFORE, QK__NUM_POINT_STAGES };

typedef struct qk__stage_points {
    qk__points_plane planes[QK__NUM_POINT_PLANES];
    char *why;     /* why there are no points; NULL: there are */
    char *command; /* the command that brings them; NULL: none does */
} qk__stage_points;

typedef struct qk__model_points {
    qk__stage_points stages[QK__NUM_POINT_STAGES];
    qk_head_set chosen;
    size_t shown; /* heads with points of their own capture */
} qk__model_points;

typedef struct qk__points {
    size_t num_models;
    qk__model_points *models;
    size_t shown, bytes; /* heads with points, and the bytes of these on the page */
    int coordinate_bytes;
} qk__points;

/* Chooses coordinates and a share of the points for which all heads have room. Where even the least share is too much,
 * some heads stay empty. */
QK_MUST_CHECK qk_status qk__points_pack(qk__points *points, qk_error *err);

#endif
