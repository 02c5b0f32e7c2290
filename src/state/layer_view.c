/* SPDX-License-Identifier: Apache-2.0 */
/* The sets of a layer's moments, where they lie in a mapped file. */
#include "state/layer_view.h"

#include <math.h>
#include <stdbool.h>

#include "base/error.h"
#include "stats/pilot_sums.h"

static double *numbers_at(const qk__layer_view *view, int array, size_t offset)
{
    const double *data = view->data[array]; /* NULL: it is not kept */
    return (double *)(uintptr_t)(data ? data + offset : NULL);
}

/* first: the array of counts; squares: numbers of sum_xx of a head. */
static qk__moment_set set_at(const qk__layer_view *view, int first, size_t i, size_t squares)
{
    const size_t heads = (size_t)view->sizes.heads, d = (size_t)view->sizes.dim;
    return (qk__moment_set){
        .count = (int64_t *)(uintptr_t)((const int64_t *)view->data[first] + i * heads),
        .mean_t = numbers_at(view, first + 1, i * heads),
        .sum_tt = numbers_at(view, first + 2, i * heads),
        .mean = numbers_at(view, first + 3, i * heads * d),
        .sum_xt = numbers_at(view, first + 4, i * heads * d),
        .sum_xx = numbers_at(view, first + 5, i * heads * squares),
    };
}

qk__moment_set qk__layer_view_group(const qk__layer_view *view, size_t group)
{
    const size_t d = (size_t)view->sizes.dim;
    qk__moment_set set = set_at(view, QK__ARRAY_COUNT, group, d * (d + 1) / 2);
    set.key = (uint64_t)view->labels[group];
    set.sum_abs = numbers_at(view, QK__ARRAY_SUM_ABS,
                             group * (size_t)(view->sizes.heads * view->sizes.pairs));
    return set;
}

qk__moment_set qk__layer_view_bucket(const qk__layer_view *view, size_t bucket)
{
    qk__moment_set set = set_at(view, QK__ARRAY_BUCKET_COUNT, bucket, (size_t)view->sizes.dim);
    set.key = qk__bucket_key(view->buckets[bucket]);
    return set;
}

qk_status qk__check_set(const qk__set_shape *shape, const qk__moment_set *set, size_t head,
                        qk_error *err)
{
    const size_t d = shape->dim, squares = qk__set_squares(shape);
    const double *sum_xx = set->sum_xx + head * squares;
    if (set->count[head] == 0)
        return QK_OK;
    if (shape->means)
        return qk__all_finite(set->mean + head * d, d)
                   ? QK_OK
                   : qk__fail(err, QK_ERR_MALFORMED, "its numbers are no sums of attention");
    bool sound = isfinite(set->mean_t[head]) && isfinite(set->sum_tt[head]) &&
                 set->sum_tt[head] >= 0 && qk__all_finite(set->mean + head * d, d) &&
                 qk__all_finite(set->sum_xt + head * d, d) && qk__all_finite(sum_xx, squares);
    for (size_t i = 0; sound && i < d; sum_xx += shape->diagonal ? 1 : d - i, i++)
        sound = *sum_xx >= 0;
    for (size_t i = head * shape->pairs; sound && i < (head + 1) * shape->pairs; i++)
        sound = isnan(set->sum_abs[i]) || (set->sum_abs[i] >= 0 && isfinite(set->sum_abs[i]));
    return sound ? QK_OK
                 : qk__fail(err, QK_ERR_MALFORMED, "its numbers are not moments of any rows");
}
