/* SPDX-License-Identifier: Apache-2.0 */
/* Which shard computes which unit. Every process works it out for itself, from names and sizes
 * alone. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "units/units.h"

typedef struct place {
    const qk__unit_size *unit;
    size_t index;
} place;

static int by_size(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->unit->bytes != y->unit->bytes)
        return x->unit->bytes > y->unit->bytes ? -1 : 1;
    return strcmp(x->unit->name, y->unit->name);
}

/* The shard with the least so far. One with nothing comes first, so no more than there are units
 * can be it. */
static size_t least_loaded(const double *load, size_t shards)
{
    size_t least = 0;
    for (size_t s = 1; s < shards; s++)
        if (load[s] < load[least])
            least = s;
    return least;
}

qk_status qk__share_units(const qk__unit_size *units, size_t count, int64_t shards,
                          int64_t *owner, qk_error *err)
{
    if (count == 0)
        return QK_OK;
    size_t used = (uint64_t)shards < count ? (size_t)shards : count;
    place *order = qk__calloc(count, sizeof *order);
    double *load = qk__calloc(used, sizeof *load);
    qk_status status = order && load ? QK_OK : qk__nomem(err);
    if (status == QK_OK) {
        for (size_t i = 0; i < count; i++)
            order[i] = (place){&units[i], i};
        qsort(order, count, sizeof *order, by_size);
        for (size_t i = 0; i < count; i++) {
            size_t shard = least_loaded(load, used);
            /* an empty unit is some work, too */
            load[shard] += (double)(order[i].unit->bytes > 1 ? order[i].unit->bytes : 1);
            owner[order[i].index] = (int64_t)shard;
        }
    }
    free(order);
    free(load);
    return status;
}

void qk__share_alike(int64_t count, const qk_shard *shard, int64_t *first, int64_t *end)
{
    double share = (double)count / (double)shard->count;
    *first = shard->index == 0 ? 0 : (int64_t)(share * (double)shard->index);
    *end = shard->index + 1 == shard->count ? count
                                            : (int64_t)(share * (double)(shard->index + 1));
}
