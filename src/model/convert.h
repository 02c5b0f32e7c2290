/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit floating-point numbers as float32: exact, and the same bits from every version.
 * convert.c chooses between convert_avx2.c and convert_portable.c. */
#ifndef QK_MODEL_CONVERT_H
#define QK_MODEL_CONVERT_H

#include <stddef.h>
#include <stdint.h>

/* source need not be aligned. A signalling NaN of F16 becomes a quiet one, as the processor's
 * own instruction has it. */
typedef struct qk__convert_kernels {
    void (*from_f16)(const void *source, float *out, size_t count);
    void (*from_bf16)(const void *source, float *out, size_t count);
} qk__convert_kernels;

const qk__convert_kernels *qk__convert_kernels_portable(void);
/* NULL where the build or the processor lacks AVX2 or F16C. */
const qk__convert_kernels *qk__convert_kernels_avx2(void);
/* The best for this processor. */
const qk__convert_kernels *qk__best_convert_kernels(void);

#endif
