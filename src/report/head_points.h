/* SPDX-License-Identifier: Apache-2.0 */
/* Queries and keys of heads as points, for the page, which draws them and the axes. They
 * come from the captures that the manifests of the results name. */
#ifndef QK_REPORT_HEAD_POINTS_H
#define QK_REPORT_HEAD_POINTS_H

#include "report/packed_points.h"
#include "report/page_heads.h"
#include "report/manifests.h"
#include "results/results.h"

extern const char *const qk__point_plane_names[QK__NUM_POINT_STAGES][QK__NUM_POINT_PLANES];

/* Draws those of the heads that settings.heads names; of none, of all heads, or where these are too many
 * for a page, of the most extreme ones of each model and others at equal steps. They are as fine as leaves room for all. A capture that is not there, or is another one by now, is
 * a reason, and no failure. */
QK_MUST_CHECK qk_status qk__points_draw(const qk_report_settings *settings,
                                        const qk__results *results, qk__store *tables,
                                        const qk__page_heads *heads,
                                        const qk__manifests *manifests, qk__points *points,
                                        qk_error *err);
void qk__points_free(qk__points *points);
/* Whether a head was chosen. */
bool qk__points_has(const qk__model_points *of, int layer, int q_head);
/* What a page has of all heads, and of more than that of the chosen ones alone. */
enum { QK__MOST_HEADS_SHOWN = 300 };

#endif
