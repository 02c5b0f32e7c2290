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
    BLOCK = 256,        /* numbers drawn at a time */
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

/* LANES sets and their generators. */
typedef struct drawing {
    uint64_t state[4][LANES];
    uint64_t first[LANES]; /* count - limit */
    uint64_t *bits[LANES];
    uint64_t word[LANES], pending[LANES];
    uint32_t drawn[BLOCK * LANES];
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

/* Takes what was drawn into a set. The places of `last` fill word by word: what they add to
 * theirs is kept aside until the next, since it would wait for memory each time. */
static void take_block(drawing *d, size_t l, size_t from, size_t size)
{
    uint64_t *bits = d->bits[l], word = d->word[l], pending = d->pending[l];
    for (size_t i = 0; i < size; i++) {
        uint64_t number = d->drawn[i * LANES + l], at = number >> 6;
        uint64_t last = d->first[l] + from + i;
        if (last >> 6 != word) {
            bits[word] |= pending;
            word = last >> 6;
            pending = 0;
        }
        uint64_t old = bits[at] | (at == word ? pending : 0);
        uint64_t taken = old >> (number & 63) & 1;
        bits[at] = old | UINT64_C(1) << (number & 63);
        pending |= taken << (last & 63);
    }
    d->word[l] = word;
    d->pending[l] = pending;
}

/* At most LANES sets. */
static void draw_together(const qk__pair_set *sets, size_t num_sets, size_t num_words,
                          size_t limit, uint64_t seed)
{
    drawing d;
    for (size_t l = 0; l < LANES; l++) {
        const qk__pair_set *set =
            &sets[l < num_sets ? l : 0]; /* lanes too many: drawn in vain */
        qk__rng rng;
        qk__rng_init(&rng, seed, set->words, num_words);
        set_generator(&d, l, &rng);
        d.first[l] = (uint64_t)set->count - limit;
        d.bits[l] = set->bits;
        d.word[l] = d.first[l] >> 6;
        d.pending[l] = 0;
    }
    for (size_t from = 0; from < limit; from += BLOCK) {
        size_t size = limit - from < BLOCK ? limit - from : BLOCK;
        draw_block(&d, from, size);
        for (size_t l = 0; l < num_sets; l++)
            take_block(&d, l, from, size);
    }
    for (size_t l = 0; l < num_sets; l++)
        d.bits[l][d.word[l]] |= d.pending[l];
}

void qk__draw_sets(qk__pair_set *sets, size_t num_sets, size_t num_words, size_t limit,
                   uint64_t seed)
{
    for (size_t i = 0; i < num_sets; i += LANES)
        draw_together(sets + i, num_sets - i < LANES ? num_sets - i : LANES, num_words, limit,
                      seed);
}

bool qk__set_fits(int64_t count, int64_t limit)
{
    return count < INT32_MAX && count / SPARSE <= limit;
}

size_t qk__set_words(int64_t count)
{
    return (size_t)(count / 64) + 2;
}

/* ---- sets that are kept ------------------------------------------------------------------ */

void qk__set_store_free(qk__set_store *store)
{
    free(store->set);
    free(store->bits);
    *store = (qk__set_store){0};
}

static const uint64_t *find_set(const qk__set_store *store, const qk__pair_set *want)
{
    for (size_t i = 0; i < store->num; i++)
        if (store->set[i].count == want->count &&
            memcmp(store->set[i].words, want->words, sizeof want->words) == 0)
            return store->set[i].bits;
    return NULL;
}

static bool find_sets(const qk__set_store *store, const qk__pair_set *want, size_t num,
                      const uint64_t **bits)
{
    bool all = true;
    for (size_t i = 0; i < num; i++) {
        bits[i] = find_set(store, &want[i]);
        all &= bits[i] != NULL;
    }
    return all;
}

qk_status qk__set_store_take(qk__set_store *store, const qk__pair_set *want, size_t num,
                             size_t limit, uint64_t seed, const uint64_t **bits, qk_error *err)
{
    size_t words = 0;
    if (find_sets(store, want, num, bits))
        return QK_OK;
    qk__set_store_free(store);
    for (size_t i = 0; i < num; i++)
        words += qk__set_words(want[i].count);
    QK_TRY(QK__CREATE_ARRAYS(err, {&store->set, num, sizeof *store->set},
                             {&store->bits, words, sizeof *store->bits}));
    memcpy(store->set, want, num * sizeof *want);
    store->num = num;
    uint64_t *next = store->bits;
    for (size_t i = 0; i < num; i++) {
        store->set[i].bits = next;
        next += qk__set_words(want[i].count);
    }
    qk__draw_sets(store->set, num, 3, limit, seed);
    find_sets(store, want, num, bits);
    return QK_OK;
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
    qk__draw_sets(&set, 1, num_words, limit, seed);
    list_set(&set, numbers);
    free(set.bits);
    return QK_OK;
}
