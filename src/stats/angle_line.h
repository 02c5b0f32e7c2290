/* SPDX-License-Identifier: Apache-2.0 */
/* How straight angles grow with position. */
#ifndef QK_STATS_ANGLE_LINE_H
#define QK_STATS_ANGLE_LINE_H

#include "stats/positions.h"
#include "stats/turning.h"

typedef struct qk__angle_line qk__angle_line;

/* Of the rows behind `positions` (which must outlive the line) the first n_q are queries, the
 * others keys. */
QK_MUST_CHECK qk_status qk__angle_line_create(qk__angle_line **line,
                                              const qk__positions *positions, size_t n_q,
                                              qk_error *err);
void qk__angle_line_free(qk__angle_line **line);

/* Pearson r of position and the angles less their kind's phase, unwrapped from row to row in
 * the order of positions; 0 where the angles do not vary. Angles are in the order of the rows,
 * and taken with the given sign. */
double qk__angle_line_r(qk__angle_line *line, const double *angle, double sign,
                        const qk__turning *turning);

#endif
