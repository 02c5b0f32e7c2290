/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which texts are run, and the texts of a block. With sums of groups of texts the order is group by
 * group, so that a block has only the sums of its own groups; else it is that of their numbers. */
#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "sink/sink.h"
#include "stats/text_groups.h"

typedef struct entry {
    uint64_t group;
    int64_t number;
} entry;

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static qk_status find_mask(qk_sink *sink, qk_error *err)
{
    const qk_sink_settings *s = &sink->settings;
    qk__text_groups groups;
    qk__text_groups_start(&groups, (uint32_t)s->keep.groups);
    qk_status status = qk__text_groups_add(&groups, s->text_ids, (size_t)s->num_texts, err);
    sink->group_bits = groups.mask;
    qk__text_groups_free(&groups);
    return status;
}

static qk_status sort_texts(qk_sink *sink, qk_error *err)
{
    const size_t count = (size_t)sink->settings.num_texts;
    entry *entries = qk__calloc(count, sizeof *entries);
    sink->order = qk__calloc(count, 2 * sizeof *sink->order);
    if (!entries || !sink->order) {
        free(entries);
        return qk__nomem(err);
    }
    sink->places = sink->order + count;
    for (size_t i = 0; i < count; i++)
        entries[i] =
            (entry){(uint64_t)sink->settings.text_ids[i] & sink->group_bits, (int64_t)i};
    qsort(entries, count, sizeof *entries, compare_entries);
    for (size_t i = 0; i < count; i++) {
        sink->order[i] = entries[i].number;
        sink->places[entries[i].number] = (int64_t)i;
    }
    free(entries);
    return QK_OK;
}

qk_status qk__order_texts(qk_sink *sink, qk_error *err)
{
    const qk_sink_settings *s = &sink->settings;
    sink->group_bits = UINT64_MAX;
    if (s->text_ids)
        qk__fingerprint_bytes(s->text_ids, (size_t)s->num_texts * sizeof *s->text_ids,
                              sink->ids_hash);
    if (!s->text_ids || s->num_texts == 0 || !qk__keeps_sums(sink) || s->keep.groups == 0)
        return QK_OK;
    QK_TRY(find_mask(sink, err));
    return sort_texts(sink, err);
}

/* ---- what is asked ---------------------------------------------------------------------- */

int64_t qk_sink_block(const qk_sink *sink, int64_t number)
{
    assert(sink);
    return number < 0 || number >= sink->settings.num_texts
               ? -1
               : qk__place_of(sink, number) / sink->block_texts;
}

bool qk_sink_wants(const qk_sink *sink, int64_t number)
{
    int64_t block = qk_sink_block(sink, number);
    return block >= 0 && !sink->complete && qk__is_own(block, &sink->settings.shard) &&
           !sink->there[block];
}

int64_t qk_sink_next(const qk_sink *sink, int64_t number)
{
    const bool first = number < 0;
    if (!first && qk_sink_block(sink, number) < 0)
        return -1;
    for (int64_t place = first ? 0 : qk__place_of(sink, number) + 1;
         place < sink->settings.num_texts; place++)
        if (qk_sink_wants(sink, qk__text_at(sink, place)))
            return qk__text_at(sink, place);
    return -1;
}
