/* SPDX-License-Identifier: Apache-2.0 */
/* PCG64 (O'Neill 2014) as NumPy seeds it, and its choice without replacement. */
#include "base/numpy_random.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

__extension__ typedef unsigned __int128 wide;

/* ---- seeding: NumPy's SeedSequence ------------------------------------------------------ */

enum { POOL = 4, STATE_WORDS = 8 };

/* One step of the hash, whose constant changes with every call. */
static uint32_t hash(uint32_t value, uint32_t *constant, uint32_t factor)
{
    value ^= *constant;
    *constant *= factor;
    value *= *constant;
    return value ^ (value >> 16);
}

static uint32_t mix(uint32_t x, uint32_t y)
{
    uint32_t result = 0xca01f9ddu * x - 0x4973f715u * y;
    return result ^ (result >> 16);
}

static void seed_words(uint64_t seed, uint32_t words[STATE_WORDS])
{
    const uint32_t entropy[POOL] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t pool[POOL], constant = 0x43b0d7e5u;
    for (int i = 0; i < POOL; i++)
        pool[i] = hash(entropy[i], &constant, 0x931e8875u);
    for (int from = 0; from < POOL; from++)
        for (int to = 0; to < POOL; to++)
            if (from != to)
                pool[to] = mix(pool[to], hash(pool[from], &constant, 0x931e8875u));
    constant = 0x8b51f9ddu;
    for (int i = 0; i < STATE_WORDS; i++)
        words[i] = hash(pool[i % POOL], &constant, 0x58f38dedu);
}

/* ---- the generator ---------------------------------------------------------------------- */

typedef struct pcg64 {
    wide state, increment;
    uint32_t kept; /* the upper half of the last number, which the next draw of 32 bits takes */
    bool has_kept;
} pcg64;

static void step(pcg64 *g)
{
    const wide factor = (wide)2549297995355413924u << 64 | 4865540595714422341u;
    g->state = g->state * factor + g->increment;
}

/* Four words as one number of 128 bits: the upper half first, but its low word before the
 * high. */
static wide join_words(const uint32_t *words)
{
    uint64_t high = words[0] | (uint64_t)words[1] << 32;
    uint64_t low = words[2] | (uint64_t)words[3] << 32;
    return (wide)high << 64 | low;
}

static void start_generator(pcg64 *g, uint64_t seed)
{
    uint32_t words[STATE_WORDS];
    seed_words(seed, words);
    *g = (pcg64){.increment = join_words(words + 4) << 1 | 1};
    step(g);
    g->state += join_words(words);
    step(g);
}

static uint32_t draw_word(pcg64 *g)
{
    if (g->has_kept) {
        g->has_kept = false;
        return g->kept;
    }
    step(g);
    uint64_t folded = (uint64_t)(g->state >> 64) ^ (uint64_t)g->state;
    unsigned turn = (unsigned)(g->state >> 122);
    uint64_t number = folded >> turn | folded << (-turn & 63);
    g->kept = (uint32_t)(number >> 32);
    g->has_kept = true;
    return (uint32_t)number;
}

/* A number from 0 to most, each alike (Lemire 2019). */
static uint32_t draw_to(pcg64 *g, uint32_t most)
{
    uint32_t count = most + 1;
    if (most == 0)
        return 0;
    if (count == 0)
        return draw_word(g);
    uint64_t product = (uint64_t)draw_word(g) * count;
    if ((uint32_t)product < count)
        for (uint32_t least = -count % count; (uint32_t)product < least;)
            product = (uint64_t)draw_word(g) * count;
    return (uint32_t)(product >> 32);
}

/* ---- choice ----------------------------------------------------------------------------- */

/* The last k places of a shuffle that begins at the end. */
static qk_status shuffle(pcg64 *g, size_t n, size_t k, bool *chosen, qk_error *err)
{
    uint32_t *order = qk__calloc(n, sizeof *order);
    if (!order)
        return qk__nomem(err);
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    size_t first = n - k > 1 ? n - k : 1;
    for (size_t i = n - 1; i >= first; i--) {
        uint32_t other = draw_to(g, (uint32_t)i), last = order[i];
        order[i] = order[other];
        order[other] = last;
    }
    for (size_t i = n - k; i < n; i++)
        chosen[order[i]] = true;
    free(order);
    return QK_OK;
}

qk_status qk__numpy_choice(int64_t seed, size_t n, size_t k, bool *chosen, qk_error *err)
{
    pcg64 g;
    if (n >= UINT32_MAX)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "drawing from %zu rows", n);
    memset(chosen, k >= n, n * sizeof *chosen);
    if (k >= n)
        return QK_OK;
    start_generator(&g, (uint64_t)seed);
    /* The way that NumPy takes for the faster one; the two draw different numbers. */
    if (n > 10000 && k > n / 50)
        return shuffle(&g, n, k, chosen, err);
    for (size_t i = n - k; i < n; i++) { /* Floyd's sampling */
        uint32_t number = draw_to(&g, (uint32_t)i);
        chosen[chosen[number] ? i : number] = true;
    }
    return QK_OK;
}
