/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of reading. All versions give the same bytes; kernels.c chooses between
 * kernels_portable.c and those for other instruction sets. */
#ifndef QK_PARQUET_KERNELS_H
#define QK_PARQUET_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/simd.h"

typedef struct qk__parquet_kernel {
    /* Unpacks `count` values of `width` bits (0 to 32), least significant bit first, and
     * returns the largest of them (0 if there are none). src holds at least
     * ceil(count * width / 8) bytes; not one more is read.
     *
     * A dictionary look-up is unpacking a batch that stays in the first-level cache, one
     * comparison of the largest index, and plain loads: on the processor measured these are
     * as fast as gather instructions or faster, and need no version of their own. */
    uint32_t (*unpack)(const uint8_t *src, unsigned width, uint32_t *out, size_t count);

    /* Joins byte streams: byte b of out[i] is src[b * stride + i]. */
    void (*join4)(const uint8_t *src, size_t stride, uint32_t *out, size_t count);
    void (*join8)(const uint8_t *src, size_t stride, uint64_t *out, size_t count);
} qk__parquet_kernel;

/* Fastest kernel for this processor. */
const qk__parquet_kernel *qk__best_parquet_kernel(void);

/* By instruction set. */
extern const qk__parquet_kernel *const qk__parquet_kernels[QK_NUM_SIMD];
extern const qk__parquet_kernel qk__parquet_portable;
extern const qk__parquet_kernel qk__parquet_avx2;
extern const qk__parquet_kernel qk__parquet_avx512_bytes;
extern const qk__parquet_kernel qk__parquet_neon;

/* The value of an IEEE 754 half; exact. */
float qk__half_to_float(uint16_t half);

#endif
