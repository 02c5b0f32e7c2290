/* SPDX-License-Identifier: Apache-2.0 */
/* The draws of PyTorch's generator on the CPU, so that a published selection can be repeated. */
#ifndef QK_BASE_TORCH_RANDOM_H
#define QK_BASE_TORCH_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/twister.h"

/* torch.Generator().manual_seed(seed). Only the low 32 bits reach the state. */
void qk__torch_seed(qk__twister *generator, uint64_t seed);

/* The next element of torch.rand(..., dtype=float32), times 2^24: a whole number below 2^24. */
uint32_t qk__torch_uniform(qk__twister *generator);

/* The first `drawn` < n elements of values[torch.randperm(n)], to the front of values, n below
 * QK__TORCH_PERMUTATION_LIMIT: from there on PyTorch draws 64 bits a step. */
#define QK__TORCH_PERMUTATION_LIMIT (UINT32_MAX / 20)
void qk__torch_permute(qk__twister *generator, int64_t *values, size_t n, size_t drawn);

#endif
