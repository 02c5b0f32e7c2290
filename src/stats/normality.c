/* SPDX-License-Identifier: Apache-2.0 */
/* Shape of the reflected queries, coordinate by coordinate, and position from the drift.
 *
 * The rows are turned into columns of reflected, centred, roughly standardised numbers, a
 * panel of some columns at a time: all at once would take twice the memory of the rows. */
#include "stats/normality.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/kolmogorov.h"
#include "stats/ks_statistic.h"

enum {
    PANEL = 16,          /* columns in a panel */
    BLOCK = 8,           /* rows turned at a time */
    MANY_ROWS = 1 << 14, /* with more of them a panel is half as wide */
    LANES = 4,
};

/* Room for one head. */
typedef struct workspace {
    const qk__query_model *model;
    const qk_block *queries;
    size_t dim, rows, width; /* width: columns in a panel */
    qk__ks *ks;
    double *block;           /* the allocation; the others lie in it */
    double *along;           /* [rows] 2 m.(q - mean), m the mirror */
    double *log_position;    /* [rows] */
    double *panel;           /* [width][rows] */
    double *scale;           /* [dim] 1 / standard deviation of the model */
    double *skew, *kurt, *d; /* [dim] of the coordinates 2..d with variance */
    size_t noise;            /* their number */
} workspace;

typedef struct shape {
    double skew, kurt, d; /* d: Kolmogorov-Smirnov statistic */
} shape;

static qk_status start_workspace(workspace *w, const qk__query_model *model,
                                 const qk_block *queries, qk_error *err)
{
    size_t dim = model->dim, rows = queries->rows;
    *w = (workspace){.model = model, .queries = queries, .dim = dim, .rows = rows};
    w->width = rows > MANY_ROWS ? PANEL / 2 : PANEL;
    if (rows > SIZE_MAX / sizeof(double) / (PANEL + 4))
        return qk__nomem(err);
    w->block = malloc(((w->width + 2) * rows + 4 * dim) * sizeof(double));
    if (!w->block)
        return qk__nomem(err);
    w->along = w->block;
    w->log_position = w->along + rows;
    w->panel = w->log_position + rows;
    w->scale = w->panel + w->width * rows;
    w->skew = w->scale + dim;
    w->kurt = w->skew + dim;
    w->d = w->kurt + dim;
    for (size_t c = 0; c < dim; c++)
        w->scale[c] = model->variance[c] > 0 ? 1 / sqrt(model->variance[c]) : 1;
    qk_status status = qk__ks_create(&w->ks, rows, err);
    if (status != QK_OK)
        free(w->block);
    return status;
}

static void finish_workspace(workspace *w)
{
    qk__ks_free(&w->ks);
    free(w->block);
}

/* `count` values from column c of a row. */
static inline void load_columns(const qk_block *s, size_t row, size_t c, size_t count,
                                double *out)
{
    if (s->f32) {
        const float *x = s->f32 + row * s->dim + c;
        for (size_t j = 0; j < count; j++)
            out[j] = (double)x[j];
    } else {
        memcpy(out, s->f64 + row * s->dim + c, count * sizeof *out);
    }
}

static void measure_along(workspace *w)
{
    const double *mean = w->model->mean, *mirror = w->model->mirror;
    for (size_t r = 0; r < w->rows; r++) {
        double sum[PANEL] = {0}, total = 0;
        for (size_t c = 0; c < w->dim; c += PANEL) {
            size_t count = w->dim - c < PANEL ? w->dim - c : PANEL;
            double x[PANEL];
            if (count == PANEL) {
                load_columns(w->queries, r, c, PANEL, x);
                for (size_t j = 0; j < PANEL; j++)
                    sum[j] += mirror[c + j] * (x[j] - mean[c + j]);
            } else {
                load_columns(w->queries, r, c, count, x);
                for (size_t j = 0; j < count; j++)
                    sum[j] += mirror[c + j] * (x[j] - mean[c + j]);
            }
        }
        for (size_t j = 0; j < PANEL; j++)
            total += sum[j];
        w->along[r] = 2 * total;
    }
}

/* Columns first .. first + count - 1, one after the other, of rows begin .. begin + size - 1. */
static inline void turn(workspace *w, size_t first, size_t count, size_t begin, size_t size)
{
    const double *mean = w->model->mean + first, *mirror = w->model->mirror + first;
    const double *scale = w->scale + first;
    double tile[BLOCK][PANEL];
    for (size_t r = 0; r < size; r++) {
        double along = w->along[begin + r];
        load_columns(w->queries, begin + r, first, count, tile[r]);
        for (size_t j = 0; j < count; j++)
            tile[r][j] = (tile[r][j] - mean[j] - along * mirror[j]) * scale[j];
    }
    for (size_t j = 0; j < count; j++)
        for (size_t r = 0; r < size; r++)
            w->panel[j * w->rows + begin + r] = tile[r][j];
}

static void fill_panel(workspace *w, size_t first, size_t count)
{
    size_t r = 0;
    for (; r + BLOCK <= w->rows; r += BLOCK) {
        if (count == PANEL)
            turn(w, first, PANEL, r, BLOCK);
        else
            turn(w, first, count, r, BLOCK);
    }
    turn(w, first, count, r, w->rows - r);
}

/* Sums of the first four powers, in four interleaved parts. */
static void power_sums(const double *x, size_t n, double sum[4])
{
    double lane[4][LANES] = {{0}};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            double y = x[i + l], y2 = y * y;
            lane[0][l] += y;
            lane[1][l] += y2;
            lane[2][l] += y2 * y;
            lane[3][l] += y2 * y2;
        }
    }
    for (; i < n; i++) {
        double y = x[i], y2 = y * y;
        lane[0][0] += y;
        lane[1][0] += y2;
        lane[2][0] += y2 * y;
        lane[3][0] += y2 * y2;
    }
    for (int p = 0; p < 4; p++)
        sum[p] = (lane[p][0] + lane[p][1]) + (lane[p][2] + lane[p][3]);
}

/* Bias-corrected skewness and excess kurtosis. The column is centred but for rounding. */
static shape shape_of_column(qk__ks *ks, const double *x, size_t rows)
{
    shape s = {NAN, NAN, NAN};
    double n = (double)rows, sum[4];
    power_sums(x, rows, sum);
    double mean = sum[0] / n, s2 = sum[1] / n, s3 = sum[2] / n, s4 = sum[3] / n,
           mean2 = mean * mean;
    double m2 = s2 - mean2;
    double m3 = s3 - mean * (3 * s2 - 2 * mean2);
    double m4 = s4 - mean * (4 * s3 - mean * (6 * s2 - 3 * mean2));
    if (!(m2 > 0) || rows < 2)
        return s;
    if (rows > 2)
        s.skew = sqrt(n * (n - 1)) / (n - 2) * m3 / (m2 * sqrt(m2));
    if (rows > 3)
        s.kurt = (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * (m4 / (m2 * m2) - 3) + 6);
    s.d = qk__ks_normal(ks, x, mean, sqrt((n - 1) / (n * m2)));
    return s;
}

/* log2(t + 1) less its first value, so that equal positions leave exact zeros. */
static bool log_positions(workspace *w)
{
    const int64_t *t = w->queries->position;
    for (size_t r = 0; r < w->rows; r++) {
        if (t[r] < 0)
            return false;
        w->log_position[r] = log2((double)t[r] + 1);
        if (r > 0)
            w->log_position[r] -= w->log_position[0];
    }
    if (w->rows > 0)
        w->log_position[0] = 0;
    return w->rows > 0;
}

static double mean_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

/* Position from coordinate 1. s is a multiple of it about any centre: the coordinate is beta.q / |beta|, and the
 * regression does not depend on centre and factor. */
static void predict_position(workspace *w, const double *s, qk_plasticity *out)
{
    out->q_r2_scalar = out->q_mae_baseline = out->q_mae_proj = out->q_mae_ratio = NAN;
    if (!log_positions(w))
        return;
    size_t n = w->rows;
    const double *y = w->log_position;
    double mean_s = mean_of(s, n), mean_y = mean_of(y, n), ss = 0, sy = 0, yy = 0;
    for (size_t i = 0; i < n; i++) {
        double ds = s[i] - mean_s, dy = y[i] - mean_y;
        ss += ds * ds;
        sy += ds * dy;
        yy += dy * dy;
    }
    bool usable = w->model->beta_norm > 0 && ss > 0;
    double slope = usable ? sy / ss : 0, baseline = 0, left = 0;
    for (size_t i = 0; i < n; i++) {
        double dy = y[i] - mean_y;
        baseline += fabs(dy);
        left += fabs(dy - slope * (s[i] - mean_s));
    }
    out->q_mae_baseline = baseline / (double)n;
    out->q_mae_proj = left / (double)n;
    if (baseline > 0) {
        out->q_mae_ratio = left / baseline;
        out->q_r2_scalar = slope * sy / yy;
    }
}

/* Takes the drift out of coordinate 1 and describes the rest. */
static void describe_residual(workspace *w, double *x, qk_plasticity *out)
{
    const int64_t *t = w->queries->position;
    double slope = w->model->sign * w->model->beta_norm * w->scale[0];
    shape s = {NAN, NAN, NAN};
    if (w->model->variance[0] > 0) {
        for (size_t r = 0; r < w->rows; r++)
            x[r] -= slope * ((double)t[r] - w->model->mean_t);
        s = shape_of_column(w->ks, x, w->rows);
    }
    out->resid0_skew = w->model->sign * s.skew;
    out->resid0_kurt = s.kurt;
    out->resid0_ks_p = isnan(s.d) ? NAN : qk__kolmogorov_p((int64_t)w->rows, s.d);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts x. */
static double median(double *x, size_t n)
{
    if (n == 0)
        return NAN;
    qsort(x, n, sizeof *x, ascending);
    return n % 2 == 1 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* p falls with D: its median is that of the middle D, and those below alpha are the last. */
static void summarise_ks(workspace *w, double ks_alpha, qk_plasticity *out)
{
    size_t n = w->noise, low = 0, high = n;
    int64_t rows = (int64_t)w->rows;
    qsort(w->d, n, sizeof *w->d, ascending);
    double p = qk__kolmogorov_p(rows, w->d[n / 2]);
    if (n % 2 == 0)
        p = (qk__kolmogorov_p(rows, w->d[n / 2 - 1]) + p) / 2;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (qk__kolmogorov_p(rows, w->d[middle]) < ks_alpha)
            high = middle;
        else
            low = middle + 1;
    }
    out->noise_med_ks_p = p;
    out->noise_frac_ks_p_lt_alpha = (double)(n - low) / (double)n;
}

static void summarise(workspace *w, double ks_alpha, qk_plasticity *out)
{
    size_t n = w->noise;
    out->noise_med_abs_skew = out->noise_med_abs_kurt = NAN;
    out->noise_med_ks_p = out->noise_frac_ks_p_lt_alpha = NAN;
    if (w->rows > 2)
        out->noise_med_abs_skew = median(w->skew, n);
    if (w->rows > 3)
        out->noise_med_abs_kurt = median(w->kurt, n);
    if (n > 0)
        summarise_ks(w, ks_alpha, out);
}

qk_status qk__describe_queries(const qk__query_model *model, const qk_block *queries,
                               const qk_plasticity_settings *settings, qk_plasticity *out,
                               qk_error *err)
{
    workspace w;
    QK_TRY(start_workspace(&w, model, queries, err));
    measure_along(&w);
    for (size_t first = 0; first < w.dim; first += w.width) {
        size_t count = w.dim - first < w.width ? w.dim - first : w.width;
        fill_panel(&w, first, count);
        for (size_t j = 0; j < count; j++) {
            double *x = w.panel + j * w.rows;
            if (first + j == 0) {
                predict_position(&w, x, out);
                describe_residual(&w, x, out);
            } else if (model->variance[first + j] > 0) {
                shape s = shape_of_column(w.ks, x, w.rows);
                w.skew[w.noise] = fabs(s.skew);
                w.kurt[w.noise] = fabs(s.kurt);
                if (!isnan(s.d))
                    w.d[w.noise++] = s.d;
            }
        }
    }
    summarise(&w, settings->ks_alpha, out);
    finish_workspace(&w);
    return QK_OK;
}
