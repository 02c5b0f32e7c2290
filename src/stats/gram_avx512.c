/* SPDX-License-Identifier: Apache-2.0 */
/* Gram kernel for AVX-512: blocks of 8 x 16 sums held in 16 registers. */
#include "stats/gram.h"

#include <immintrin.h>

enum { WIDTH = 8, HEIGHT = 8, WIDE = 2 };

#define ALL(x)       _mm512_set1_pd(x)
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)

#include "stats/gram_body.h"

const qk__gram_kernel qk__gram_avx512 = GRAM_KERNEL;
