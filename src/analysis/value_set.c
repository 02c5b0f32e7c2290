/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of integers: lists that are sorted and lose their repeats whenever they have doubled. So memory follows the
 * number of different values. */
#include "analysis/value_set.h"

#include <stdlib.h>

#include "base/error.h"

enum { FIRST_CAPACITY = 256 };

static int compare_values(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void settle_set(qk__value_set *set)
{
    if (set->count > 1)
        qsort(set->items, set->count, sizeof *set->items, compare_values);
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++)
        if (kept == 0 || set->items[i] != set->items[kept - 1])
            set->items[kept++] = set->items[i];
    set->count = set->settled = kept;
}

static qk_status make_room(qk__value_set *set, qk_error *err)
{
    settle_set(set);
    if (set->capacity > 0 && set->count <= set->capacity / 2)
        return QK_OK;
    size_t capacity = set->capacity ? set->capacity * 2 : FIRST_CAPACITY;
    int64_t *items = realloc(set->items, capacity * sizeof *items);
    if (!items)
        return qk__nomem(err);
    set->items = items;
    set->capacity = capacity;
    return QK_OK;
}

qk_status qk__value_set_add(qk__value_set *set, const int64_t *values, size_t count,
                            qk_error *err)
{
    for (size_t i = 0; i < count; i++) {
        /* Rows of one example or bucket are mostly neighbours. */
        if (set->count > set->settled && set->items[set->count - 1] == values[i])
            continue;
        if (set->count == set->capacity)
            QK_TRY(make_room(set, err));
        set->items[set->count++] = values[i];
    }
    return QK_OK;
}

void qk__value_set_take(qk__value_set *set, qk_values *values)
{
    settle_set(set);
    *values = (qk_values){set->items, set->count};
    *set = (qk__value_set){0};
}

void qk__value_set_free(qk__value_set *set)
{
    free(set->items);
    *set = (qk__value_set){0};
}
