/* SPDX-License-Identifier: Apache-2.0 */
/* Queries and keys of heads as points, which the page draws with their axes. They come from the captures that the
 * manifests of the results name. */
#ifndef QK_REPORT_HEAD_POINTS_H
#define QK_REPORT_HEAD_POINTS_H

#include "report/packed_points.h"
#include "report/page_heads.h"
#include "report/manifests.h"
#include "results/results.h"

extern const char *const qk__point_plane_names[QK__NUM_POINT_STAGES][QK__NUM_POINT_PLANES];

/* Draws the heads that settings.heads names. Where it names none, draws all heads, or where these are too many for a
 * page the most extreme ones of each model and others at equal steps. Points are as fine as the page has room for. A
 * capture that is absent or has changed gives a reason, and is no failure. */
QK_MUST_CHECK qk_status qk__points_draw(const qk_report_settings *settings,
                                        const qk__results *results, qk__store *tables,
                                        const qk__page_heads *heads,
                                        const qk__manifests *manifests, qk__points *points,
                                        qk_error *err);
void qk__points_free(qk__points *points);
/* Whether a head was chosen. */
bool qk__points_has(const qk__model_points *of, int layer, int q_head);
/* Up to so many heads the page has points of all, beyond them of the chosen ones alone. */
enum { QK__MOST_HEADS_SHOWN = 300 };

#endif
