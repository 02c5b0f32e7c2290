/* SPDX-License-Identifier: Apache-2.0 */
/* Means, quartiles and lines over heads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "results/results.h"
#include "settings/head_set.h"
#include "tables/text_lengths.h"

static double pick(const qk__result_head *head, const qk__field *field, bool magnitude)
{
    double value = qk__field_value(field, &head->v);
    return magnitude ? fabs(value) : value;
}

/* ---- spread ----------------------------------------------------------------------------- */

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
    qk__mean squares = {0};
    for (size_t i = 0; i < count; i++)
        qk__mean_add(&squares, (values[i] - mean) * (values[i] - mean));
    return count > 1 ? sqrt((squares.total + squares.error) / (double)(count - 1)) : NAN;
}

/* Of finite values, which it sorts. */
static qk__spread spread_of_values(double *values, size_t count)
{
    qk__spread spread = {count, NAN, NAN, NAN, NAN, NAN};
    qk__mean all = {0};
    for (size_t i = 0; i < count; i++)
        qk__mean_add(&all, values[i]);
    if (count == 0)
        return spread;
    qk__sort(values, count);
    spread.mean = qk__mean_of(&all);
    spread.sd = deviation(values, count, spread.mean);
    spread.quartile1 = quantile(values, count, 0.25);
    spread.median = quantile(values, count, 0.5);
    spread.quartile3 = quantile(values, count, 0.75);
    return spread;
}

qk_status qk__spread_of(const qk__result_model *model, const qk__field *field, bool magnitude,
                        qk__spread *spread, qk_error *err)
{
    size_t count = 0;
    double *values = qk__calloc(model->num_heads + 1, sizeof *values);
    if (!values)
        return qk__nomem(err);
    for (size_t i = 0; i < model->num_heads; i++) {
        double value = pick(&model->heads[i], field, magnitude);
        if (isfinite(value))
            values[count++] = value;
    }
    *spread = spread_of_values(values, count);
    free(values);
    return QK_OK;
}

size_t qk__count_heads(const qk__results *results)
{
    size_t count = 0;
    for (size_t m = 0; m < results->num_models; m++)
        count += results->models[m].num_heads;
    return count;
}

static bool has_any(const qk__results *results, const qk_head_range *range)
{
    qk__each_model (results, model)
        qk__each_head (model, head)
            if (qk__range_has(range, head->layer, head->q_head))
                return true;
    return false;
}

qk_status qk__need_heads(const qk_head_set *named, const qk__results *results,
                         const qk__results *other, qk_error *err)
{
    for (size_t i = 0; i < named->count; i++) {
        char text[QK__HEAD_RANGE_SIZE];
        if (!has_any(results, &named->items[i]) && !(other && has_any(other, &named->items[i])))
            return qk__fail(err, QK_ERR_NOT_FOUND, "heads %s: these results have none of them",
                            qk__head_range_text(&named->items[i], text));
    }
    return QK_OK;
}

/* ---- line ------------------------------------------------------------------------------- */

typedef struct range {
    double least, most;
} range;

static void widen_range(range *r, double value)
{
    r->least = fmin(r->least, value);
    r->most = fmax(r->most, value);
}

qk__line qk__fit_line(const double *x, const double *y, size_t count)
{
    qk__line line = {0, NAN, NAN, NAN};
    qk__mean sum_x = {0}, sum_y = {0};
    range range_x = {INFINITY, -INFINITY}, range_y = range_x;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i]))
            continue;
        qk__mean_add(&sum_x, x[i]);
        qk__mean_add(&sum_y, y[i]);
        widen_range(&range_x, x[i]);
        widen_range(&range_y, y[i]);
    }
    line.count = sum_x.count;
    /* Equal values, and not a sum of squares, since the mean may be rounded. */
    if (line.count < 3 || range_x.least == range_x.most || range_y.least == range_y.most)
        return line;
    double mean_x = qk__mean_of(&sum_x), mean_y = qk__mean_of(&sum_y);
    qk__mean xx = {0}, xy = {0}, yy = {0};
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i]))
            continue;
        double dx = x[i] - mean_x, dy = y[i] - mean_y;
        qk__mean_add(&xx, dx * dx);
        qk__mean_add(&xy, dx * dy);
        qk__mean_add(&yy, dy * dy);
    }
    double var_x = qk__mean_of(&xx), var_y = qk__mean_of(&yy), cov = qk__mean_of(&xy);
    bool overflow = xx.count < line.count || yy.count < line.count || xy.count < line.count;
    if (overflow || !(var_x > 0 && var_y > 0 && isfinite(var_x) && isfinite(var_y)))
        return line;
    line.r = fmax(-1, fmin(1, cov / (sqrt(var_x) * sqrt(var_y))));
    line.slope = cov / var_x;
    line.start = mean_y - line.slope * mean_x;
    return line;
}

/* ---- lengths of texts ------------------------------------------------------------------- */

bool qk__has_unlike_lengths(const qk__results *results)
{
    qk__each_model (results, a)
        qk__each_model (results, b)
            if (qk__lengths_differ(&a->lengths, &b->lengths))
                return true;
    return false;
}

const char *qk__lengths_say(const qk__results *results, const char *before,
                            char text[QK_LENGTHS_SIZE])
{
    qk_text_lengths all = qk__no_lengths;
    char words[QK_LENGTHS_SIZE];
    qk__each_model (results, model) {
        all.least = fmin(all.least, model->lengths.least); /* which takes no NaN */
        all.most = fmax(all.most, model->lengths.most);
    }
    if (results->num_models == 1)
        all = results->models[0].lengths;
    snprintf(text, QK_LENGTHS_SIZE, "%s%.*s%s", before, QK_LENGTHS_SIZE - 40,
             qk_text_lengths_say(&all, words),
             qk__has_unlike_lengths(results) ? ", unlike among models" : "");
    return text;
}
