/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bfloat16 numbers with sums in float32, for processors with AVX512_BF16.
 *
 * Its instruction adds two products at once, so numbers that are added lie in pairs: a word has
 * the first in its lower half and the second in its upper. A panel (panel_kernel.h) is paired by
 * features, for what a matrix multiplies,
 *
 *     features 0 and 1: token 0 .. 31
 *     features 2 and 3: token 0 .. 31
 *     ...
 *
 * or by lanes, for values that attention weighs: a feature's tokens 0 and 1, 2 and 3, ... Both
 * are made in place, and take the first half of it. */
#ifndef QK_PREFILL_BF16_KERNEL_H
#define QK_PREFILL_BF16_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A product of one tile is as in panel_kernel.h, with words for numbers: length, steps and k
 * count words, and of a word the product of the second numbers is added first. */
typedef struct qk__bf16_kernel {
    /* a(r, k) = a[r * row_step + k], and so on for further parts. */
    void (*rows)(const float *a, size_t row_step, size_t length, size_t parts, size_t part_step,
                 const float *b, bool add, float *y);

    /* a(r, k) = a[k * QK_LANES + r]; the sums are multiplied by scale. */
    void (*columns)(const float *a, size_t length, const float *b, float scale, float *y);

    /* qk__round_values, sooner. */
    void (*round)(float *x, size_t n);
    /* Rounds to the nearest, ties to even, and pairs by features; of an odd number, the last with
     * zeros. */
    void (*pair_features)(float *panel, size_t features);
    /* The same by lanes: n numbers that lie side by side, even. */
    void (*pair_lanes)(float *values, size_t n);
} qk__bf16_kernel;

/* NULL: this processor has no instruction for it. */
const qk__bf16_kernel *qk__find_bf16_kernel(void);

extern const qk__bf16_kernel qk__bf16_avx512;

#endif
