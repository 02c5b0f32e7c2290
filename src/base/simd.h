/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction sets the kernels may use. */
#ifndef QK_BASE_SIMD_H
#define QK_BASE_SIMD_H

#include <stdbool.h>
#include <stddef.h>

/* Kernels come for three of them, in this order; the first is C alone and always there. */
enum { QK_PORTABLE, QK_AVX2, QK_AVX512, QK_NUM_SIMD };

/* How many of them this build and this processor have. */
size_t qk__simd_count(void);

/* Whether it multiplies bfloat16 numbers (AVX512_BF16). */
bool qk__simd_has_bf16(void);

#endif
