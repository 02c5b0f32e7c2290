/* SPDX-License-Identifier: Apache-2.0 */
/* Reading runs, of one value or bit-packed, and comparing them with what they should be. */
#include "parquet/rle.h"

#include <string.h>

#include "parquet/bits.h"

/* A bit-packed run is a whole number of groups of this many values. */
enum { GROUP = 8 };

void qk__rle_init(qk__rle *rle, const uint8_t *data, size_t size, unsigned width)
{
    *rle = (qk__rle){.next = data, .end = data + size, .width = width};
}

static void start_packed(qk__rle *rle, size_t groups)
{
    size_t rest = (size_t)(rle->end - rle->next);
    rle->packed = true;
    rle->index = 0;
    rle->bits = rle->next;
    if (rle->width > 0 && groups > rest / rle->width) {
        /* Some writers cut the padding of the last group. */
        rle->bits_size = rest;
        rle->left = rest * 8 / rle->width;
    } else {
        rle->bits_size = groups * rle->width;
        rle->left = groups * GROUP;
    }
    rle->next += rle->bits_size;
}

static bool start_repeated(qk__rle *rle, size_t count)
{
    size_t bytes = (rle->width + 7) / 8;
    if (bytes > (size_t)(rle->end - rle->next))
        return false;
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint32_t)rle->next[i] << (8 * i);
    rle->next += bytes;
    rle->packed = false;
    rle->index = 0;
    rle->value = value;
    rle->left = count;
    return true;
}

bool qk__rle_run(qk__rle *rle)
{
    while (rle->left == 0) {
        uint64_t head; /* the low bit tells the kind of run, the rest its length */
        if (!qk__varint_take(&rle->next, rle->end, 35, &head) || head > UINT32_MAX)
            return false;
        if (head & 1)
            start_packed(rle, (size_t)head >> 1);
        else if (!start_repeated(rle, (size_t)head >> 1))
            return false;
    }
    return true;
}

/* At least 57 of the bits that follow bit number `bit`; zeros beyond the end. */
static uint64_t load_bits(const qk__rle *rle, size_t bit)
{
    uint64_t word = 0;
    size_t byte = bit / 8;
    if (rle->bits_size - byte >= 8)
        memcpy(&word, rle->bits + byte, 8);
    else
        memcpy(&word, rle->bits + byte, rle->bits_size - byte);
    return word >> (bit % 8);
}

uint32_t qk__rle_packed_value(const qk__rle *rle, size_t ahead)
{
    uint64_t mask = (UINT64_C(1) << rle->width) - 1;
    size_t bit = (rle->index + ahead) * rle->width;
    return rle->width == 0 ? 0 : (uint32_t)(load_bits(rle, bit) & mask);
}

size_t qk__rle_read_u8(qk__rle *rle, uint8_t *out, size_t n)
{
    size_t done = 0;
    while (done < n && qk__rle_run(rle)) {
        size_t take = rle->left < n - done ? rle->left : n - done;
        if (rle->packed)
            for (size_t i = 0; i < take; i++)
                out[done + i] = (uint8_t)qk__rle_packed_value(rle, i);
        else
            memset(out + done, (int)(rle->value & 0xff), take);
        qk__rle_advance(rle, take);
        done += take;
    }
    return done;
}

/* Values of the packed run, up to n, that equal `value`. Whole words are compared with the
 * value written over and over; one word holds `per_word` values. */
static size_t match_packed(const qk__rle *rle, uint32_t value, size_t n)
{
    if (rle->width == 0)
        return value == 0 ? n : 0;
    size_t per_word = 57 / rle->width;
    uint64_t pattern = 0;
    for (size_t i = 0; i < per_word; i++)
        pattern |= (uint64_t)value << (i * rle->width);
    for (size_t done = 0; done < n; done += per_word) {
        size_t take = per_word < n - done ? per_word : n - done;
        uint64_t differ = load_bits(rle, (rle->index + done) * rle->width) ^ pattern;
        differ &= (UINT64_C(1) << (take * rle->width)) - 1;
        if (differ)
            return done + (size_t)__builtin_ctzll(differ) / rle->width;
    }
    return n;
}

size_t qk__rle_match(qk__rle *rle, uint32_t value, size_t n)
{
    size_t done = 0;
    while (done < n && qk__rle_run(rle)) {
        size_t take = rle->left < n - done ? rle->left : n - done;
        size_t same =
            rle->packed ? match_packed(rle, value, take) : (rle->value == value ? take : 0);
        qk__rle_advance(rle, same);
        done += same;
        if (same < take)
            break;
    }
    return done;
}

/* As match_packed, but the values must spell rows: see qk__rle_match_rows. */
static size_t match_rows_packed(const qk__rle *rle, size_t row, size_t *ones, size_t n)
{
    const size_t per_word = 56;
    size_t zero = *ones; /* place of the next 0, counted from the current word */
    for (size_t done = 0; done < n; done += per_word) {
        size_t take = per_word < n - done ? per_word : n - done;
        uint64_t mask = (UINT64_C(1) << take) - 1;
        uint64_t pattern = mask;
        for (; zero < take; zero += row)
            pattern &= ~(UINT64_C(1) << zero);
        uint64_t differ = (load_bits(rle, rle->index + done) ^ pattern) & mask;
        if (differ)
            return done + (size_t)__builtin_ctzll(differ);
        zero -= take;
    }
    *ones = zero;
    return n;
}

/* The same where the run repeats one value. */
static size_t match_rows_repeated(const qk__rle *rle, size_t row, size_t *ones, size_t n)
{
    if (rle->value == 1) {
        size_t same = n < *ones ? n : *ones;
        *ones -= same;
        return same;
    }
    if (rle->value != 0 || *ones > 0)
        return 0;
    if (row == 1)
        return n;
    *ones = row - 1;
    return 1;
}

size_t qk__rle_match_rows(qk__rle *rle, size_t row, size_t *ones, size_t n)
{
    size_t done = 0;
    while (done < n && qk__rle_run(rle)) {
        size_t take = rle->left < n - done ? rle->left : n - done;
        size_t same = rle->packed ? match_rows_packed(rle, row, ones, take)
                                  : match_rows_repeated(rle, row, ones, take);
        qk__rle_advance(rle, same);
        done += same;
        /* A repeated 0 may be followed by more zeros only if the row has one value. */
        if (same == 0 || (same < take && rle->packed))
            break;
    }
    return done;
}
