/* SPDX-License-Identifier: Apache-2.0 */
/* The second reading of the rows: where each is along a, and its angle in every plane. */
#include <qkscope/stats.h>

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/block_rows.h"
#include "stats/positions.h"
#include "stats/project.h"
#include "stats/rotation.h"
#include "stats/sinusoid.h"
#include "stats/turn_kernel.h"
#include "stats/turning.h"

enum {
    ROW_UNIT = 2 * TURN_ROWS, /* rows taken at a time */
    COLUMN_UNIT = 4,
    LANES = 2,
};

typedef double lanes __attribute__((vector_size(8 * LANES)));

struct qk__rotation_scan {
    size_t dim, padded; /* padded to whole column units, with zeros */
    size_t first_plane, planes;
    const double *frequencies; /* of the model; [num_frequencies] */
    size_t num_frequencies;
    bool degenerate, along_a;
    size_t expected[2], added[2]; /* rows of keys, of queries */
    double *a;                    /* [padded] */
    double *mean[2];              /* of keys, of queries */
    double offset[2];             /* a . (mean - pooled mean) */
    size_t half;                  /* planes, padded to whole lanes of kernels */
    double *axes;                 /* [dim][2][half] first and second axes of planes */
    double *x;                    /* [ROW_UNIT][padded] rows in hand, less their kind's mean */
    double *projected;            /* [TURN_ROWS][2][half] */
    double *turned;               /* [ROW_UNIT][half] angles */
    int64_t *t;                   /* what is kept: [rows] */
    double *y;                    /* [rows] along a, less the pooled mean */
    double *angle;                /* [planes][rows] */
};

static size_t padded_to_unit(size_t count)
{
    return (count + COLUMN_UNIT - 1) / COLUMN_UNIT * COLUMN_UNIT;
}

static size_t all_rows(const qk__rotation_scan *scan)
{
    return scan->expected[0] + scan->expected[1];
}

void qk__rotation_scan_free(qk__rotation_scan **scan)
{
    assert(scan);
    if (!*scan)
        return;
    free((*scan)->a);
    free((*scan)->mean[0]);
    free((*scan)->mean[1]);
    free((*scan)->axes);
    free((*scan)->x);
    free((*scan)->projected);
    free((*scan)->turned);
    free((*scan)->t);
    free((*scan)->y);
    free((*scan)->angle);
    free(*scan);
    *scan = NULL;
}

/* ---- setting up ------------------------------------------------------------------------- */

static qk_status allocate_scan(qk__rotation_scan *s, qk_error *err)
{
    size_t rows = all_rows(s);
    QK_TRY(QK__CREATE_ARRAYS(
        err, {&s->a, s->padded, sizeof(double)}, {&s->mean[0], s->padded, sizeof(double)},
        {&s->mean[1], s->padded, sizeof(double)}, {&s->x, s->padded, ROW_UNIT * sizeof(double)},
        {&s->t, rows, sizeof *s->t}, {&s->y, rows, sizeof *s->y}));
    if (s->planes == 0)
        return QK_OK;
    if (rows > SIZE_MAX / sizeof(double))
        return qk__nomem(err);
    return QK__CREATE_ARRAYS(err, {&s->axes, s->dim * s->half, 2 * sizeof(double)},
                             {&s->projected, 2 * s->half, TURN_ROWS * sizeof(double)},
                             {&s->turned, s->half, ROW_UNIT * sizeof(double)},
                             {&s->angle, s->planes, rows * sizeof(double)});
}

static void copy_model(qk__rotation_scan *s, const qk_rotation *r)
{
    size_t d = r->dim;
    memcpy(s->a, r->a, d * sizeof(double));
    memcpy(s->mean[false], r->mean_k, d * sizeof(double));
    memcpy(s->mean[true], r->mean_q, d * sizeof(double));
    /* The pooled mean lies between the two. */
    double share = (double)r->n_k / ((double)r->n_q + (double)r->n_k);
    double gap = qk__dot(r->a, r->mean_q, d) - qk__dot(r->a, r->mean_k, d);
    s->offset[true] = gap * share;
    s->offset[false] = gap * (share - 1);
    for (size_t i = 0; i < 2 * s->planes; i++)
        for (size_t j = 0; j < d; j++)
            s->axes[(2 * j + i % 2) * s->half + i / 2] =
                r->axes[(2 * s->first_plane + i) * d + j];
}

qk_status qk__rotation_scan_create(qk__rotation_scan **scan, const qk_rotation *rotation,
                                   size_t first_plane, size_t planes, const double *frequencies,
                                   size_t num_frequencies, qk_error *err)
{
    *scan = NULL;
    if (!rotation->degenerate &&
        (first_plane > rotation->num_planes || planes > rotation->num_planes - first_plane))
        return qk__fail(err, QK_ERR_ARGUMENT, "planes %zu..%zu of %zu", first_plane,
                        first_plane + planes, rotation->num_planes);
    qk__rotation_scan *s = calloc(1, sizeof *s);
    if (!s)
        return qk__nomem(err);
    s->dim = rotation->dim;
    s->degenerate = rotation->degenerate;
    s->along_a = first_plane == 0;
    s->first_plane = first_plane;
    s->planes = planes;
    s->frequencies = frequencies;
    s->num_frequencies = frequencies ? num_frequencies : 0;
    s->padded = padded_to_unit(s->dim);
    s->half = (planes + TURN_LANES - 1) / TURN_LANES * TURN_LANES;
    s->expected[true] = (size_t)rotation->n_q;
    s->expected[false] = (size_t)rotation->n_k;
    qk_status status = QK_OK;
    if (!s->degenerate) {
        status = allocate_scan(s, err);
        if (status == QK_OK)
            copy_model(s, rotation);
    }
    if (status != QK_OK)
        qk__rotation_scan_free(&s);
    *scan = s;
    return status;
}

/* ---- rows ------------------------------------------------------------------------------- */

/* Always in the same lanes: no sum depends on how rows come in blocks. */
static double along(const double *x, const double *axis, size_t padded)
{
    lanes sum[COLUMN_UNIT / LANES] = {{0}};
    for (size_t i = 0; i < padded; i += COLUMN_UNIT) {
        lanes u[COLUMN_UNIT / LANES], v[COLUMN_UNIT / LANES];
        memcpy(u, x + i, sizeof u);
        memcpy(v, axis + i, sizeof v);
        for (size_t k = 0; k < COLUMN_UNIT / LANES; k++)
            sum[k] += u[k] * v[k];
    }
    lanes both = sum[0] + sum[1];
    return both[0] + both[1];
}

/* Sets the angles of the current rows. */
static void set_angles(qk__rotation_scan *s)
{
    const qk__turn_kernel *kernel = qk__best_turn_kernel();
    for (size_t first = 0; first < ROW_UNIT; first += TURN_ROWS) {
        kernel->project(s->x + first * s->padded, s->padded, s->axes, s->dim, 2 * s->half,
                        s->projected);
        for (size_t u = 0; u < TURN_ROWS; u++)
            kernel->angles(s->projected + 2 * u * s->half, s->projected + (2 * u + 1) * s->half,
                           s->half, s->turned + (first + u) * s->half);
    }
}

/* Keeps what is needed of the `count` current rows. */
static void keep_rows(qk__rotation_scan *s, bool queries, const int64_t *t, size_t count)
{
    size_t rows = all_rows(s), next = s->added[false] + s->added[true];
    memcpy(s->t + next, t, count * sizeof *t);
    for (size_t u = 0; u < count; u++)
        s->y[next + u] = along(s->x + u * s->padded, s->a, s->padded) + s->offset[queries];
    if (s->planes > 0)
        set_angles(s);
    for (size_t i = 0; i < s->planes; i++)
        for (size_t u = 0; u < count; u++)
            s->angle[i * rows + next + u] = s->turned[u * s->half + i];
    s->added[queries] += count;
}

static qk_status check_room(const qk__rotation_scan *s, bool queries, size_t rows,
                            qk_error *err)
{
    if (queries && s->added[false] > 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "queries must be scanned before keys");
    if (!queries && s->added[true] < s->expected[true])
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "keys must be scanned after all %zu queries, not after %zu",
                        s->expected[true], s->added[true]);
    if (rows > s->expected[queries] - s->added[queries])
        return qk__fail(err, QK_ERR_ARGUMENT, "more than the %zu %s of the fit are scanned",
                        s->expected[queries], queries ? "queries" : "keys");
    return QK_OK;
}

/* Takes rows less their kind's mean, a few at a time. */
qk_status qk__rotation_scan_add(qk__rotation_scan *scan, bool queries, const qk_block *rows,
                                qk_error *err)
{
    if (scan->degenerate)
        return QK_OK;
    QK_TRY(qk__check_block(rows, scan->dim, err));
    QK_TRY(check_room(scan, queries, rows->rows, err));
    const double *mean = scan->mean[queries];
    for (size_t first = 0; first < rows->rows; first += ROW_UNIT) {
        size_t left = rows->rows - first, take = left < ROW_UNIT ? left : ROW_UNIT;
        for (size_t u = 0; u < take; u++) {
            double *row = scan->x + u * scan->padded;
            for (size_t i = 0, at = (first + u) * scan->dim; i < scan->dim; i++)
                row[i] = qk__number_at(rows, at + i) - mean[i];
        }
        keep_rows(scan, queries, rows->position + first, take);
    }
    return QK_OK;
}

/* ---- how straight angles grow with position --------------------------------------------- */

typedef struct angle_line {
    const qk__positions *positions;
    size_t n_q;     /* rows of queries; keys follow */
    double tt;      /* sum of squares of t */
    double *t;      /* [rows] positions less their mean, in their order */
    double *y;      /* [rows] angles in the same order */
    double *change; /* [rows] from the row before, unwrapped */
} angle_line;

/* Subtracts the mean of numbers with this sum; returns the sum of squares of the rest. */
static double subtract_mean(double *v, size_t n, double sum)
{
    for (size_t i = 0; i < n; i++)
        v[i] -= sum / (double)n;
    return qk__dot(v, v, n);
}

/* Its memory is line->t, to be freed by the caller. */
static qk_status set_line(angle_line *line, const qk__positions *positions, size_t n_q,
                          qk_error *err)
{
    size_t rows = positions->rows;
    double sum = 0;
    *line = (angle_line){.positions = positions, .n_q = n_q};
    line->t = qk__calloc(rows, 3 * sizeof *line->t);
    if (!line->t)
        return qk__nomem(err);
    line->y = line->t + rows;
    line->change = line->y + rows;
    for (size_t k = 0; k < positions->count; k++)
        for (size_t i = positions->first[k]; i < positions->first[k + 1]; i++)
            sum += line->t[i] = positions->tau[k];
    line->tt = subtract_mean(line->t, rows, sum);
    return QK_OK;
}

/* Angles and phases lie within half a turn of zero, so that a change is at most two turns.
 * Half a turn forwards stays, half a turn backwards becomes it. */
static void set_changes(angle_line *line)
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

/* Pearson r of position and the angles less their kind's phase, unwrapped from row to row in
 * the order of positions; 0 where the angles do not vary. Angles are in the order of the rows,
 * and taken with the given sign. */
static double angle_line_r(angle_line *line, const double *angle, double sign,
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
    double yy = subtract_mean(y, rows, sum), yt = qk__dot(y, line->t, rows);
    return yy > 0 && line->tt > 0 ? fmax(-1, fmin(1, yt / sqrt(yy) / sqrt(line->tt))) : 0;
}

/* ---- results ---------------------------------------------------------------------------- */

/* An eigenvector's sign is arbitrary: v2 gets the one that makes omega positive. Returns
 * the sign of the angles. */
static double turn_forwards(qk_rotation *r, size_t plane, qk__turning *turning)
{
    if (!(turning->omega < 0))
        return 1;
    qk__negate(r->axes + (2 * plane + 1) * r->dim, r->dim);
    turning->omega = -turning->omega;
    turning->phase_q = -turning->phase_q;
    turning->phase_k = -turning->phase_k;
    return -1;
}

static qk_status fill_planes(qk__rotation_scan *s, qk__positions *positions, qk_rotation *r,
                             qk_error *err)
{
    qk__turn_finder *finder;
    angle_line line = {0};
    QK_TRY(qk__turn_finder_create(&finder, positions, s->expected[true], s->frequencies,
                                  s->num_frequencies, err));
    qk_status status = set_line(&line, positions, s->expected[true], err);
    for (size_t i = 0; status == QK_OK && i < s->planes; i++) {
        qk_plane *plane = &r->planes[s->first_plane + i];
        const double *angle = s->angle + i * all_rows(s);
        if (isnan(plane->variance_share))
            continue;
        qk__turning turning = qk__find_turning(finder, angle);
        double sign = turn_forwards(r, s->first_plane + i, &turning);
        plane->omega = turning.omega;
        plane->resultant = turning.resultant;
        plane->rope_frequency = turning.known ? turning.omega : NAN;
        plane->angle_r =
            isnan(turning.omega) ? NAN : angle_line_r(&line, angle, sign, &turning);
    }
    free(line.t);
    qk__turn_finder_free(&finder);
    return status;
}

static qk_status finish_scan(qk__rotation_scan *s, qk_rotation *r, qk_error *err)
{
    if (s->degenerate)
        return QK_OK;
    if (s->added[true] < s->expected[true] || s->added[false] < s->expected[false])
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "%zu queries and %zu keys are scanned, the fit has %zu and %zu",
                        s->added[true], s->added[false], s->expected[true], s->expected[false]);
    qk__positions *positions;
    QK_TRY(qk__positions_create(&positions, s->t, all_rows(s), err));
    qk_status status = QK_OK;
    if (s->along_a)
        status = qk__sinusoid_fit(positions, s->y, &r->omega, &r->omega_r_squared, err);
    if (status == QK_OK && s->planes > 0)
        status = fill_planes(s, positions, r, err);
    qk__positions_free(&positions);
    return status;
}

qk_status qk__rotation_scan_finish(qk__rotation_scan **scan, qk_rotation *rotation,
                                   qk_error *err)
{
    qk_status status = finish_scan(*scan, rotation, err);
    qk__rotation_scan_free(scan);
    return status;
}
