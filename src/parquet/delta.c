/* SPDX-License-Identifier: Apache-2.0 */
/* Reading integers stored as differences, block by block. */
#include "parquet/delta.h"

#include <string.h>

#include "parquet/bits.h"

static bool take_value(qk__delta *delta, uint64_t *value)
{
    return qk__varint_take(&delta->next, delta->end, 64, value);
}

static bool take_signed(qk__delta *delta, uint64_t *value)
{
    bool taken = take_value(delta, value);
    *value = (uint64_t)qk__unzigzag(*value);
    return taken;
}

bool qk__delta_init(qk__delta *delta, const uint8_t *data, size_t size)
{
    *delta = (qk__delta){.next = data, .end = data + size, .first = true};
    uint64_t block, miniblocks, total;
    if (!take_value(delta, &block) || !take_value(delta, &miniblocks) ||
        !take_value(delta, &total) || !take_signed(delta, &delta->last) || miniblocks == 0 ||
        block == 0 || block > UINT32_MAX || block % miniblocks != 0 ||
        block / miniblocks % QK_DELTA_BATCH != 0 || total > UINT32_MAX)
        return false;
    delta->total = delta->left = (size_t)total;
    delta->miniblocks = (size_t)miniblocks;
    delta->miniblock_values = (size_t)(block / miniblocks);
    delta->miniblock = delta->miniblocks;
    return true;
}

static bool start_block(qk__delta *delta)
{
    if (!take_signed(delta, &delta->min_delta) ||
        (size_t)(delta->end - delta->next) < delta->miniblocks)
        return false;
    delta->widths = delta->next;
    delta->next += delta->miniblocks;
    delta->miniblock = 0;
    return true;
}

/* `width` bits from bit number `bit` of a span. */
static uint64_t take_bits(const uint8_t *data, size_t size, size_t bit, unsigned width)
{
    uint64_t low = 0;
    size_t byte = bit / 8;
    unsigned shift = bit % 8;
    if (byte >= size)
        return 0;
    memcpy(&low, data + byte, size - byte < 8 ? size - byte : 8);
    low >>= shift;
    if (shift + width > 64 && size - byte > 8)
        low |= (uint64_t)data[byte + 8] << (64 - shift);
    return width == 64 ? low : low & ((UINT64_C(1) << width) - 1);
}

/* Unpacks the next differences. */
static bool fill_batch(qk__delta *delta)
{
    if (delta->in_miniblock == 0) {
        if (delta->miniblock == delta->miniblocks && !start_block(delta))
            return false;
        delta->miniblock++;
        delta->in_miniblock = delta->miniblock_values;
    }
    unsigned width = delta->widths[delta->miniblock - 1];
    if (width > 64)
        return false;
    /* Some writers cut the padding after the last value. */
    size_t bytes = (size_t)QK_DELTA_BATCH / 8 * width;
    size_t rest = (size_t)(delta->end - delta->next);
    size_t wanted = delta->left < QK_DELTA_BATCH ? delta->left : QK_DELTA_BATCH;
    if (rest < (wanted * width + 7) / 8)
        return false;
    size_t size = bytes < rest ? bytes : rest;
    for (size_t i = 0; i < wanted; i++)
        delta->batch[i] = take_bits(delta->next, size, i * width, width) + delta->min_delta;
    delta->next += size;
    delta->in_miniblock -= QK_DELTA_BATCH;
    delta->batch_next = 0;
    delta->batch_size = wanted;
    return true;
}

size_t qk__delta_read(qk__delta *delta, uint64_t *out, size_t n)
{
    size_t done = 0;
    if (n > 0 && delta->left > 0 && delta->first) {
        out[done++] = delta->last;
        delta->left--;
        delta->first = false;
    }
    while (done < n && delta->left > 0) {
        if (delta->batch_next == delta->batch_size && !fill_batch(delta))
            break;
        delta->last += delta->batch[delta->batch_next++];
        out[done++] = delta->last;
        delta->left--;
    }
    return done;
}

const uint8_t *qk__delta_end(const qk__delta *delta)
{
    qk__delta walk = *delta;
    size_t left = walk.total > 0 ? walk.total - 1 : 0;
    while (left > 0) {
        if (!start_block(&walk))
            return NULL;
        for (size_t i = 0; i < walk.miniblocks && left > 0; i++) {
            size_t width = walk.widths[i];
            size_t rest = (size_t)(walk.end - walk.next);
            size_t groups = walk.miniblock_values / 8;
            if (width > 64 || (width > 0 && groups > rest / width))
                return NULL;
            walk.next += groups * width;
            left -= left < walk.miniblock_values ? left : walk.miniblock_values;
        }
    }
    return walk.next;
}
