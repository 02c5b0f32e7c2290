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

#include "stats/pair_kernel_body.h"

const qk_pair_kernel qk__pair_avx512 = PAIR_KERNEL("avx512");
