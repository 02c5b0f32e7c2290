/* SPDX-License-Identifier: Apache-2.0 */
/* The choice among the kernels, and halves. */
#include "parquet/kernels.h"

#include <string.h>

#ifndef QK_HAVE_X86_KERNELS
const qk__parquet_kernels *qk__parquet_kernels_avx2(void)
{
    return NULL;
}

const qk__parquet_kernels *qk__parquet_kernels_avx512(void)
{
    return NULL;
}
#endif

const qk__parquet_kernels *qk__best_parquet_kernels(void)
{
    const qk__parquet_kernels *best = qk__parquet_kernels_avx512();
    if (!best)
        best = qk__parquet_kernels_avx2();
    return best ? best : qk__parquet_kernels_portable();
}

float qk__half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1f;
    uint32_t fraction = half & 0x3ff;
    uint32_t bits;
    if (exponent == 0x1f) { /* infinity or NaN, payload kept */
        bits = sign | UINT32_C(0x7f800000) | fraction << 13;
    } else if (exponent > 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else { /* zero or subnormal: fraction times 2^-24 is exact */
        float magnitude = (float)fraction * 0x1p-24f;
        memcpy(&bits, &magnitude, 4);
        bits |= sign;
    }
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
