/* SPDX-License-Identifier: Apache-2.0 */
/* Which heads a scatter shows: named ones, random ones, or the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/py_random.h"
#include "scatter/scatter.h"
#include "settings/head_set.h"

enum { MAX_HEADS = 4096 };

size_t qk__scatter_places(const qk_scatter_settings *settings)
{
    if (settings->rows > 0)
        return (size_t)settings->rows * (size_t)settings->columns;
    return settings->basis == QK_BASIS_COMPLEMENT ? 30 : 1;
}

static qk_kind kind_of(const qk_scatter_settings *settings)
{
    return settings->kinds == QK_KINDS_K ? QK_KEY : QK_QUERY;
}

/* What there is instead of heads that are not there. */
static qk_status fail_unknown(const qk__run *run, const qk_scatter_settings *settings,
                              const qk_head_range *range, qk_error *err)
{
    const char *what = kind_of(settings) == QK_QUERY ? "query" : "key";
    char text[QK__HEAD_RANGE_SIZE];
    int layers = 0, last_layer = -1, first = -1, last = 0, heads = 0;
    qk__head_range_text(range, text);
    for (size_t i = 0; i < qk_capture_num_heads(run->capture); i++) {
        qk_head_id id = qk_capture_head(run->capture, i)->id;
        if (id.kind != kind_of(settings))
            continue;
        layers += id.layer != last_layer;
        last_layer = id.layer;
        if (id.layer < range->first_layer || id.layer > range->last_layer)
            continue;
        heads++;
        first = first < 0 || id.head < first ? id.head : first;
        last = id.head > last ? id.head : last;
    }
    if (heads > 0)
        return qk__fail(
            err, QK_ERR_NOT_FOUND,
            "%s: there is no %s head %s; of %d in layers that it names, the numbers go "
            "from %d to %d",
            qk_capture_path(run->capture), what, text, heads, first, last);
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s: there is no %s head %s; %d layers have some, the last is %d",
                    qk_capture_path(run->capture), what, text, layers, last_layer);
}

/* As they were named; those of a range by layer and head, which is how a capture has them. */
static qk_status take_named(const qk__run *run, const qk_scatter_settings *settings,
                            qk_scatter_head **heads, size_t *count, qk_error *err)
{
    const qk_head_set *named = &settings->heads;
    for (int filled = 0; filled < 2; filled++) {
        *count = 0;
        for (size_t i = 0; i < named->count; i++) {
            size_t before = *count;
            for (size_t h = 0; h < qk_capture_num_heads(run->capture); h++) {
                qk_head_id id = qk_capture_head(run->capture, h)->id;
                if (id.kind != kind_of(settings) ||
                    !qk__range_has(&named->items[i], id.layer, id.head))
                    continue;
                if (filled)
                    (*heads)[*count] = (qk_scatter_head){id.layer, id.head};
                ++*count;
            }
            if (*count == before)
                return fail_unknown(run, settings, &named->items[i], err);
        }
        if (*count > MAX_HEADS)
            return qk__fail(err, QK_ERR_ARGUMENT, "%zu heads, more than %d", *count, MAX_HEADS);
        if (!filled && !(*heads = qk__calloc(*count, sizeof **heads)))
            return qk__nomem(err);
    }
    return QK_OK;
}

static int compare_scatter_heads(const void *a, const void *b)
{
    const qk_scatter_head *x = a, *y = b;
    return x->layer != y->layer ? (x->layer > y->layer) - (x->layer < y->layer)
                                : (x->head > y->head) - (x->head < y->head);
}

/* As random.Random(seed).sample draws; then by layer and head, as one reads a model. */
static qk_status take_random(const qk_scatter_settings *settings, const qk__targets *targets,
                             size_t count, qk_scatter_head *list, qk_error *err)
{
    size_t *drawn = qk__calloc(count, sizeof *drawn);
    if (!drawn)
        return qk__nomem(err);
    qk_status status = qk__py_sample(settings->input.seed, targets->count, count, drawn, err);
    for (size_t i = 0; status == QK_OK && i < count; i++) {
        qk_head_id id = targets->ids[drawn[i]];
        list[i] = (qk_scatter_head){id.layer, id.head};
    }
    if (status == QK_OK)
        qsort(list, count, sizeof *list, compare_scatter_heads);
    free(drawn);
    return status;
}

static qk_status take_any(qk__run *run, const qk_scatter_settings *settings,
                          const qk__targets *targets, qk_scatter_head **heads, size_t *count,
                          qk_error *err)
{
    bool complement = settings->basis == QK_BASIS_COMPLEMENT;
    size_t wanted = settings->random > 0 ? (size_t)settings->random
                    : complement         ? 1
                                         : qk__scatter_places(settings);
    if (wanted > targets->count) {
        qk__tell_notice(&run->context,
                        settings->random > 0 ? QK_NOTICE_WARNING : QK_NOTICE_INFO,
                        "%zu heads were asked for, there are %zu", wanted, targets->count);
        wanted = targets->count;
    }
    qk_scatter_head *list = *heads = qk__calloc(wanted, sizeof *list);
    if (!list)
        return qk__nomem(err);
    *count = wanted;
    if (settings->random > 0)
        return take_random(settings, targets, wanted, list, err);
    for (size_t i = 0; i < wanted; i++)
        list[i] = (qk_scatter_head){targets->ids[i].layer, targets->ids[i].head};
    return QK_OK;
}

qk_status qk__scatter_select(qk__run *run, const qk_scatter_settings *settings,
                             qk_scatter_head **heads, size_t *count, qk_error *err)
{
    qk_status status;
    *heads = NULL;
    *count = 0;
    if (settings->heads.count > 0) {
        status = take_named(run, settings, heads, count, err);
    } else {
        qk__targets targets;
        QK_TRY(qk__select_heads(run, settings->kinds == QK_KINDS_K ? QK_KINDS_K : QK_KINDS_Q,
                                &targets, err));
        status = take_any(run, settings, &targets, heads, count, err);
        free(targets.ids);
    }
    if (status != QK_OK) {
        free(*heads);
        *heads = NULL;
    }
    return status;
}
