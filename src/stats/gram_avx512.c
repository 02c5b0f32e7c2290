/* SPDX-License-Identifier: Apache-2.0 */
/* Gram kernel for AVX-512: blocks of 8 x 16 sums held in 16 registers. */
#include "stats/gram.h"
#include "stats/gram_pack.h"

#include <immintrin.h>

/* Sums of panel `left` (8 columns) against `width` (1 or 2) neighbouring panels from
 * `right`. width is a constant at each call, so the inner loops unroll. */
static inline __attribute__((always_inline)) void block(const double *left, const double *right,
                                                        size_t rows, size_t width, bool fresh,
                                                        double *gram, size_t ld)
{
    __m512d sum[PANEL][2];
    for (size_t i = 0; i < PANEL; i++)
        sum[i][0] = sum[i][1] = _mm512_setzero_pd();
    for (size_t r = 0; r < rows; r++) {
        __m512d x[2];
        for (size_t w = 0; w < width; w++)
            x[w] = _mm512_load_pd(right + (w * TILE_ROWS + r) * PANEL);
#pragma GCC unroll 8
        for (size_t i = 0; i < PANEL; i++) {
            __m512d y = _mm512_set1_pd(left[r * PANEL + i]);
            for (size_t w = 0; w < width; w++)
                sum[i][w] = _mm512_fmadd_pd(y, x[w], sum[i][w]);
        }
    }
    for (size_t i = 0; i < PANEL; i++)
        for (size_t w = 0; w < width; w++) {
            double *out = gram + i * ld + w * PANEL;
            if (!fresh)
                sum[i][w] = _mm512_add_pd(_mm512_loadu_pd(out), sum[i][w]);
            _mm512_storeu_pd(out, sum[i][w]);
        }
}

static void gram_avx512(const double *tile, size_t rows, size_t panels, bool fresh,
                        double *gram)
{
    double *out = gram;
    for (size_t p = 0; p < panels; p++) {
        const double *left = tile + p * TILE_ROWS * PANEL;
        size_t ld = (panels - p) * PANEL;
        size_t q = p;
        for (; q + 2 <= panels; q += 2)
            block(left, tile + q * TILE_ROWS * PANEL, rows, 2, fresh, out + (q - p) * PANEL,
                  ld);
        if (q < panels)
            block(left, tile + q * TILE_ROWS * PANEL, rows, 1, fresh, out + (q - p) * PANEL,
                  ld);
        out += PANEL * ld;
    }
}

const qk__gram_kernel qk__gram_avx512 = {
    gram_avx512, pack_f32, pack_f64, add, form,
};
