/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding levels and values, as the writer puts them into pages. */
#include "parquet/encoders.h"

#include <stdbool.h>
#include <string.h>

#include "base/bit_width.h"
#include "base/error.h"
#include "parquet/bits.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "values are copied as they lie in memory: Parquet wants little-endian"
#endif

enum {
    GROUP = 8, /* values that the hybrid packs together */

    DELTA_BLOCK = 128,
    DELTA_MINIBLOCKS = 4,
    DELTA_MINI = DELTA_BLOCK / DELTA_MINIBLOCKS,
    DELTA_BLOCK_BYTES = 10 + DELTA_MINIBLOCKS + 8 * DELTA_BLOCK, /* the most it can take */
};

static qk_status append_varint(qk__buffer *out, uint64_t value, qk_error *err)
{
    uint8_t bytes[10];
    return qk__buffer_append(out, bytes, qk__varint_put(bytes, value), err);
}

qk_status qk__encode_run(qk__buffer *out, uint16_t value, size_t count, int bit_width,
                         qk_error *err)
{
    uint8_t bytes[2] = {(uint8_t)value, (uint8_t)(value >> 8)};
    QK_TRY(append_varint(out, (uint64_t)count << 1, err));
    return qk__buffer_append(out, bytes, bit_width > 8 ? 2 : 1, err);
}

static uint64_t pack_four(const uint16_t *v, int width)
{
    return (uint64_t)v[0] | (uint64_t)v[1] << width | (uint64_t)v[2] << 2 * width |
           (uint64_t)v[3] << 3 * width;
}

/* Eight values of `width` bits are `width` bytes. out has room for 16. */
static void pack_group(uint8_t *out, const uint16_t *v, int width)
{
    uint64_t low = pack_four(v, width);
    uint64_t high = pack_four(v + 4, width);
    uint64_t words[2] = {low, high};
    if (width < 16) {
        words[0] = low | high << 4 * width;
        words[1] = high >> (64 - 4 * width);
    }
    memcpy(out, words, sizeof words);
}

static size_t run_length(const uint16_t *values, size_t count)
{
    size_t n = 1;
    while (n < count && values[n] == values[0])
        n++;
    return n;
}

/* Number of values, in whole groups unless they are the last, up to the next run worth
 * encoding as one. */
static size_t literal_length(const uint16_t *values, size_t count)
{
    size_t n = 0;
    while (count - n >= GROUP && run_length(values + n, GROUP) < GROUP)
        n += GROUP;
    return count - n < GROUP ? count : n;
}

static qk_status append_literals(qk__buffer *out, const uint16_t *values, size_t count,
                                 int width, qk_error *err)
{
    size_t groups = (count + GROUP - 1) / GROUP;
    QK_TRY(append_varint(out, (uint64_t)groups << 1 | 1, err));
    /* The last group is stored 16 bytes wide; what is beyond its width is overwritten or
     * left outside size. */
    QK_TRY(qk__buffer_reserve(out, out->size + groups * (size_t)width + 16, err));
    uint8_t *next = out->data + out->size;
    for (size_t g = 0; g < count / GROUP; g++, next += width)
        pack_group(next, values + g * GROUP, width);
    if (count % GROUP != 0) {
        uint16_t last[GROUP] = {0};
        memcpy(last, values + count - count % GROUP, count % GROUP * sizeof *last);
        pack_group(next, last, width);
    }
    out->size += groups * (size_t)width;
    return QK_OK;
}

qk_status qk__encode_hybrid(qk__buffer *out, const uint16_t *values, size_t count,
                            int bit_width, qk_error *err)
{
    for (size_t i = 0; i < count;) {
        size_t literals = literal_length(values + i, count - i);
        if (literals > 0)
            QK_TRY(append_literals(out, values + i, literals, bit_width, err));
        i += literals;
        if (i == count)
            break;
        size_t run = run_length(values + i, count - i);
        QK_TRY(qk__encode_run(out, values[i], run, bit_width, err));
        i += run;
    }
    return QK_OK;
}

qk_status qk__encode_split(qk__buffer *out, const uint8_t *values, size_t count, qk_error *err)
{
    QK_TRY(qk__buffer_reserve(out, out->size + 4 * count, err));
    uint8_t *restrict plane = out->data + out->size;
    for (size_t i = 0; i < count; i++) {
        plane[i] = values[4 * i];
        plane[count + i] = values[4 * i + 1];
        plane[2 * count + i] = values[4 * i + 2];
        plane[3 * count + i] = values[4 * i + 3];
    }
    out->size += 4 * count;
    return QK_OK;
}

/* Differences wrap around in the width of the column, as the format demands. */
static int64_t difference(int64_t a, int64_t b, size_t value_size)
{
    uint64_t delta = (uint64_t)a - (uint64_t)b;
    return value_size == 8 ? (int64_t)delta : (int64_t)(int32_t)(uint32_t)delta;
}

static size_t pack_mini(uint8_t *out, const uint64_t *deltas, int width)
{
    size_t size = (size_t)width * DELTA_MINI / 8;
    memset(out, 0, size);
    size_t bit = 0;
    for (size_t i = 0; i < DELTA_MINI; i++)
        for (int done = 0; done < width;) {
            int shift = (int)(bit % 8);
            int bits = 8 - shift < width - done ? 8 - shift : width - done;
            uint64_t part = deltas[i] >> done & ((1u << bits) - 1);
            out[bit / 8] |= (uint8_t)(part << shift);
            bit += (size_t)bits;
            done += bits;
        }
    return size;
}

/* One block: the smallest difference, a width for each miniblock, then the differences
 * above the smallest. Returns its size. */
static size_t put_block(uint8_t *out, const int64_t *deltas, size_t count)
{
    uint64_t excess[DELTA_BLOCK] = {0};
    int64_t smallest = deltas[0];
    for (size_t i = 1; i < count; i++)
        smallest = deltas[i] < smallest ? deltas[i] : smallest;
    for (size_t i = 0; i < count; i++)
        excess[i] = (uint64_t)deltas[i] - (uint64_t)smallest;
    size_t n = qk__varint_put(out, qk__zigzag(smallest));
    uint8_t *widths = out + n;
    n += DELTA_MINIBLOCKS;
    for (size_t m = 0; m < DELTA_MINIBLOCKS; m++) {
        uint64_t all = 0;
        for (size_t i = 0; i < DELTA_MINI; i++)
            all |= excess[m * DELTA_MINI + i];
        int width = (int)qk__bit_width(all);
        widths[m] = (uint8_t)width;
        if (m * DELTA_MINI < count) /* miniblocks beyond the last value have no bytes */
            n += pack_mini(out + n, excess + m * DELTA_MINI, width);
    }
    return n;
}

qk_status qk__encode_delta(qk__buffer *out, const uint8_t *values, size_t count,
                           size_t value_size, qk_error *err)
{
    QK_TRY(append_varint(out, DELTA_BLOCK, err));
    QK_TRY(append_varint(out, DELTA_MINIBLOCKS, err));
    QK_TRY(append_varint(out, count, err));
    int64_t first = count ? qk__load_integer(values, 0, value_size) : 0;
    QK_TRY(append_varint(out, qk__zigzag(first), err));
    int64_t deltas[DELTA_BLOCK];
    for (size_t i = 1; i < count;) {
        size_t n = count - i < DELTA_BLOCK ? count - i : DELTA_BLOCK;
        for (size_t j = 0; j < n; j++)
            deltas[j] = difference(qk__load_integer(values, i + j, value_size),
                                   qk__load_integer(values, i + j - 1, value_size), value_size);
        QK_TRY(qk__buffer_reserve(out, out->size + DELTA_BLOCK_BYTES, err));
        out->size += put_block(out->data + out->size, deltas, n);
        i += n;
    }
    return QK_OK;
}
