/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit floating-point numbers as float32: exact, and the same bits from every version.
 * convert.c chooses between convert_avx2.c and convert_portable.c. */
#ifndef QK_MODEL_CONVERT_H
#define QK_MODEL_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include "base/simd.h"

/* source need not be aligned. A signalling NaN of F16 becomes a quiet one, as the processor's
 * own instruction has it. */
typedef struct qk__convert_kernel {
    void (*from_f16)(const void *source, float *out, size_t count);
    void (*from_bf16)(const void *source, float *out, size_t count);
} qk__convert_kernel;

/* Fastest kernel for this processor. */
const qk__convert_kernel *qk__best_convert_kernel(void);

/* By instruction set. */
extern const qk__convert_kernel *const qk__convert_kernels[QK_NUM_SIMD];
extern const qk__convert_kernel qk__convert_portable;
extern const qk__convert_kernel qk__convert_avx2;
extern const qk__convert_kernel qk__convert_neon;

#endif
