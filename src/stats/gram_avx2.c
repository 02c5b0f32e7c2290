/* SPDX-License-Identifier: Apache-2.0 */
/* Gram kernel for AVX2 with FMA: blocks of up to 3 x 16 sums held in 12 registers. */
#include "stats/gram.h"

#include <immintrin.h>

enum { WIDTH = 4, HEIGHT = 3, WIDE = 2 };

#define ALL(x)       _mm256_set1_pd(x)
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)

#include "stats/gram_body.h"

const qk__gram_kernel qk__gram_avx2 = GRAM_KERNEL;
