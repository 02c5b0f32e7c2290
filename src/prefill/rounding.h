/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding to bfloat16 and float16, kept as float32: what simulating such a run needs. */
#ifndef QK_PREFILL_ROUNDING_H
#define QK_PREFILL_ROUNDING_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum qk__rounding { QK__UNROUNDED, QK__BF16, QK__F16 } qk__rounding;

/* To the nearest, ties to even; what is not a number stays so. */
static inline float qk__bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        bits |= 0x400000u;
    else
        bits += 0x7fffu + (bits >> 16 & 1);
    bits &= 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* As well; from 65520 on it is infinite, below 2^-14 a multiple of 2^-24. */
static inline float qk__f16(float x)
{
    uint32_t bits;
    float size = fabsf(x);
    memcpy(&bits, &size, sizeof bits);
    bits = (bits + 0xfffu + (bits >> 13 & 1)) & 0xffffe000u;
    float rounded;
    memcpy(&rounded, &bits, sizeof rounded);
    float small = (size + 0.5f) - 0.5f; /* 0.5 has an ulp of 2^-24 */
    rounded = size < 0x1p-14f ? small : rounded;
    rounded = size >= 65520.0f ? INFINITY : rounded;
    return isnan(x) ? x : copysignf(rounded, x);
}

static inline float qk__rounded(qk__rounding rounding, float x)
{
    return rounding == QK__BF16 ? qk__bf16(x) : rounding == QK__F16 ? qk__f16(x) : x;
}

static inline void qk__round_values(qk__rounding rounding, float *x, size_t n)
{
    if (rounding == QK__BF16)
        for (size_t i = 0; i < n; i++)
            x[i] = qk__bf16(x[i]);
    else if (rounding == QK__F16)
        for (size_t i = 0; i < n; i++)
            x[i] = qk__f16(x[i]);
}

#endif
