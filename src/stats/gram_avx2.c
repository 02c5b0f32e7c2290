/* SPDX-License-Identifier: Apache-2.0 */
/* Gram kernel for AVX2 with FMA: blocks of 4 x 8 sums held in 8 registers. */
#include "stats/gram.h"
#include "stats/gram_pack.h"

#include <immintrin.h>

enum { HALF = 4 };

static void block(const double *left, const double *right, size_t rows, double *gram, size_t ld)
{
    __m256d sum[HALF][2];
    for (size_t i = 0; i < HALF; i++)
        sum[i][0] = sum[i][1] = _mm256_setzero_pd();
    for (size_t r = 0; r < rows; r++) {
        __m256d low = _mm256_load_pd(right + r * PANEL);
        __m256d high = _mm256_load_pd(right + r * PANEL + HALF);
#pragma GCC unroll 4
        for (size_t i = 0; i < HALF; i++) {
            __m256d y = _mm256_broadcast_sd(left + r * PANEL + i);
            sum[i][0] = _mm256_fmadd_pd(y, low, sum[i][0]);
            sum[i][1] = _mm256_fmadd_pd(y, high, sum[i][1]);
        }
    }
    for (size_t i = 0; i < HALF; i++)
        for (size_t w = 0; w < 2; w++) {
            double *out = gram + i * ld + w * HALF;
            _mm256_storeu_pd(out, _mm256_add_pd(_mm256_loadu_pd(out), sum[i][w]));
        }
}

static void gram_avx2(const double *tile, size_t rows, size_t panels, double *gram)
{
    size_t ld = panels * PANEL;
    for (size_t p = 0; p < panels; p++) {
        const double *left = tile + p * TILE_ROWS * PANEL;
        for (size_t q = p; q < panels; q++) {
            const double *right = tile + q * TILE_ROWS * PANEL;
            double *out = gram + p * PANEL * ld + q * PANEL;
            block(left, right, rows, out, ld);
            block(left + HALF, right, rows, out + HALF * ld, ld);
        }
    }
}

const qk_gram_kernel qk__gram_avx2 = {
    "avx2",
    gram_avx2,
    pack_f32,
    pack_f64,
};
