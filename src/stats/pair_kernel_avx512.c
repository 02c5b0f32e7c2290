/* SPDX-License-Identifier: Apache-2.0 */
/* Pair kernels for AVX-512. */
#include "stats/pair_kernel.h"

#include <immintrin.h>

enum { WIDTH = 8 };
#define BLOCK 8

typedef __m512d vec;
typedef uint64_t bits __attribute__((vector_size(WIDTH * sizeof(uint64_t))));
typedef int32_t vec_i32 __attribute__((vector_size(WIDTH * sizeof(int32_t))));

#define SIGN                  ((bits){0} + (UINT64_C(1) << 63))
#define ALL(x)                _mm512_set1_pd(x)
#define FMA(a, b, c)          _mm512_fmadd_pd(a, b, c)
#define SQRT(x)               _mm512_sqrt_pd(x)
#define FLOOR(x)              _mm512_roundscale_pd(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
#define WIDEN(x)              _mm512_cvtps_pd(_mm256_loadu_ps(x))
#define KEEP_BELOW(y, x, top) _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(x, top, _CMP_LT_OQ), y)
#define ADD_LANES(x)          add_lanes((x)[0])

static inline double add_lanes(__m512d x)
{
    __m256d y = _mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd(x, 1));
    __m128d z = _mm_add_pd(_mm256_castpd256_pd128(y), _mm256_extractf128_pd(y, 1));
    return _mm_cvtsd_f64(_mm_add_sd(z, _mm_unpackhi_pd(z, z)));
}

/* The additions of add_lanes for eight at once. */
static inline __attribute__((always_inline)) void add_lanes_each(__m512d (*sum)[1],
                                                                 size_t count, double *v)
{
    __m512d half[4], quarter[2];
    if (count <= 2) {
        for (size_t j = 0; j < count; j++)
            v[j] = add_lanes(sum[j][0]);
        return;
    }
    for (size_t i = 0; i < 4; i++) { /* 0 and 2, 4 and 6, 1 and 3, 5 and 7 */
        __m512d a = sum[i % 2 * 4 + i / 2][0], b = sum[i % 2 * 4 + i / 2 + 2][0];
        half[i] = _mm512_shuffle_f64x2(a, b, 0x44) + _mm512_shuffle_f64x2(a, b, 0xee);
    }
    for (size_t i = 0; i < 2; i++)
        quarter[i] = _mm512_shuffle_f64x2(half[2 * i], half[2 * i + 1], 0x88) +
                     _mm512_shuffle_f64x2(half[2 * i], half[2 * i + 1], 0xdd);
    __m512d all =
        _mm512_unpacklo_pd(quarter[0], quarter[1]) + _mm512_unpackhi_pd(quarter[0], quarter[1]);
    _mm512_mask_storeu_pd(v, (__mmask8)((1u << count) - 1), all);
}
#define ADD_LANES_EACH add_lanes_each

static inline __attribute__((always_inline)) size_t list_bits(uint64_t in, uint64_t among,
                                                              uint32_t at, uint32_t *out)
{
    const __m512i lanes =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    size_t n = 0;
    for (; in != 0; in >>= 16, among >>= 16) {
        __mmask16 some = (__mmask16)in, all = (__mmask16)among;
        __m512i place = _mm512_add_epi32(lanes, _mm512_set1_epi32((int)at));
        place = _mm512_maskz_expand_epi32(all, place); /* how many of `all` are below */
        _mm512_storeu_si512(out + n, _mm512_maskz_compress_epi32(some, place));
        n += (size_t)__builtin_popcount(some);
        at += (uint32_t)__builtin_popcount(all);
    }
    return n;
}
#define LIST_BITS list_bits

/* Eight stores of one number each, read as a vector, would wait for each other. */
static inline __attribute__((always_inline)) __m512d load_chosen(const double *x,
                                                                 const uint32_t *which)
{
    __m256i place = _mm256_loadu_si256((const __m256i *)(const void *)which);
    return _mm512_i32gather_pd(place, x, 8);
}
#define LOAD_CHOSEN load_chosen

#include "stats/pair_kernel_body.h"

const qk__pair_kernel qk__pair_avx512 = PAIR_KERNEL;
