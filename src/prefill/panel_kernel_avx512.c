/* SPDX-License-Identifier: Apache-2.0 */
/* Prefill kernels for AVX-512: a tile of 8 x 32 sums in 16 registers. */
#include <immintrin.h>

typedef __m512 vec;
typedef __mmask16 mask;

enum { WIDTH = 16, TILE_ROWS = 8, TILE_VECS = 2 };

#define ALL(x)                  _mm512_set1_ps(x)
#define FMA(a, b, c)            _mm512_fmadd_ps(a, b, c)
#define LARGER(x, y)            _mm512_max_ps(x, y)
#define SMALLER(x, y)           _mm512_min_ps(x, y)
#define KEEP_FROM(y, x, low)    _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, low, _CMP_NLT_UQ), y)
#define POWER(t)                _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23))
#define ADD_WHERE(sum, x, mask) _mm512_mask_add_ps(sum, mask, sum, x)
#define SAME(x, bits)           _mm512_cmpeq_epi32_mask(_mm512_castps_si512(x), _mm512_set1_epi32(bits))
#define BELOW(x, y)             _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ)
#define ANY(mask)               ((mask) != 0)

#include "prefill/panel_kernel_body.h"

#include "prefill/bf16_kernel_body.h"

const qk__panel_kernel qk__panel_avx512 = {PANEL_KERNEL};
const qk__bf16_kernel qk__bf16_avx512 = {BF16_KERNEL};
