/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding to bfloat16, kept as float32: what simulating such a run needs. */
#ifndef QK_MODEL_BF16_H
#define QK_MODEL_BF16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

static inline void qk__bf16_values(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = qk__bf16(x[i]);
}

#endif
