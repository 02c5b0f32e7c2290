/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers for drawing and subsampling: xoshiro256**, seeded through
 * SplitMix64. Streams that differ in any word of their name are independent, so that what
 * a head gets does not depend on which thread serves it. */
#ifndef QK_BASE_RNG_H
#define QK_BASE_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
