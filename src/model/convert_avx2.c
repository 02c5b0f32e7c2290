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
    qk__convert_kernels_portable()->from_f16(next + 2 * i, out + i, count - i);
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
    qk__convert_kernels_portable()->from_bf16(next + 2 * i, out + i, count - i);
}

/* Every processor with AVX2 has F16C; to ask for it costs microseconds in a virtual machine. */
const qk__convert_kernels *qk__convert_kernels_avx2(void)
{
    static const qk__convert_kernels kernels = {from_f16, from_bf16};
    return __builtin_cpu_supports("avx2") ? &kernels : NULL;
}
