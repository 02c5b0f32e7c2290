/* SPDX-License-Identifier: Apache-2.0 */
/* Floyd's algorithm: of the numbers below `count`, for each of the last `limit` one drawn from
 * those up to it, or itself where that one is taken. Where not too many numbers stand behind
 * one that is drawn, who is taken is a field of bits, which is also the sorted answer. */
#include "stats/pair_sets.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/rng.h"
#include "stats/pair_kernel.h"
#include "stats/row_order.h"

enum {
    BLOCK = 512,        /* numbers drawn at a time */
    SPARSE = 64,        /* numbers behind one that is drawn: more go to a table */
    LEAST_BOUND = 1024, /* what the kernel takes */
};

/* ---- few of many numbers: a table -------------------------------------------------------- */

/* Puts value + 1 into the table of a power of two places unless it is there. */
static bool insert(uint64_t *table, uint64_t mask, uint64_t value)
{
    uint64_t at = value * UINT64_C(0x9e3779b97f4a7c15);
    for (at = (at ^ at >> 32) & mask; table[at] != 0; at = (at + 1) & mask)
        if (table[at] == value + 1)
            return false;
    table[at] = value + 1;
    return true;
}

static qk_status draw_sparse(uint64_t *numbers, size_t limit, uint64_t count, qk_rng *rng,
                             qk_error *err)
{
    size_t size = 16;
    while (size < 2 * limit && size <= SIZE_MAX / 4)
        size *= 2;
    uint64_t *table = qk__calloc(size, sizeof *table);
    if (!table)
        return qk__nomem(err);
    for (size_t i = 0; i < limit; i++) {
        uint64_t last = count - limit + i, number = qk__rng_below(rng, last + 1);
        if (!insert(table, size - 1, number)) {
            number = last;
            insert(table, size - 1, number);
        }
        numbers[i] = number;
    }
    qk__sort_u64(numbers, limit, table); /* the table has room, and has done its work */
    free(table);
    return QK_OK;
}

/* ---- bits -------------------------------------------------------------------------------- */

/* out[i] = qk__rng_below(rng, bound + i), i < size <= BLOCK. A number is refused only if it is
 * below the bound: once in 2^32 blocks and less. */
static void draw_block(qk_rng *rng, uint64_t bound, size_t size, uint32_t *out)
{
    uint64_t raw[BLOCK];
    qk_rng before = *rng;
    bool plain = bound >= LEAST_BOUND;
    qk__rng_fill(rng, raw, size);
    for (size_t i = 0; i < size; i++)
        plain &= raw[i] >= bound + size;
    if (plain) {
        qk__pair_kernel()->remainders(raw, (uint32_t)bound, size, out);
        return;
    }
    *rng = before;
    for (size_t i = 0; i < size; i++)
        out[i] = (uint32_t)qk__rng_below(rng, bound + i);
}

/* bits: zero. The places of `last` fill word by word: what they add to theirs is kept aside
 * until the next, since it would wait for memory each time. */
static void draw_bits(uint64_t *bits, size_t limit, uint64_t count, qk_rng *rng)
{
    uint32_t drawn[BLOCK];
    uint64_t first = count - limit, word = first >> 6, pending = 0;
    for (size_t from = 0; from < limit; from += BLOCK) {
        size_t size = limit - from < BLOCK ? limit - from : BLOCK;
        draw_block(rng, first + from + 1, size, drawn);
        for (size_t i = 0; i < size; i++) {
            uint64_t last = first + from + i, at = drawn[i] >> 6;
            if (last >> 6 != word) {
                bits[word] |= pending;
                word = last >> 6;
                pending = 0;
            }
            uint64_t old = bits[at] | (at == word ? pending : 0);
            uint64_t taken = old >> (drawn[i] & 63) & 1;
            bits[at] = old | UINT64_C(1) << (drawn[i] & 63);
            pending |= taken << (last & 63);
        }
    }
    bits[word] |= pending;
}

bool qk__pair_set_fits(int64_t count, int64_t limit)
{
    return count < INT32_MAX && count / SPARSE <= limit;
}

static size_t words_of(uint64_t count)
{
    return (size_t)(count / 64) + 2;
}

static void list_bits(const uint64_t *bits, size_t words, uint64_t *numbers)
{
    for (size_t w = 0; w < words; w++)
        for (uint64_t in = bits[w]; in != 0; in &= in - 1)
            *numbers++ = w * 64 + (uint64_t)__builtin_ctzll(in);
}

qk_status qk__draw(uint64_t *numbers, size_t limit, uint64_t count, uint64_t seed,
                   const uint64_t *words, size_t num_words, qk_error *err)
{
    qk_rng rng;
    qk__rng_init(&rng, seed, words, num_words);
    if (count > INT64_MAX || !qk__pair_set_fits((int64_t)count, (int64_t)limit))
        return draw_sparse(numbers, limit, count, &rng, err);
    uint64_t *bits = qk__calloc(words_of(count), sizeof *bits);
    if (!bits)
        return qk__nomem(err);
    draw_bits(bits, limit, count, &rng);
    list_bits(bits, words_of(count), numbers);
    free(bits);
    return QK_OK;
}

/* ---- sets -------------------------------------------------------------------------------- */

size_t qk__pair_set_bytes(int64_t count)
{
    return words_of((uint64_t)count) * sizeof(uint64_t);
}

/* The place of a bucket, or where it belongs; buckets ascend. */
static size_t find(const qk_pair_sets *sets, int64_t bucket)
{
    size_t low = 0, high = sets->num;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sets->set[middle].bucket < bucket)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static qk_status make_place(qk_pair_sets *sets, size_t at, int64_t bucket, qk_error *err)
{
    if (sets->num == sets->capacity) {
        size_t capacity = 2 * sets->capacity + 16;
        qk_pair_set *more = realloc(sets->set, capacity * sizeof *more);
        if (!more)
            return qk__nomem(err);
        sets->set = more;
        sets->capacity = capacity;
    }
    memmove(sets->set + at + 1, sets->set + at, (sets->num - at) * sizeof *sets->set);
    sets->set[at] = (qk_pair_set){.bucket = bucket};
    sets->num++;
    return QK_OK;
}

qk_status qk__pair_sets_draw(qk_pair_sets *sets, int64_t bucket, int64_t count, int64_t limit,
                             uint64_t seed, const uint64_t stream[2], const uint64_t **bits,
                             qk_error *err)
{
    size_t at = find(sets, bucket);
    if (at == sets->num || sets->set[at].bucket != bucket)
        QK_TRY(make_place(sets, at, bucket, err));
    qk_pair_set *set = &sets->set[at];
    if (!set->bits || set->count != count) {
        free(set->bits);
        set->bits = qk__calloc(words_of((uint64_t)count), sizeof *set->bits);
        set->count = count;
        if (!set->bits)
            return qk__nomem(err);
        const uint64_t words[] = {stream[0], stream[1], (uint64_t)bucket};
        qk_rng rng;
        qk__rng_init(&rng, seed, words, 3);
        draw_bits(set->bits, (size_t)limit, (uint64_t)count, &rng);
    }
    *bits = set->bits;
    return QK_OK;
}

void qk__pair_sets_clear(qk_pair_sets *sets)
{
    for (size_t i = 0; i < sets->num; i++)
        free(sets->set[i].bits);
    free(sets->set);
    *sets = (qk_pair_sets){0};
}
