/* SPDX-License-Identifier: Apache-2.0 */
/* Which heads a scatter shows: named ones, random ones, or the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/py_random.h"
#include "scatter/scatter.h"
#include "settings/index_list.h"

enum { MAX_HEADS = 4096 };

/* A whole number up to stop at *text, which is moved behind stop (or to the end, where stop is
 * a comma). */
static bool take_head_number(const char **text, char stop, int *number)
{
    const char *p = *text;
    int value = 0;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = 10 * value + (*p - '0');
        if (value > QK_MAX_INDEX)
            return false;
    }
    if (*p != stop && !(stop == ',' && *p == 0))
        return false;
    *text = *p ? p + 1 : p;
    *number = value;
    return *p != ',' || p[1] != 0;
}

qk_status qk_scatter_heads_parse(const char *text, qk_scatter_head **heads, size_t *count,
                                 qk_error *err)
{
    QK_NEED(err, heads);
    *heads = NULL;
    QK_NEED(err, count, text);
    *count = 0;
    size_t most = 1;
    for (const char *p = text; *p; p++)
        most += *p == ',';
    qk_scatter_head *list = most <= MAX_HEADS ? qk__calloc(most, sizeof *list) : NULL;
    if (!list)
        return most > MAX_HEADS
                   ? qk__fail(err, QK_ERR_ARGUMENT, "more than %d heads", MAX_HEADS)
                   : qk__nomem(err);
    size_t found = 0;
    const char *p = text;
    do {
        qk_scatter_head head;
        if (!take_head_number(&p, ':', &head.layer) || !take_head_number(&p, ',', &head.head)) {
            free(list);
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "'%.60s': expected heads as LAYER:HEAD, e.g. 5:13,1:8", text);
        }
        list[found++] = head;
    } while (*p);
    *heads = list;
    *count = found;
    return QK_OK;
}

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

/* What there is instead of a head that is not there. */
static qk_status fail_unknown(const qk__run *run, const qk_scatter_settings *settings,
                              qk_scatter_head head, qk_error *err)
{
    const char *what = kind_of(settings) == QK_QUERY ? "query" : "key";
    int layers = 0, last_layer = -1, first = 0, last = 0, heads = 0;
    for (size_t i = 0; i < qk_capture_num_heads(run->capture); i++) {
        qk_head_id id = qk_capture_head(run->capture, i)->id;
        if (id.kind != kind_of(settings))
            continue;
        layers += id.layer != last_layer;
        last_layer = id.layer;
        if (id.layer != head.layer)
            continue;
        first = heads++ > 0 ? first : id.head;
        last = id.head;
    }
    if (heads > 0)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: there is no %s head %d in layer %d, which has %d of them, from %d "
                        "to %d",
                        qk_capture_path(run->capture), what, head.head, head.layer, heads,
                        first, last);
    return qk__fail(
        err, QK_ERR_NOT_FOUND,
        "%s: there are no %s heads in layer %d; %d layers have some, the last is %d",
        qk_capture_path(run->capture), what, head.layer, layers, last_layer);
}

static qk_status take_named(const qk__run *run, const qk_scatter_settings *settings,
                            qk_scatter_head **heads, qk_error *err)
{
    qk_scatter_head *list = *heads = qk__calloc(settings->num_heads, sizeof *list);
    if (!list)
        return qk__nomem(err);
    for (size_t i = 0; i < settings->num_heads; i++) {
        list[i] = settings->heads[i];
        qk_head_id id = {list[i].layer, list[i].head, kind_of(settings)};
        if (!qk_capture_find(run->capture, id))
            return fail_unknown(run, settings, list[i], err);
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
    *count = settings->num_heads;
    if (settings->num_heads > 0) {
        status = take_named(run, settings, heads, err);
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
