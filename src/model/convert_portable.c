/* SPDX-License-Identifier: Apache-2.0 */
/* The conversions in plain C. */
#include "model/convert.h"

#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weights are used as they lie in the file: little-endian"
#endif

static uint32_t widen_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13;
    if ((half & 0x7c00) == 0x7c00) { /* infinity, NaN */
        bits |= 0x7f800000;
        return sign | bits | (bits & 0x7fffff ? 0x400000 : 0);
    }
    /* Exponents differ by 112; the product is exact, and makes subnormals normal. */
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
    memcpy(&bits, &value, sizeof bits);
    return sign | bits;
}

static void from_f16(const void *source, float *out, size_t count)
{
    const uint8_t *next = source;
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, next + 2 * i, sizeof half);
        uint32_t bits = widen_half(half);
        memcpy(out + i, &bits, sizeof bits);
    }
}

static void from_bf16(const void *source, float *out, size_t count)
{
    const uint8_t *next = source;
    for (size_t i = 0; i < count; i++) {
        uint16_t upper;
        memcpy(&upper, next + 2 * i, sizeof upper);
        uint32_t bits = (uint32_t)upper << 16;
        memcpy(out + i, &bits, sizeof bits);
    }
}

const qk__convert_kernel qk__convert_portable = {from_f16, from_bf16};
