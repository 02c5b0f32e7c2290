/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting rows by their digits from the last one on (radix sort): a few passes over the rows,
 * fewer where the keys lie close together, and none where rows come in order. */
#include "stats/row_order.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/* Where each digit's share of the output begins. */
static void counts_to_starts(size_t counts[DIGITS])
{
    size_t at = 0;
    for (size_t i = 0; i < DIGITS; i++) {
        size_t count = counts[i];
        counts[i] = at;
        at += count;
    }
}

static bool in_order(const uint32_t *order, size_t count, const int64_t *const *keys,
                     size_t num_keys)
{
    for (size_t i = 1; i < count; i++)
        for (size_t k = 0; k < num_keys; k++) {
            int64_t before = keys[k][order[i - 1]], here = keys[k][order[i]];
            if (before > here)
                return false;
            if (before < here)
                break;
        }
    return true;
}

/* Sorts by one key, whose values are taken as distances from the smallest: no sign, and no
 * more digits than they differ in. */
static void sort_by(uint32_t **order, uint32_t **scratch, size_t count, const int64_t *key)
{
    int64_t least = key[(*order)[0]], most = least;
    for (size_t i = 1; i < count; i++) {
        int64_t value = key[(*order)[i]];
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    uint64_t range = (uint64_t)most - (uint64_t)least;
    for (int shift = 0; shift < 64 && range >> shift != 0; shift += DIGIT_BITS) {
        size_t at[DIGITS] = {0};
        for (size_t i = 0; i < count; i++)
            at[((uint64_t)key[(*order)[i]] - (uint64_t)least) >> shift & (DIGITS - 1)]++;
        counts_to_starts(at);
        for (size_t i = 0; i < count; i++) {
            uint32_t row = (*order)[i];
            (*scratch)[at[((uint64_t)key[row] - (uint64_t)least) >> shift & (DIGITS - 1)]++] =
                row;
        }
        uint32_t *swap = *order;
        *order = *scratch;
        *scratch = swap;
    }
}

qk_status qk__order_rows(uint32_t *order, size_t count, const int64_t *const *keys,
                         size_t num_keys, qk_error *err)
{
    if (count == 0 || in_order(order, count, keys, num_keys))
        return QK_OK;
    uint32_t *scratch = qk__calloc(count, sizeof *scratch);
    if (!scratch)
        return qk__nomem(err);
    uint32_t *from = order, *to = scratch;
    for (size_t k = num_keys; k-- > 0;)
        sort_by(&from, &to, count, keys[k]);
    if (from != order)
        memcpy(order, from, count * sizeof *order);
    free(scratch);
    return QK_OK;
}

qk_status qk__rows_in_order(uint32_t **order, size_t count, const int64_t *const *keys,
                            size_t num_keys, qk_error *err)
{
    *order = qk__calloc(count + 1, sizeof **order);
    if (!*order)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++)
        (*order)[i] = (uint32_t)i;
    qk_status status = qk__order_rows(*order, count, keys, num_keys, err);
    if (status != QK_OK) {
        free(*order);
        *order = NULL;
    }
    return status;
}

size_t qk__count_below(const int64_t *numbers, size_t count, int64_t value)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (numbers[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void qk__sort_u64(uint64_t *values, size_t count, uint64_t *scratch)
{
    uint64_t most = 0, *from = values, *to = scratch;
    for (size_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    for (int shift = 0; shift < 64 && most >> shift != 0; shift += DIGIT_BITS) {
        size_t at[DIGITS] = {0};
        for (size_t i = 0; i < count; i++)
            at[from[i] >> shift & (DIGITS - 1)]++;
        counts_to_starts(at);
        for (size_t i = 0; i < count; i++)
            to[at[from[i] >> shift & (DIGITS - 1)]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != values)
        memcpy(values, from, count * sizeof *values);
}
