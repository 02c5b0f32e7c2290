/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: xoshiro256** (Blackman and Vigna), seeded through SplitMix64. */
#include "base/rng.h"

#include <math.h>

void qk__rng_init(qk__rng *rng, uint64_t seed, const uint64_t *words, size_t count)
{
    uint64_t state = seed;
    for (size_t i = 0; i < count; i++)
        state = qk__splitmix(state) ^ words[i];
    for (size_t i = 0; i < 4; i++, state += QK__MIX_STEP)
        rng->state[i] = qk__splitmix(state);
    rng->has_spare = false;
}

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

uint64_t qk__rng_next(qk__rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double qk__rng_uniform(qk__rng *rng)
{
    return (double)(qk__rng_next(rng) >> 11) * 0x1p-53;
}

uint64_t qk__rng_below(qk__rng *rng, uint64_t n)
{
    /* Numbers below the remainder of 2^64 by n would favour small results. It is less than n,
     * and hardly ever looked for. */
    uint64_t x = qk__rng_next(rng);
    while (x < n && x < (UINT64_MAX - n + 1) % n)
        x = qk__rng_next(rng);
    return x % n;
}

/* Marsaglia's polar method: no sine or cosine, whose last bit differs between libraries. */
double qk__rng_gaussian(qk__rng *rng)
{
    if (rng->has_spare) {
        rng->has_spare = false;
        return rng->spare;
    }
    double u, v, s;
    do {
        u = 2 * qk__rng_uniform(rng) - 1;
        v = 2 * qk__rng_uniform(rng) - 1;
        s = u * u + v * v;
    } while (s >= 1 || s == 0);
    double factor = sqrt(-2 * log(s) / s);
    rng->spare = v * factor;
    rng->has_spare = true;
    return u * factor;
}
