/* SPDX-License-Identifier: Apache-2.0 */
/* Which heads of a capture a run analyses. */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/run.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/py_random.h"
#include "capture/capture.h"
#include "settings/head_set.h"

static bool is_wanted(const qk_analysis_settings *settings, qk_kinds kinds, qk_head_id id)
{
    unsigned bit = id.kind == QK_QUERY ? QK_KINDS_Q : QK_KINDS_K;
    return (kinds & bit) && qk_index_list_has(&settings->layers, id.layer) &&
           qk_head_set_has(&settings->heads, id.layer, id.head);
}

/* By layer, head and the letter of the kind: keys before queries, as in the original tool. */
static int compare_ids(const void *a, const void *b)
{
    const qk_head_id *x = a, *y = b;
    if (x->layer != y->layer || x->head != y->head)
        return qk__head_compare(*x, *y);
    return (x->kind == QK_QUERY) - (y->kind == QK_QUERY);
}

/* Draws as the original tool does: random.Random(seed).sample of the ordered list, put back in order. */
static qk_status sample(const qk_analysis_settings *settings, qk__targets *targets,
                        qk_error *err)
{
    size_t wanted = (size_t)settings->sample_heads;
    if (settings->sample_heads <= 0 || wanted >= targets->count)
        return QK_OK;
    size_t *drawn = qk__calloc(wanted, sizeof *drawn);
    qk_head_id *ids = qk__calloc(wanted, sizeof *ids);
    qk_status status = drawn && ids
                           ? qk__py_sample(settings->seed, targets->count, wanted, drawn, err)
                           : qk__nomem(err);
    if (status == QK_OK) {
        for (size_t i = 0; i < wanted; i++)
            ids[i] = targets->ids[drawn[i]];
        qsort(ids, wanted, sizeof *ids, compare_ids);
        free(targets->ids);
        *targets = (qk__targets){ids, wanted};
        ids = NULL;
    }
    free(drawn);
    free(ids);
    return status;
}

static qk_status no_match(const qk__run *run, qk_kinds kinds, qk_error *err)
{
    int max_layer = 0, max_head = 0;
    for (size_t i = 0; i < qk_capture_num_heads(run->capture); i++) {
        qk_head_id id = qk_capture_head(run->capture, i)->id;
        max_layer = id.layer > max_layer ? id.layer : max_layer;
        max_head = id.head > max_head ? id.head : max_head;
    }
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s: no %s head passes the layer and head filters; the capture has layers "
                    "up to %d and heads up to %d",
                    qk_capture_path(run->capture),
                    kinds == QK_KINDS_Q   ? "query"
                    : kinds == QK_KINDS_K ? "key"
                                          : "query or key",
                    max_layer, max_head);
}

static bool has_any(const qk__run *run, const qk_head_range *range)
{
    for (size_t i = 0; i < qk_capture_num_heads(run->capture); i++) {
        qk_head_id id = qk_capture_head(run->capture, i)->id;
        if (qk__range_has(range, id.layer, id.head))
            return true;
    }
    return false;
}

/* Adds the ranges without a head in the capture; false: no memory. */
static bool add_absent(const qk__run *run, const qk_head_range *range, bool layers,
                       qk__buffer *names)
{
    char text[QK__HEAD_RANGE_SIZE];
    if (has_any(run, range))
        return true;
    if (layers)
        snprintf(text, sizeof text, "%d", range->first_layer);
    else
        qk__head_range_text(range, text);
    return qk__buffer_printf(names, NULL, "%s%s", names->size > 0 ? ", " : "", text) == QK_OK;
}

static void tell_absent(qk__run *run, const char *option, const char *what, qk__buffer *names)
{
    if (names->size > 0)
        qk__run_warn(run, "%s: the capture has no %s %s", option, what,
                     (const char *)names->data);
    qk__buffer_free(names);
}

void qk__tell_absent_heads(qk__run *run)
{
    const qk_index_list *layers = &run->settings->layers;
    const qk_head_set *heads = &run->settings->heads;
    qk__buffer names = {0};
    bool told = true;
    for (size_t i = 0; i < layers->count && told; i++) {
        int layer = layers->items[i];
        told = add_absent(run, &(qk_head_range){layer, layer, 0, QK_MAX_INDEX}, true, &names);
    }
    tell_absent(run, "--layers", "layer", &names);
    for (size_t i = 0; i < heads->count && told; i++) {
        qk_head_range one = heads->items[i];
        bool whole = qk__all_heads(&one); /* told as one range; others number by number */
        int first = one.first_head, last = whole ? first : one.last_head;
        for (int h = first; h <= last && told; h++) {
            if (!whole)
                one.first_head = one.last_head = h;
            told = add_absent(run, &one, false, &names);
        }
    }
    tell_absent(run, "--heads", "head", &names);
}

qk_status qk__select_heads(const qk__run *run, qk_kinds kinds, qk__targets *targets,
                           qk_error *err)
{
    size_t heads = qk_capture_num_heads(run->capture);
    *targets = (qk__targets){.ids = qk__calloc(heads, sizeof *targets->ids)};
    if (!targets->ids)
        return qk__nomem(err);
    for (size_t i = 0; i < heads; i++) {
        const qk_head *head = qk_capture_head(run->capture, i);
        qk_head_id id = head->id;
        if (head->missing && run->settings->allow_missing)
            continue;
        if (is_wanted(run->settings, kinds, id))
            targets->ids[targets->count++] = id;
    }
    if (targets->count > 0)
        qsort(targets->ids, targets->count, sizeof *targets->ids, compare_ids);
    qk_status status =
        targets->count > 0 ? sample(run->settings, targets, err) : no_match(run, kinds, err);
    if (status != QK_OK) {
        free(targets->ids);
        *targets = (qk__targets){0};
    }
    return status;
}

const qk_head *qk__find_keys(const qk__run *run, int layer, int q_head, qk_head_id *id)
{
    *id = (qk_head_id){layer, q_head / run->results->group.size, QK_KEY};
    const qk_head *head = qk_capture_find(run->capture, *id);
    return head && !head->missing ? head : NULL;
}
