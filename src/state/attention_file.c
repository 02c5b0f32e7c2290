/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of attention from a layer's file. */
#include "state/attention_file.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "state/layer_view.h"

/* Files of older programs have sums that nobody reads any more: those of a_j^2, of rows with tokens and of m_b ln n_b, and
 * where the largest weight of a row stands. */
enum { OLD_SUMS = 102 };

/* Where a file of so many sums has one. */
static size_t place_of(size_t sum, size_t sums)
{
    if (sums != OLD_SUMS || sum < QK_ATTENTION_VISIBLE)
        return sum;
    if (sum >= QK_ATTENTION_LOGIT)
        return sum + OLD_SUMS - QK_ATTENTION_SUMS;
    return sum + (sum == QK_ATTENTION_VISIBLE ? 1 : sum < QK_ATTENTION_FAR_BINS ? 3 : 4);
}

static const qk__layer_view *view_of(const qk__layer_file *file)
{
    return qk__layer_file_view(file, QK_QUERY);
}

static qk_status check_view(const qk__layer_view *view, qk_error *err)
{
    if (!view->shape.means)
        return qk__fail(err, QK_ERR_MALFORMED, "these are moments, not sums of attention");
    if (view->shape.num_heads == 0 || !view->shape.by_bucket)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "sums of attention of no query heads, or not by "
                        "bucket");
    if (view->shape.dim != QK_ATTENTION_SUMS && view->shape.dim != OLD_SUMS)
        return qk__fail(err, QK_ERR_MALFORMED, "%zu sums of attention: %d are expected",
                        view->shape.dim, QK_ATTENTION_SUMS);
    for (int64_t b = 0; b < view->sizes.buckets; b++)
        if (view->buckets[b] < 0 || view->buckets[b] >= QK_DISTANCE_BINS)
            return qk__fail(err, QK_ERR_MALFORMED, "bucket %lld: rows have 0 to %d",
                            (long long)view->buckets[b], QK_DISTANCE_BINS - 1);
    return QK_OK;
}

qk_status qk__attention_file_open(qk__layer_file **file, const char *path, qk_error *err)
{
    QK_TRY(qk__layer_file_open(file, path, err));
    qk_status status = qk__context(err, check_view(view_of(*file), err), "%s", path);
    if (status != QK_OK)
        qk__layer_file_close(file);
    return status;
}

/* Sums of a set's rows. False: it has none of the head. */
static bool put_set(const qk__moment_set *set, size_t head, size_t dim, double *sums)
{
    const double rows = (double)set->count[head], *mean = set->mean + head * dim;
    for (size_t i = 0; i < QK_ATTENTION_SUMS; i++)
        sums[i] = mean[place_of(i, dim)] * (i == QK_ATTENTION_LOGIT_MAX ? 1 : rows);
    return rows > 0;
}

static qk_status take_sets(const qk__layer_view *view, size_t place, qk__attention_head *head,
                           qk_error *err)
{
    const size_t dim = view->shape.dim;
    const qk__set_shape shape = {
        .num_heads = view->shape.num_heads, .dim = dim, .diagonal = true, .means = true};
    for (size_t g = 0; g < (size_t)view->sizes.groups; g++) {
        const qk__moment_set set = qk__layer_view_group(view, g);
        QK_TRY(qk__check_set(&shape, &set, place, err));
        head->rows += set.count[place];
        head->num_groups +=
            put_set(&set, place, dim, head->group + head->num_groups * QK_ATTENTION_SUMS);
    }
    for (size_t b = 0; b < (size_t)view->sizes.buckets; b++) {
        const qk__moment_set set = qk__layer_view_bucket(view, b);
        QK_TRY(qk__check_set(&shape, &set, place, err));
        head->bucket[head->num_buckets] = view->buckets[b];
        head->num_buckets +=
            put_set(&set, place, dim, head->by_bucket + head->num_buckets * QK_ATTENTION_SUMS);
    }
    return QK_OK;
}

qk_status qk__attention_file_head(const qk__layer_file *file, size_t place,
                                  qk__attention_head *head, qk_error *err)
{
    const qk__layer_view *view = view_of(file);
    const size_t sums = QK_ATTENTION_SUMS, groups = (size_t)view->sizes.groups,
                 buckets = (size_t)view->sizes.buckets;
    *head = (qk__attention_head){.texts = view->texts[place]};
    qk_status status =
        QK__CREATE_ARRAYS(err, {&head->group, groups * sums, sizeof *head->group},
                          {&head->bucket, buckets, sizeof *head->bucket},
                          {&head->by_bucket, buckets * sums, sizeof *head->by_bucket});
    if (status == QK_OK)
        status = qk__context(err, take_sets(view, place, head, err), "%s: head %d",
                             qk__layer_file_path(file), view->heads[place]);
    if (status != QK_OK)
        qk__attention_head_clear(head);
    return status;
}

void qk__attention_head_clear(qk__attention_head *head)
{
    free(head->group);
    free(head->bucket);
    free(head->by_bucket);
    *head = (qk__attention_head){0};
}
