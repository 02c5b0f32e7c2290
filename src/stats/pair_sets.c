/* SPDX-License-Identifier: Apache-2.0 */
/* Floyd's algorithm draws `limit` of the numbers below `count`: for each of the last `limit`
 * numbers it draws one of those up to it, and takes the number itself where the drawn one is
 * taken already. Unless few of very many are drawn, a field of bits notes which are taken: read
 * from its beginning, it is the sorted answer. */
#include "stats/pair_sets.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/rng.h"
#include "stats/pair_kernel.h"
#include "stats/row_order.h"

enum {
    BLOCK = 1 << 16,    /* numbers drawn at a time; whole words of bits */
    AHEAD = 24,         /* numbers whose word is asked for before it is needed */
    SPARSE = 1024,      /* with fewer than one in so many drawn, a table notes them */
    LEAST_BOUND = 1024, /* what the kernel takes */
};

/* ---- few of many numbers: a table ------------------------------------------------------- */

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

static qk_status draw_sparse(uint64_t *numbers, size_t limit, uint64_t count, qk__rng *rng,
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

/* ---- bits ------------------------------------------------------------------------------- */

/* LANES sets and their generators. What the last numbers (`first` and more) are in is noted aside, in
 * top[], whose words fill one after the other. */
typedef struct drawing {
    uint64_t state[4][LANES];
    uint64_t first[LANES]; /* count - limit */
    uint64_t *bits[LANES], *top[LANES];
    uint32_t *drawn; /* [at most BLOCK + AHEAD][LANES] */
} drawing;

static qk__rng generator(const drawing *d, size_t l)
{
    return (qk__rng){.state = {d->state[0][l], d->state[1][l], d->state[2][l], d->state[3][l]}};
}

static void set_generator(drawing *d, size_t l, const qk__rng *rng)
{
    for (size_t i = 0; i < 4; i++)
        d->state[i][l] = rng->state[i];
}

/* drawn[i][l] = qk__rng_below(first[l] + from + 1 + i). A generator's number is refused only if
 * it is below that bound, which the kernel notices: once in millions of blocks. */
static void draw_block(drawing *d, size_t from, size_t size)
{
    uint64_t before[4][LANES];
    uint32_t bound[LANES];
    bool plain = true;
    memcpy(before, d->state, sizeof before);
    for (size_t l = 0; l < LANES; l++) {
        bound[l] = (uint32_t)(d->first[l] + from + 1);
        plain &= bound[l] >= LEAST_BOUND;
    }
    if (plain && qk__best_pair_kernel()->draw(d->state, bound, size, d->drawn))
        return;
    memcpy(d->state, before, sizeof before);
    for (size_t l = 0; l < LANES; l++) {
        qk__rng rng = generator(d, l);
        for (size_t i = 0; i < size; i++)
            d->drawn[i * LANES + l] = (uint32_t)qk__rng_below(&rng, bound[l] + i);
        set_generator(d, l, &rng);
    }
}

/* Whether a number is in the set that `word` is part of; then it is. */
static uint64_t test_and_set(uint64_t *word, uint64_t number)
{
    uint64_t old = *word;
    *word = old | UINT64_C(1) << (number & 63);
    return old >> (number & 63) & 1;
}

/* Takes what was drawn into a set: number first + from + i where drawn[i] is taken already. */
static void take_block(drawing *d, size_t l, size_t from, size_t size)
{
    const uint32_t *drawn = d->drawn + l;
    uint64_t *bits = d->bits[l], *top = d->top[l], first = d->first[l];
    for (size_t i = 0; i < size; i += 64) {
        size_t n = size - i < 64 ? size - i : 64, word = (from + i) / 64;
        uint64_t pending = 0; /* would wait for memory each time */
        for (size_t k = 0; k < n; k++) {
            uint64_t number = drawn[(i + k) * LANES], taken;
            __builtin_prefetch(&bits[drawn[(i + k + AHEAD) * LANES] >> 6], 1);
            if (number < first)
                taken = test_and_set(&bits[number >> 6], number);
            else if ((number - first) >> 6 == word)
                taken = test_and_set(&pending, number - first);
            else
                taken = test_and_set(&top[(number - first) >> 6], number - first);
            pending |= taken << k;
        }
        top[word] = pending;
    }
}

/* The last numbers to their places. */
static void join_top(drawing *d, size_t l, size_t limit)
{
    uint64_t *to = d->bits[l] + (d->first[l] >> 6), by = d->first[l] & 63;
    for (size_t w = 0; w < (limit + 63) / 64; w++) {
        to[w] |= d->top[l][w] << by;
        to[w + 1] |= d->top[l][w] >> 1 >> (63 - by);
    }
}

/* At most LANES sets. */
static void draw_together(drawing *d, const qk__pair_set *sets, size_t num_sets,
                          size_t num_words, size_t limit, uint64_t seed)
{
    for (size_t l = 0; l < LANES; l++) {
        const qk__pair_set *set =
            &sets[l < num_sets ? l : 0]; /* lanes too many: drawn in vain */
        qk__rng rng;
        qk__rng_init(&rng, seed, set->words, num_words);
        set_generator(d, l, &rng);
        d->first[l] = (uint64_t)set->count - limit;
        d->bits[l] = set->bits;
    }
    for (size_t from = 0; from < limit; from += BLOCK) {
        size_t size = limit - from < BLOCK ? limit - from : BLOCK;
        draw_block(d, from, size);
        for (size_t l = 0; l < num_sets; l++)
            take_block(d, l, from, size);
    }
    for (size_t l = 0; l < num_sets; l++)
        join_top(d, l, limit);
}

qk_status qk__draw_sets(qk__pair_set *sets, size_t num_sets, size_t num_words, size_t limit,
                        uint64_t seed, qk_error *err)
{
    drawing d;
    uint64_t *top;
    size_t size = limit < BLOCK ? limit : BLOCK, words = limit / 64 + 1;
    QK_TRY(QK__CREATE_ARRAYS(err, {&d.drawn, (size + AHEAD) * LANES, sizeof *d.drawn},
                             {&top, words * LANES, sizeof *top}));
    for (size_t l = 0; l < LANES; l++)
        d.top[l] = top + l * words;
    for (size_t i = 0; i < num_sets; i += LANES)
        draw_together(&d, sets + i, num_sets - i < LANES ? num_sets - i : LANES, num_words,
                      limit, seed);
    free(d.drawn);
    free(top);
    return QK_OK;
}

bool qk__set_fits(int64_t count, int64_t limit)
{
    return count < INT32_MAX && count / SPARSE <= limit;
}

size_t qk__set_words(int64_t count)
{
    return (size_t)(count / 64) + 2;
}

/* ---- numbers in order ------------------------------------------------------------------- */

static void list_set(const qk__pair_set *set, uint64_t *numbers)
{
    for (size_t w = 0; w < qk__set_words(set->count); w++)
        for (uint64_t in = set->bits[w]; in != 0; in &= in - 1)
            *numbers++ = w * 64 + (uint64_t)__builtin_ctzll(in);
}

qk_status qk__draw(uint64_t *numbers, size_t limit, uint64_t count, uint64_t seed,
                   const uint64_t *words, size_t num_words, qk_error *err)
{
    if (count > INT64_MAX || !qk__set_fits((int64_t)count, (int64_t)limit)) {
        qk__rng rng;
        qk__rng_init(&rng, seed, words, num_words);
        return draw_sparse(numbers, limit, count, &rng, err);
    }
    qk__pair_set set = {.count = (int64_t)count};
    memcpy(set.words, words, num_words * sizeof *words);
    set.bits = qk__calloc(qk__set_words(set.count), sizeof *set.bits);
    if (!set.bits)
        return qk__nomem(err);
    qk_status status = qk__draw_sets(&set, 1, num_words, limit, seed, err);
    if (status == QK_OK)
        list_set(&set, numbers);
    free(set.bits);
    return status;
}
