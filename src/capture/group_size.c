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

/* Whether every layer of the set has the heads 0 .. max, none missing. */
static bool is_whole(const head_set *set)
{
    size_t heads = set->max < 0 ? 0 : (size_t)set->max + 1;
    if (heads == 0)
        return false;
    for (size_t i = 0; i < set->count; i++)
        if ((size_t)set->items[i].head != i % heads ||
            set->items[i].layer != set->items[i - i % heads].layer)
            return false;
    return set->count % heads == 0;
}

/* Whether the key head of every query head is there. Unless all key heads were captured, each is there because some
 * query head needed it. Both lists are sorted and run in step. */
static bool fits(const head_set *q, const head_set *k, bool whole, int size)
{
    size_t j = 0;
    bool needed = whole; /* key head j */
    for (size_t i = 0; i < q->count; i++) {
        qk_head_id key = {q->items[i].layer, q->items[i].head / size, QK_KEY};
        for (; j < k->count && qk__head_compare(k->items[j], key) < 0; j++, needed = whole)
            if (!needed)
                return false;
        if (j == k->count || qk__head_compare(k->items[j], key) != 0)
            return false;
        needed = true;
    }
    return whole || (needed && j + 1 == k->count);
}

static bool pair_alike(const head_set *q, int size, int other)
{
    for (size_t i = 0; i < q->count; i++)
        if (q->items[i].head / size != q->items[i].head / other)
            return false;
    return true;
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
    bool whole = is_whole(k);
    int q_heads = q->max + 1, k_heads = k->max + 1, seen = 0;
    /* apparently the heads of the whole model */
    bool all = whole && is_whole(q) && k_heads > 0 && q_heads % k_heads == 0;
    int first = all ? q_heads / k_heads : 1, last = all ? first : q_heads;
    for (int size = first; size <= last; size++) {
        if (!fits(q, k, whole, size) || (seen > 0 && pair_alike(q, seen, size)))
            continue;
        seen = size;
        group->num_consistent++;
        if (group->size == 0)
            group->size = size;
        if (pair_alike(q, group->size, size))
            group->consistent = true;
        else if (group->alternative == 0)
            group->alternative = size;
    }
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
