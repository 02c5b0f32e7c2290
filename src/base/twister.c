/* SPDX-License-Identifier: Apache-2.0 */
/* MT19937 with its two ways of seeding; torch.rand and torch.randperm. */
#include "base/twister.h"

enum { N = QK__TWISTER_SIZE, M = 397 };

void qk__twister_seed(qk__twister *twister, uint32_t seed)
{
    uint32_t last = seed;
    for (uint32_t i = 0; i < N; i++) {
        twister->state[i] = last;
        last = 1812433253u * (last ^ (last >> 30)) + i + 1;
    }
    twister->next = N;
}

void qk__twister_seed_by_array(qk__twister *twister, const uint32_t *key, uint32_t length)
{
    qk__twister_seed(twister, 19650218u);
    uint32_t *s = twister->state;
    uint32_t i = 1;
    uint32_t j = 0;
    for (int round = 0; round < N; round++) { /* the key is not longer than the state */
        s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1664525u)) + key[j] + j;
        j = (j + 1) % length;
        if (++i == N) {
            s[0] = s[N - 1];
            i = 1;
        }
    }
    for (int round = 0; round < N - 1; round++) {
        s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1566083941u)) - i;
        if (++i == N) {
            s[0] = s[N - 1];
            i = 1;
        }
    }
    s[0] = 0x80000000u;
}

static void refill(qk__twister *twister)
{
    uint32_t *s = twister->state;
    for (int i = 0; i < N; i++) {
        uint32_t y = (s[i] & 0x80000000u) | (s[(i + 1) % N] & 0x7fffffffu);
        s[i] = s[(i + M) % N] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    twister->next = 0;
}

uint32_t qk__twister_draw(qk__twister *twister)
{
    if (twister->next == N)
        refill(twister);
    uint32_t y = twister->state[twister->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint32_t qk__torch_uniform(qk__twister *generator)
{
    return qk__twister_draw(generator) & 0xffffff; /* a float32 has 24 bits */
}

void qk__torch_permute(qk__twister *generator, int64_t *values, size_t n, size_t drawn)
{
    for (size_t i = 0; i < drawn; i++) {
        size_t j = i + qk__twister_draw(generator) % (uint32_t)(n - i);
        int64_t value = values[i];
        values[i] = values[j];
        values[j] = value;
    }
}
