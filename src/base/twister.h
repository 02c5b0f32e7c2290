/* SPDX-License-Identifier: Apache-2.0 */
/* The Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), from which Python and PyTorch
 * draw, and the draws of PyTorch on the CPU: a published selection can so be repeated. */
#ifndef QK_BASE_TWISTER_H
#define QK_BASE_TWISTER_H

#include <stddef.h>
#include <stdint.h>

enum { QK__TWISTER_SIZE = 624 };

typedef struct qk__twister {
    uint32_t state[QK__TWISTER_SIZE];
    int next;
} qk__twister;

/* From one number, as torch.Generator().manual_seed does with the low 32 bits, and from
 * `length` >= 1 numbers (at most QK__TWISTER_SIZE), as Python does. */
void qk__twister_seed(qk__twister *twister, uint32_t seed);
void qk__twister_seed_by_array(qk__twister *twister, const uint32_t *key, uint32_t length);

uint32_t qk__twister_draw(qk__twister *twister);

/* The next element of torch.rand(..., dtype=float32), times 2^24: a whole number below 2^24. */
uint32_t qk__torch_uniform(qk__twister *generator);

/* The first `drawn` < n elements of values[torch.randperm(n)], to the front of values, n below
 * QK__TORCH_PERMUTATION_LIMIT: from there on PyTorch draws 64 bits a step. */
#define QK__TORCH_PERMUTATION_LIMIT (UINT32_MAX / 20)
void qk__torch_permute(qk__twister *generator, int64_t *values, size_t n, size_t drawn);

#endif
