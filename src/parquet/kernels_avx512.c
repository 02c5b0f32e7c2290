/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for AVX-512 with byte permutes (VBMI): sixteen values a step.
 *
 * Sixteen values of w bits take 2w bytes, so every step starts at a byte and the same
 * permutation and shifts serve all steps. One permute brings the (at most four) bytes of each
 * value into its 32-bit lane, one shift and one mask finish it. */
#include "parquet/kernels.h"

#include <immintrin.h>

enum {
    LANES = 16,
    /* The widest value that lies in 4 bytes whatever bit it starts at. */
    WIDEST = 25,
};

typedef struct spread {
    __m512i bytes;  /* which source byte goes where */
    __m512i shifts; /* start bit of each value within its lane */
    __m512i mask;
    __mmask64 load; /* the 2w bytes of a step */
} spread;

static spread make_spread(unsigned width)
{
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i bit = _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)width));
    __m512i first = _mm512_srli_epi32(bit, 3);
    /* first, first + 1, first + 2, first + 3 in the four bytes of each lane */
    __m512i bytes = _mm512_add_epi32(_mm512_mullo_epi32(first, _mm512_set1_epi32(0x01010101)),
                                     _mm512_set1_epi32(0x03020100));
    return (spread){
        .bytes = bytes,
        .shifts = _mm512_and_si512(bit, _mm512_set1_epi32(7)),
        .mask = _mm512_set1_epi32((int)((UINT32_C(1) << width) - 1)),
        .load = ((__mmask64)1 << (2 * width)) - 1,
    };
}

static inline __m512i spread_step(const spread *s, const uint8_t *src, __mmask64 load)
{
    __m512i raw = _mm512_maskz_loadu_epi8(load, src);
    __m512i lanes = _mm512_permutexvar_epi8(s->bytes, raw);
    return _mm512_and_si512(_mm512_srlv_epi32(lanes, s->shifts), s->mask);
}

/* Loads no byte beyond `count` values. */
static inline __m512i spread_rest(const spread *s, const uint8_t *src, unsigned width,
                                  size_t count)
{
    __mmask64 load = ((__mmask64)1 << ((count * width + 7) / 8)) - 1;
    return spread_step(s, src, load);
}

static uint32_t unpack(const uint8_t *src, unsigned width, uint32_t *out, size_t count)
{
    if (width > WIDEST || width == 0)
        return qk__parquet_portable.unpack(src, width, out, count);
    const spread s = make_spread(width);
    __m512i largest = _mm512_setzero_si512();
    for (; count >= LANES; count -= LANES, src += 2 * width, out += LANES) {
        __m512i values = spread_step(&s, src, s.load);
        largest = _mm512_max_epu32(largest, values);
        _mm512_storeu_si512(out, values);
    }
    if (count > 0) {
        __mmask16 lanes = (__mmask16)((1u << count) - 1);
        __m512i values = spread_rest(&s, src, width, count);
        largest = _mm512_mask_max_epu32(largest, lanes, largest, values);
        _mm512_mask_storeu_epi32(out, lanes, values);
    }
    return _mm512_reduce_max_epu32(largest);
}

/* Interleaves pairs of streams, then pairs of pairs; unpack works within 128-bit quarters,
 * so the results are put in order by a permute at the end. */
static void join4(const uint8_t *src, size_t stride, uint32_t *out, size_t count)
{
    size_t i = 0;
    for (; i + 64 <= count; i += 64) {
        __m512i b0 = _mm512_loadu_si512(src + i);
        __m512i b1 = _mm512_loadu_si512(src + stride + i);
        __m512i b2 = _mm512_loadu_si512(src + 2 * stride + i);
        __m512i b3 = _mm512_loadu_si512(src + 3 * stride + i);
        __m512i low01 = _mm512_unpacklo_epi8(b0, b1), high01 = _mm512_unpackhi_epi8(b0, b1);
        __m512i low23 = _mm512_unpacklo_epi8(b2, b3), high23 = _mm512_unpackhi_epi8(b2, b3);
        __m512i v[4] = {
            _mm512_unpacklo_epi16(low01, low23), _mm512_unpackhi_epi16(low01, low23),
            _mm512_unpacklo_epi16(high01, high23), _mm512_unpackhi_epi16(high01, high23)};
        /* Quarter q of v[k] holds values 16q + 4k and the three after it. */
        __m512i a = _mm512_shuffle_i32x4(v[0], v[1], 0x44),
                b = _mm512_shuffle_i32x4(v[2], v[3], 0x44);
        __m512i c = _mm512_shuffle_i32x4(v[0], v[1], 0xee),
                d = _mm512_shuffle_i32x4(v[2], v[3], 0xee);
        _mm512_storeu_si512(out + i, _mm512_shuffle_i32x4(a, b, 0x88));
        _mm512_storeu_si512(out + i + 16, _mm512_shuffle_i32x4(a, b, 0xdd));
        _mm512_storeu_si512(out + i + 32, _mm512_shuffle_i32x4(c, d, 0x88));
        _mm512_storeu_si512(out + i + 48, _mm512_shuffle_i32x4(c, d, 0xdd));
    }
    qk__parquet_portable.join4(src + i, stride, out + i, count - i);
}

/* Eight loads of eight bytes are an 8 x 8 byte matrix; one permute transposes it. */
static void join8(const uint8_t *src, size_t stride, uint64_t *out, size_t count)
{
    const __m512i row = _mm512_set1_epi64((long long)UINT64_C(0x3830282018100800));
    const __m512i column =
        _mm512_mullo_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0),
                           _mm512_set1_epi64((long long)UINT64_C(0x0101010101010101)));
    const __m512i transpose = _mm512_add_epi8(row, column);
    const __m512i streams = _mm512_mullo_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0),
                                               _mm512_set1_epi64((long long)stride));
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m512i rows = _mm512_i64gather_epi64(streams, src + i, 1);
        _mm512_storeu_si512(out + i, _mm512_permutexvar_epi8(transpose, rows));
    }
    qk__parquet_portable.join8(src + i, stride, out + i, count - i);
}

const qk__parquet_kernel qk__parquet_avx512_bytes = {unpack, join4, join8};
