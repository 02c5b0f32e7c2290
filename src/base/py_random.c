/* SPDX-License-Identifier: Apache-2.0 */
/* CPython's random.sample over the Mersenne Twister, seeded by array as CPython seeds from an
 * integer. */
#include "base/py_random.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/bit_width.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/twister.h"

/* The low word is drawn first; the last one gives its upper bits. 1 <= bits <= 64. */
static uint64_t draw_bits(qk__twister *t, int bits)
{
    if (bits <= 32)
        return qk__twister_draw(t) >> (32 - bits);
    uint64_t low = qk__twister_draw(t);
    return low | (uint64_t)(qk__twister_draw(t) >> (64 - bits)) << 32;
}

/* Below n >= 1, by rejection. The bit length is that of n itself, so a power of two
 * rejects every other draw. */
static uint64_t draw_below(qk__twister *t, uint64_t n)
{
    int bits = (int)qk__bit_width(n);
    uint64_t r;
    do
        r = draw_bits(t, bits);
    while (r >= n);
    return r;
}

/* Draws from a shrinking list of what is left. */
static qk_status sample_pool(qk__twister *t, size_t n, size_t k, size_t *out, qk_error *err)
{
    size_t *pool = qk__calloc(n, sizeof *pool);
    if (!pool)
        return qk__nomem(err);
    for (size_t i = 0; i < n; i++)
        pool[i] = i;
    for (size_t i = 0; i < k; i++) {
        size_t j = (size_t)draw_below(t, n - i);
        out[i] = pool[j];
        pool[j] = pool[n - i - 1];
    }
    free(pool);
    return QK_OK;
}

/* Adds value to an open-addressing table of slots (value + 1; 0 = free) unless it is
 * there; the table is never more than half full. */
static bool insert(size_t *slots, size_t mask, size_t value)
{
    size_t at = (size_t)((uint64_t)value * 0x9e3779b97f4a7c15u >> 20) & mask;
    for (; slots[at] != 0; at = (at + 1) & mask)
        if (slots[at] == value + 1)
            return false;
    slots[at] = value + 1;
    return true;
}

/* Draws from all numbers; a number that was drawn before is drawn again. */
static qk_status sample_set(qk__twister *t, size_t n, size_t k, size_t *out, qk_error *err)
{
    size_t size = 16;
    while (size / 2 < k && size <= SIZE_MAX / 2)
        size *= 2;
    size_t *slots = qk__calloc(size, sizeof *slots);
    if (!slots)
        return qk__nomem(err);
    for (size_t i = 0; i < k; i++) {
        do
            out[i] = (size_t)draw_below(t, n);
        while (!insert(slots, size - 1, out[i]));
    }
    free(slots);
    return QK_OK;
}

qk_status qk__py_sample(int64_t seed, size_t n, size_t k, size_t *out, qk_error *err)
{
    if (k > n)
        return qk__fail(err, QK_ERR_ARGUMENT, "cannot draw %zu of %zu", k, n);
    if (k == 0)
        return QK_OK;
    uint64_t magnitude = seed < 0 ? 0 - (uint64_t)seed : (uint64_t)seed;
    uint32_t key[2] = {(uint32_t)magnitude, (uint32_t)(magnitude >> 32)};
    qk__twister t;
    qk__twister_seed_by_array(&t, key, key[1] ? 2 : 1);
    /* Which of the two ways is taken decides what is drawn: the rule is CPython's. */
    double pool_limit = 21;
    if (k > 5)
        pool_limit += pow(4, ceil(log((double)k * 3) / log(4)));
    return (double)n <= pool_limit ? sample_pool(&t, n, k, out, err)
                                   : sample_set(&t, n, k, out, err);
}
