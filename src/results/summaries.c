/* SPDX-License-Identifier: Apache-2.0 */
/* Means, quartiles and lines over heads. Sums are carried with their rounding errors
 * (Neumaier), so that the order of heads does not show. */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "results/results.h"

typedef struct sum {
    double total, error;
    size_t count;
} sum;

static void add(sum *s, double value)
{
    double total = s->total + value;
    s->error +=
        fabs(s->total) >= fabs(value) ? (s->total - total) + value : (value - total) + s->total;
    s->total = total;
    s->count++;
}

static double mean_of(const sum *s)
{
    return s->count > 0 ? (s->total + s->error) / (double)s->count : NAN;
}

static double pick(const qk__result_head *head, const qk__field *field, bool magnitude)
{
    double value = qk__field_value(field, &head->v);
    return magnitude ? fabs(value) : value;
}

/* ---- spread -------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear between order statistics, from the nearer one, as NumPy does it. */
static double quantile(const double *sorted, size_t count, double share)
{
    double place = share * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count)
        return sorted[count - 1];
    double t = place - (double)below, step = sorted[below + 1] - sorted[below];
    return t < 0.5 ? sorted[below] + step * t : sorted[below + 1] - step * (1 - t);
}

static double deviation(const double *values, size_t count, double mean)
{
    sum squares = {0};
    for (size_t i = 0; i < count; i++)
        add(&squares, (values[i] - mean) * (values[i] - mean));
    return count > 1 ? sqrt((squares.total + squares.error) / (double)(count - 1)) : NAN;
}

qk_status qk__spread_of(const qk__result_model *model, const qk__field *field, bool magnitude,
                        qk__spread *spread, qk_error *err)
{
    *spread = (qk__spread){0, NAN, NAN, NAN, NAN, NAN};
    if (model->num_heads == 0)
        return QK_OK;
    double *values = qk__calloc(model->num_heads, sizeof *values);
    if (!values)
        return qk__nomem(err);
    sum all = {0};
    for (size_t i = 0; i < model->num_heads; i++) {
        double value = pick(&model->heads[i], field, magnitude);
        if (!isfinite(value))
            continue;
        values[all.count] = value;
        add(&all, value);
    }
    if (all.count > 0) {
        qsort(values, all.count, sizeof *values, compare_doubles);
        spread->count = all.count;
        spread->mean = mean_of(&all);
        spread->sd = deviation(values, all.count, spread->mean);
        spread->quartile1 = quantile(values, all.count, 0.25);
        spread->median = quantile(values, all.count, 0.5);
        spread->quartile3 = quantile(values, all.count, 0.75);
    }
    free(values);
    return QK_OK;
}

/* ---- means --------------------------------------------------------------------------- */

void qk__by_depth(const qk__result_model *model, const qk__field *field, bool magnitude,
                  double means[QK__DEPTH_BINS])
{
    sum bins[QK__DEPTH_BINS] = {{0, 0, 0}};
    for (size_t i = 0; i < model->num_heads; i++) {
        double value = pick(&model->heads[i], field, magnitude);
        int bin = (int)(model->heads[i].depth * QK__DEPTH_BINS);
        if (isfinite(value))
            add(&bins[bin < QK__DEPTH_BINS ? bin : QK__DEPTH_BINS - 1], value);
    }
    for (int i = 0; i < QK__DEPTH_BINS; i++)
        means[i] = mean_of(&bins[i]);
}

static void add_finite(sum *s, double value)
{
    if (isfinite(value))
        add(s, value);
}

qk__pc_means qk__mean_of_pc(const qk__results *results, size_t pc)
{
    sum ev = {0}, r_q = {0}, r_k = {0};
    for (size_t m = 0; m < results->num_models; m++) {
        const qk__result_model *model = &results->models[m];
        for (size_t i = 0; i < model->num_heads; i++) {
            const qk__result_head *head = &model->heads[i];
            if (pc >= head->num_pcs)
                continue;
            add_finite(&ev, head->pc_ev[pc]);
            add_finite(&r_q, head->pc_r_q[pc]);
            add_finite(&r_k, head->pc_r_k[pc]);
        }
    }
    return (qk__pc_means){mean_of(&ev), mean_of(&r_q), mean_of(&r_k)};
}

/* ---- line ---------------------------------------------------------------------------- */

typedef struct range {
    double least, most;
} range;

static void widen(range *r, double value)
{
    r->least = fmin(r->least, value);
    r->most = fmax(r->most, value);
}

qk__line qk__fit_line(const double *x, const double *y, size_t count)
{
    qk__line line = {0, NAN, NAN, NAN};
    sum sum_x = {0}, sum_y = {0};
    range range_x = {INFINITY, -INFINITY}, range_y = range_x;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i]))
            continue;
        add(&sum_x, x[i]);
        add(&sum_y, y[i]);
        widen(&range_x, x[i]);
        widen(&range_y, y[i]);
    }
    line.count = sum_x.count;
    /* Equal values, and not a sum of squares, since the mean may be rounded. */
    if (line.count < 3 || range_x.least == range_x.most || range_y.least == range_y.most)
        return line;
    double mean_x = mean_of(&sum_x), mean_y = mean_of(&sum_y);
    sum xx = {0}, xy = {0}, yy = {0};
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i]))
            continue;
        double dx = x[i] - mean_x, dy = y[i] - mean_y;
        add(&xx, dx * dx);
        add(&xy, dx * dy);
        add(&yy, dy * dy);
    }
    double var_x = mean_of(&xx), var_y = mean_of(&yy), cov = mean_of(&xy);
    if (!(var_x > 0 && var_y > 0 && isfinite(var_x) && isfinite(var_y)))
        return line; /* under- or overflow */
    line.r = fmax(-1, fmin(1, cov / (sqrt(var_x) * sqrt(var_y))));
    line.slope = cov / var_x;
    line.start = mean_y - line.slope * mean_x;
    return line;
}
