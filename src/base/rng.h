/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers for drawing and subsampling: xoshiro256**, seeded through
 * SplitMix64. Streams that differ in any word of their name are independent, so that what
 * a head gets does not depend on which thread serves it. */
#ifndef QK_BASE_RNG_H
#define QK_BASE_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SplitMix64 (Steele, Lea and Flood 2014): its finaliser, and a value's hash, which is one step of it. */
#define QK__MIX_STEP UINT64_C(0x9e3779b97f4a7c15)
static inline uint64_t qk__mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}
static inline uint64_t qk__splitmix(uint64_t x)
{
    return qk__mix(x + QK__MIX_STEP);
}

typedef struct qk__rng {
    uint64_t state[4];
    double spare; /* second number of the last Gaussian pair */
    bool has_spare;
} qk__rng;

/* Starts the stream named by seed and `count` further words. */
void qk__rng_init(qk__rng *rng, uint64_t seed, const uint64_t *words, size_t count);

uint64_t qk__rng_next(qk__rng *rng);

/* Uniform in [0, 1), 53 bits. */
double qk__rng_uniform(qk__rng *rng);

/* Uniform in 0 .. n-1, without bias; n > 0. */
uint64_t qk__rng_below(qk__rng *rng, uint64_t n);

/* Standard normal. */
double qk__rng_gaussian(qk__rng *rng);

#endif
