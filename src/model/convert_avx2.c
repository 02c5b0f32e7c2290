/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions with AVX2 and F16C. */
#include <immintrin.h>

#include "model/convert.h"

static void from_f16(const void *source, float *out, size_t count)
{
    const uint8_t *next = source;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)(next + 2 * i));
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
    }
    qk__convert_portable.from_f16(next + 2 * i, out + i, count - i);
}

static void from_bf16(const void *source, float *out, size_t count)
{
    const uint8_t *next = source;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)(next + 2 * i));
        __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
        _mm256_storeu_si256((__m256i *)(void *)(out + i), bits);
    }
    qk__convert_portable.from_bf16(next + 2 * i, out + i, count - i);
}

const qk__convert_kernel qk__convert_avx2 = {from_f16, from_bf16};
