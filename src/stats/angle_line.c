/* SPDX-License-Identifier: Apache-2.0 */
/* Correlation of unwrapped angles with position. */
#include "stats/angle_line.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/project.h"

struct qk__angle_line {
    const qk__positions *positions;
    size_t n_q;
    double tt;      /* sum of squares of t */
    double *t;      /* [rows] positions less their mean, in their order */
    double *y;      /* [rows] angles in the same order */
    double *change; /* [rows] from the row before, unwrapped */
};

void qk__angle_line_free(qk__angle_line **line)
{
    if (!*line)
        return;
    free((*line)->t);
    free(*line);
    *line = NULL;
}

/* Subtracts the mean of numbers with this sum; returns the sum of squares of what is left. */
static double centre(double *v, size_t n, double sum)
{
    for (size_t i = 0; i < n; i++)
        v[i] -= sum / (double)n;
    return qk__dot(v, v, n);
}

qk_status qk__angle_line_create(qk__angle_line **line, const qk__positions *positions,
                                size_t n_q, qk_error *err)
{
    qk__angle_line *made = calloc(1, sizeof *made);
    size_t rows = positions->rows;
    double sum = 0;
    *line = NULL;
    if (!made)
        return qk__nomem(err);
    made->positions = positions;
    made->n_q = n_q;
    made->t = qk__calloc(rows, 3 * sizeof *made->t);
    if (!made->t) {
        free(made);
        return qk__nomem(err);
    }
    made->y = made->t + rows;
    made->change = made->y + rows;
    for (size_t k = 0; k < positions->count; k++)
        for (size_t i = positions->first[k]; i < positions->first[k + 1]; i++)
            sum += made->t[i] = positions->tau[k];
    made->tt = centre(made->t, rows, sum);
    *line = made;
    return QK_OK;
}

/* Angles and phases lie within half a turn of zero, so that a change is at most two turns.
 * Half a turn forwards stays, half a turn backwards becomes it. */
static void set_changes(qk__angle_line *line)
{
    const double *restrict y = line->y;
    double *restrict change = line->change;
    for (size_t i = 1; i < line->positions->rows; i++) {
        double step = y[i] - y[i - 1], turns = step / TURN;
        double forwards = (turns > 0.5 ? 1.0 : 0.0) + (turns > 1.5 ? 1.0 : 0.0);
        double backwards = (turns <= -0.5 ? 1.0 : 0.0) + (turns <= -1.5 ? 1.0 : 0.0);
        change[i] = step - TURN * (forwards - backwards);
    }
}

double qk__angle_line_r(qk__angle_line *line, const double *angle, double sign,
                        const qk__turning *turning)
{
    const uint32_t *order = line->positions->order;
    const double phase[2] = {turning->phase_q, turning->phase_k};
    size_t rows = line->positions->rows;
    double *y = line->y, unwrapped = 0, sum = 0;
    for (size_t i = 0; i < rows; i++)
        y[i] = sign * angle[order[i]] - phase[order[i] >= line->n_q];
    set_changes(line);
    for (size_t i = 0; i < rows; i++) {
        unwrapped += line->change[i];
        y[i] = unwrapped;
        sum += unwrapped;
    }
    double yy = centre(y, rows, sum), yt = qk__dot(y, line->t, rows);
    return yy > 0 && line->tt > 0 ? fmax(-1, fmin(1, yt / sqrt(yy) / sqrt(line->tt))) : 0;
}
