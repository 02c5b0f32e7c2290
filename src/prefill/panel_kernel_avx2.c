/* SPDX-License-Identifier: Apache-2.0 */
/* Prefill kernels for AVX2 with FMA: a tile in four parts of 4 x 16 sums in 8 registers. */
#include <immintrin.h>

typedef __m256 vec;
typedef __m256 mask;

enum { WIDTH = 8, TILE_ROWS = 4, TILE_VECS = 2 };

#define ALL(x)                  _mm256_set1_ps(x)
#define FMA(a, b, c)            _mm256_fmadd_ps(a, b, c)
#define LARGER(x, y)            _mm256_max_ps(x, y)
#define SMALLER(x, y)           _mm256_min_ps(x, y)
#define KEEP_FROM(y, x, low)    _mm256_and_ps(_mm256_cmp_ps(x, low, _CMP_NLT_UQ), y)
#define POWER(t)                _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23))
#define ADD_WHERE(sum, x, mask) ((sum) + _mm256_and_ps(x, mask))
#define SAME(x, bits)                                                                          \
    _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(bits)))
#define BELOW(x, y) _mm256_cmp_ps(x, y, _CMP_LT_OQ)
#define ANY(mask)   (_mm256_movemask_ps(mask) != 0)

#include "prefill/panel_kernel_body.h"

#include "prefill/bf16_kernel_body.h"

const qk__panel_kernel qk__panel_avx2 = {PANEL_KERNEL};
const qk__bf16_kernel qk__bf16_avx2 = {BF16_KERNEL};
