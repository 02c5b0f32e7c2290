/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of reading, as a table of functions: plain C always, and versions for what
 * the processor offers. All versions give the same bytes. kernels.c chooses among
 * kernels_avx512.c, kernels_avx2.c and kernels_portable.c. */
#ifndef QK_PARQUET_KERNELS_H
#define QK_PARQUET_KERNELS_H

#include <stddef.h>
#include <stdint.h>

typedef struct qk__parquet_kernels {
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
} qk__parquet_kernels;

/* The plain C version, and the best one for this processor. */
const qk__parquet_kernels *qk__parquet_kernels_portable(void);
const qk__parquet_kernels *qk__best_parquet_kernels(void);

/* NULL where the build or the processor lacks them. */
const qk__parquet_kernels *qk__parquet_kernels_avx2(void);
const qk__parquet_kernels *qk__parquet_kernels_avx512(void);

/* The value of an IEEE 754 half; exact. */
float qk__half_to_float(uint16_t half);

#endif
