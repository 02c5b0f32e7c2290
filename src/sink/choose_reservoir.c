/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows a reservoir keeps: of a text's positions in one bucket those with the smallest hash. The hash depends on
 * text, kind and position alone: so the choice depends neither on order nor on what else is captured, and all heads
 * keep the same rows. */
#include <stdlib.h>

#include "base/error.h"
#include "base/rng.h"
#include "sink/sink.h"

typedef struct ticket {
    uint64_t hash;
    size_t place; /* in the part's list */
} ticket;

static int compare_tickets(const void *a, const void *b)
{
    const ticket *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

qk_status qk__choose_reservoir(const qk_sink *sink, int64_t example_id, qk_kind kind,
                               qk__part *part, qk_error *err)
{
    const uint64_t text = qk__splitmix(sink->settings.reservoir_seed + (uint64_t)example_id);
    const uint64_t seed = qk__splitmix(text + (uint64_t)kind);
    size_t wanted = (size_t)sink->settings.keep.reservoir;
    for (size_t i = 0; i < part->count; i++)
        part->kept[i].row = -1;
    part->stored = 0;
    ticket *tickets = wanted > 0 ? qk__calloc(part->count, sizeof *tickets) : NULL;
    if (!tickets)
        return wanted > 0 && part->count > 0 ? qk__nomem(err) : QK_OK;
    for (size_t begin = 0, end; begin < part->count; begin = end) {
        int64_t bucket = qk_sampler_bucket(&sink->settings.sampler, part->kept[begin].position);
        for (end = begin;
             end < part->count &&
             qk_sampler_bucket(&sink->settings.sampler, part->kept[end].position) == bucket;
             end++)
            tickets[end - begin] =
                (ticket){qk__splitmix(seed + (uint64_t)part->kept[end].position), end};
        qsort(tickets, end - begin, sizeof *tickets, compare_tickets);
        for (size_t i = 0; i < wanted && i < end - begin; i++)
            part->kept[tickets[i].place].row = 0; /* chosen */
    }
    for (size_t i = 0; i < part->count; i++)
        if (part->kept[i].row == 0)
            part->kept[i].row = (int64_t)part->stored++;
    free(tickets);
    return QK_OK;
}
