/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for AVX2: eight values a step, four in each half of a register.
 *
 * Eight values of w bits take w bytes, so every step starts at a byte and the same shuffle and
 * shifts serve all steps: the shuffle brings the bytes of each value into its 32-bit lane. */
#include "parquet/kernels.h"

#include <immintrin.h>

enum {
    LANES = 8,
    HALF_BYTES = 16, /* loaded for each half */
    /* The widest value that lies in 4 bytes whatever bit it starts at. */
    WIDEST = 25,
};

typedef struct spread {
    __m256i bytes;  /* which source byte goes where, within each half */
    __m256i shifts; /* start bit of each value within its lane */
    __m256i mask;
    size_t high; /* first byte of the upper four values */
    size_t span; /* bytes that a step loads */
} spread;

static spread make_spread(unsigned width)
{
    /* The upper half starts in the middle of a byte when the width is odd. */
    const unsigned high_bit = 4 * width % 8;
    const __m256i lane = _mm256_set_epi32(3, 2, 1, 0, 3, 2, 1, 0);
    const __m256i offset = _mm256_set_epi32((int)high_bit, (int)high_bit, (int)high_bit,
                                            (int)high_bit, 0, 0, 0, 0);
    __m256i bit =
        _mm256_add_epi32(_mm256_mullo_epi32(lane, _mm256_set1_epi32((int)width)), offset);
    __m256i first = _mm256_srli_epi32(bit, 3);
    spread s = {
        .bytes = _mm256_add_epi32(_mm256_mullo_epi32(first, _mm256_set1_epi32(0x01010101)),
                                  _mm256_set1_epi32(0x03020100)),
        .shifts = _mm256_and_si256(bit, _mm256_set1_epi32(7)),
        .mask = _mm256_set1_epi32((int)((UINT32_C(1) << width) - 1)),
        .high = 4 * width / 8,
    };
    s.span = s.high + HALF_BYTES;
    return s;
}

static inline __m256i spread_step(const spread *s, const uint8_t *src)
{
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)src);
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(src + s->high));
    __m256i raw = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    __m256i lanes = _mm256_shuffle_epi8(raw, s->bytes);
    return _mm256_and_si256(_mm256_srlv_epi32(lanes, s->shifts), s->mask);
}

/* Steps that load nothing beyond the bytes of `count` values. */
static size_t safe_steps(const spread *s, unsigned width, size_t count)
{
    size_t bytes = (count * width + 7) / 8;
    return bytes < s->span ? 0 : (bytes - s->span) / width + 1;
}

static uint32_t unpack(const uint8_t *src, unsigned width, uint32_t *out, size_t count)
{
    size_t steps = 0;
    __m256i largest = _mm256_setzero_si256();
    if (width > 0 && width <= WIDEST) {
        const spread s = make_spread(width);
        steps = safe_steps(&s, width, count);
        if (steps > count / LANES)
            steps = count / LANES;
        for (size_t i = 0; i < steps; i++) {
            __m256i values = spread_step(&s, src + i * width);
            largest = _mm256_max_epu32(largest, values);
            _mm256_storeu_si256((__m256i *)(void *)(out + LANES * i), values);
        }
    }
    uint32_t found = qk__parquet_portable.unpack(src + steps * width, width,
                                                 out + LANES * steps, count - LANES * steps);
    uint32_t lanes[LANES];
    _mm256_storeu_si256((__m256i *)(void *)lanes, largest);
    for (size_t i = 0; i < LANES; i++)
        found = lanes[i] > found ? lanes[i] : found;
    return found;
}

static inline __m256i load_bytes(const uint8_t *src)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)src);
}

/* Interleaves pairs of streams, then pairs of pairs; unpack works within 128-bit halves, so
 * the halves are put in order at the end. */
static void join4(const uint8_t *src, size_t stride, uint32_t *out, size_t count)
{
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m256i b0 = load_bytes(src + i), b1 = load_bytes(src + stride + i);
        __m256i b2 = load_bytes(src + 2 * stride + i), b3 = load_bytes(src + 3 * stride + i);
        __m256i low01 = _mm256_unpacklo_epi8(b0, b1), high01 = _mm256_unpackhi_epi8(b0, b1);
        __m256i low23 = _mm256_unpacklo_epi8(b2, b3), high23 = _mm256_unpackhi_epi8(b2, b3);
        __m256i v0 = _mm256_unpacklo_epi16(low01, low23);   /* values 0-3, 16-19 */
        __m256i v1 = _mm256_unpackhi_epi16(low01, low23);   /* 4-7, 20-23 */
        __m256i v2 = _mm256_unpacklo_epi16(high01, high23); /* 8-11, 24-27 */
        __m256i v3 = _mm256_unpackhi_epi16(high01, high23); /* 12-15, 28-31 */
        __m256i *to = (__m256i *)(void *)(out + i);
        _mm256_storeu_si256(to, _mm256_permute2x128_si256(v0, v1, 0x20));
        _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(v2, v3, 0x20));
        _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(v0, v1, 0x31));
        _mm256_storeu_si256(to + 3, _mm256_permute2x128_si256(v2, v3, 0x31));
    }
    qk__parquet_portable.join4(src + i, stride, out + i, count - i);
}

static void join8(const uint8_t *src, size_t stride, uint64_t *out, size_t count)
{
    qk__parquet_portable.join8(src, stride, out, count);
}

const qk__parquet_kernel qk__parquet_avx2 = {unpack, join4, join8};
