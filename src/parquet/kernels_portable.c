/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in plain C, and the value of a 16-bit float. */
#include "parquet/kernels.h"

#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the Parquet reader moves values between files and memory as they are: little-endian"
#endif

static uint32_t unpack(const uint8_t *src, unsigned width, uint32_t *out, size_t count)
{
    uint64_t mask = (UINT64_C(1) << width) - 1;
    size_t size = (count * width + 7) / 8;
    uint32_t largest = 0;
    for (size_t i = 0, bit = 0; i < count; i++, bit += width) {
        size_t byte = bit / 8;
        uint64_t word = 0;
        if (size - byte >= 8)
            memcpy(&word, src + byte, 8);
        else
            for (size_t b = 0; b < size - byte; b++)
                word |= (uint64_t)src[byte + b] << (8 * b);
        out[i] = (uint32_t)(word >> (bit % 8) & mask);
        largest = out[i] > largest ? out[i] : largest;
    }
    return largest;
}

static void join4(const uint8_t *src, size_t stride, uint32_t *out, size_t count)
{
    const uint8_t *b1 = src + stride, *b2 = src + 2 * stride, *b3 = src + 3 * stride;
    for (size_t i = 0; i < count; i++)
        out[i] = src[i] | (uint32_t)b1[i] << 8 | (uint32_t)b2[i] << 16 | (uint32_t)b3[i] << 24;
}

static void join8(const uint8_t *src, size_t stride, uint64_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        for (unsigned b = 0; b < 8; b++)
            value |= (uint64_t)src[b * stride + i] << (8 * b);
        out[i] = value;
    }
}

const qk__parquet_kernel qk__parquet_portable = {unpack, join4, join8};

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
