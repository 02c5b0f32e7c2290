/* SPDX-License-Identifier: Apache-2.0 */
/* torch.rand and torch.randperm over the Mersenne Twister. */
#include "base/torch_random.h"

void qk__torch_seed(qk__twister *generator, uint64_t seed)
{
    qk__twister_seed(generator, (uint32_t)seed);
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
