/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bfloat16 numbers with sums in float32, as AVX512_BF16 has them, to the same bits on every
 * processor.
 *
 * That instruction adds two products at once: that of the second numbers of two pairs, then that of the
 * first, each fused, and what is smaller than 2^-126 is 0, products' operands included. So numbers whose
 * products are added lie in pairs. Where there is the instruction a pair is a word, the first in its
 * lower half, and what is paired takes half of its room. A panel (panel_kernel.h) is paired by
 * features, for what a matrix multiplies,
 *
 *     features 0 and 1: token 0 .. 31
 *     features 2 and 3: token 0 .. 31
 *     ...
 *
 * or by lanes, for values that attention weighs: a feature's tokens 0 and 1, 2 and 3, ... Elsewhere
 * numbers stay where they are, as rounded floats. */
#ifndef QK_PREFILL_BF16_KERNEL_H
#define QK_PREFILL_BF16_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/simd.h"

/* A product of one tile is as in panel_kernel.h. length counts numbers; steps are in floats of the
 * panels or words. */
typedef struct qk__bf16_kernel {
    bool words; /* pairs are words */

    /* a(r, k) = a[r * row_step + k], and so on for further parts; k counts words, if they are. */
    void (*rows)(const float *a, size_t row_step, size_t length, size_t parts, size_t part_step,
                 const float *b, bool add, float *y);

    /* a(r, k) = a[k * QK_LANES + r]; the sums are multiplied by scale. */
    void (*columns)(const float *a, size_t length, const float *b, float scale, float *y);

    /* qk__round_values, sooner. */
    void (*round)(float *x, size_t n);
    /* Rounds to the nearest, ties to even, and pairs by features; the last of an odd number has a
     * zero beside it. `to` is the panel itself, or begins before it, or is another. */
    void (*pair_features)(const float *panel, size_t features, float *to);
    /* The same by lanes, in place: n numbers that lie side by side. */
    void (*pair_lanes)(float *values, size_t n);
} qk__bf16_kernel;

/* Rows, or floats, that n paired numbers take; kernel may be NULL: that many. */
static inline size_t qk__paired(const qk__bf16_kernel *kernel, size_t n)
{
    return kernel && kernel->words ? (n + 1) / 2 : n;
}

/* Fastest kernel for this processor. */
const qk__bf16_kernel *qk__best_bf16_kernel(void);

/* By instruction set. */
extern const qk__bf16_kernel *const qk__bf16_kernels[QK_NUM_SIMD];
extern const qk__bf16_kernel qk__bf16_portable;
extern const qk__bf16_kernel qk__bf16_avx2;
extern const qk__bf16_kernel qk__bf16_avx512;
extern const qk__bf16_kernel qk__bf16_neon;
extern const qk__bf16_kernel qk__bf16_words; /* with AVX512_BF16 */

#endif
