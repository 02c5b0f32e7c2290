/* SPDX-License-Identifier: Apache-2.0 */
/* Pair kernels for AVX2 and FMA. */
#include "stats/pair_kernel.h"

#include <immintrin.h>

enum { WIDTH = 4 };
#define BLOCK 4

typedef __m256d vec;
typedef uint64_t bits __attribute__((vector_size(WIDTH * sizeof(uint64_t))));
typedef int32_t vec_i32 __attribute__((vector_size(WIDTH * sizeof(int32_t))));

#define SIGN                  ((bits){0} + (UINT64_C(1) << 63))
#define ALL(x)                _mm256_set1_pd(x)
#define FMA(a, b, c)          _mm256_fmadd_pd(a, b, c)
#define SQRT(x)               _mm256_sqrt_pd(x)
#define FLOOR(x)              _mm256_floor_pd(x)
#define WIDEN(x)              _mm256_cvtps_pd(_mm_loadu_ps(x))
#define KEEP_BELOW(y, x, top) _mm256_and_pd(y, _mm256_cmp_pd(x, top, _CMP_LT_OQ))
#define ADD_LANES(x)          add_lanes((x)[0] + (x)[1])

static inline double add_lanes(__m256d x)
{
    __m128d y = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(y, _mm_unpackhi_pd(y, y)));
}

/* The additions of add_lanes for four at once. */
static inline __attribute__((always_inline)) void add_lanes_each(__m256d (*sum)[2],
                                                                 size_t count, double *v)
{
    __m256d x[4];
    if (count == 1) {
        v[0] = add_lanes(sum[0][0] + sum[0][1]);
        return;
    }
    for (size_t i = 0; i < 4; i++)
        x[i] = sum[i][0] + sum[i][1];
    __m256d even =
        _mm256_permute2f128_pd(x[0], x[2], 0x20) + _mm256_permute2f128_pd(x[0], x[2], 0x31);
    __m256d odd =
        _mm256_permute2f128_pd(x[1], x[3], 0x20) + _mm256_permute2f128_pd(x[1], x[3], 0x31);
    x[0] = _mm256_unpacklo_pd(even, odd) + _mm256_unpackhi_pd(even, odd);
    if (count == 4) {
        _mm256_storeu_pd(v, x[0]);
        return;
    }
    _mm_storeu_pd(v, _mm256_castpd256_pd128(x[0]));
    if (count == 3)
        _mm_store_sd(v + 2, _mm256_extractf128_pd(x[0], 1));
}
#define ADD_LANES_EACH add_lanes_each

#include "stats/pair_kernel_body.h"

const qk__pair_kernel qk__pair_avx2 = PAIR_KERNEL;
