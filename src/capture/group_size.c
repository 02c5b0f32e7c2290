/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped-query attention: how many query heads share a key head. */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "capture/capture.h"

/* The heads of one kind, sorted by layer and head, and their largest head number. */
typedef struct head_set {
    qk_head_id *items;
    size_t count;
    int max;
} head_set;

static qk_status collect(const qk_capture *capture, qk_kind kind, head_set *set, qk_error *err)
{
    *set = (head_set){.max = -1};
    set->items = qk__calloc(capture->num_entries, sizeof *set->items);
    if (!set->items)
        return qk__nomem(err);
    for (size_t i = 0; i < capture->num_entries; i++) {
        qk_head_id id = capture->entries[i].head.id;
        if (id.kind != kind)
            continue;
        set->items[set->count++] = id;
        if (id.head > set->max)
            set->max = id.head;
    }
    return QK_OK;
}

/* In every layer, {q / size} equals the set of key heads: key heads were captured because
 * some query head needed them. Both lists run in step, as both are sorted. */
static bool keys_follow_queries(const head_set *q, const head_set *k, int size)
{
    size_t j = 0;
    for (size_t i = 0; i < q->count; i++) {
        int layer = q->items[i].layer;
        int key = q->items[i].head / size;
        bool same = j > 0 && k->items[j - 1].layer == layer && k->items[j - 1].head == key;
        if (same)
            continue;
        if (j == k->count || k->items[j].layer != layer || k->items[j].head != key)
            return false;
        j++;
    }
    return j == k->count;
}

/* Whether every layer has the key heads 0 .. max, none missing. */
static bool keys_are_whole(const head_set *q, const head_set *k)
{
    size_t i = 0;
    for (size_t j = 0; j < k->count;) {
        int layer = k->items[j].layer;
        for (int head = 0; head <= k->max; head++, j++)
            if (j == k->count || k->items[j].layer != layer || k->items[j].head != head)
                return false;
        if (i < q->count && q->items[i].layer < layer)
            return false; /* a layer of queries alone */
        while (i < q->count && q->items[i].layer == layer)
            i++;
    }
    return i == q->count;
}

static qk_status settle_group(const head_set *q, const head_set *k, int given, int manifest,
                              qk_group *group, qk_error *err)
{
    *group = (qk_group){
        .size = given > 0 ? given : manifest,
        .source = given > 0      ? QK_GROUP_GIVEN
                  : manifest > 0 ? QK_GROUP_MANIFEST
                                 : QK_GROUP_INFERRED,
    };
    bool whole = keys_are_whole(q, k);
    for (int size = 1; size <= q->max + 1; size++) {
        /* Both forms need the largest query head to fall to the largest key head; with
         * whole key heads that is the other form's entire condition, as no query head
         * then falls beyond them. */
        if (q->max / size != k->max || !(whole || keys_follow_queries(q, k, size)))
            continue;
        group->num_consistent++;
        if (group->size == 0)
            group->size = size;
        if (group->size == size)
            group->consistent = true;
        else if (group->alternative == 0)
            group->alternative = size;
    }
    /* Sizes above max + 1 give every query head the key head 0, as max + 1 does. */
    if (group->size > q->max + 1 && q->max / group->size == k->max)
        group->consistent = whole || keys_follow_queries(q, k, group->size);
    if (group->size == 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "no group size fits the %zu query and %zu key heads present (query "
                        "heads up to %d, key heads up to %d): are head folders missing? Give "
                        "it with --q-per-kv-group",
                        q->count, k->count, q->max, k->max);
    return QK_OK;
}

qk_status qk_capture_group(const qk_capture *capture, int given, qk_group *group, qk_error *err)
{
    QK_NEED(err, capture, group);
    if (given < 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "group size %d: expected a positive number",
                        given);
    head_set q = {0};
    head_set k = {0};
    qk_status status = collect(capture, QK_QUERY, &q, err);
    if (status == QK_OK)
        status = collect(capture, QK_KEY, &k, err);
    if (status == QK_OK && (q.count == 0 || k.count == 0))
        status = qk__fail(err, QK_ERR_NOT_FOUND, "%s: no %s heads", capture->path,
                          q.count == 0 ? "query" : "key");
    else if (status == QK_OK)
        status = settle_group(&q, &k, given, capture->info.q_per_kv_group, group, err);
    if (status == QK_ERR_INCONSISTENT)
        qk__context(err, status, "%s", capture->path);
    free(q.items);
    free(k.items);
    return status;
}
