/* SPDX-License-Identifier: Apache-2.0 */
/* Gram kernel for AVX2 with FMA: blocks of up to 3 x 16 sums held in 12 registers. */
#include "stats/gram.h"
#include "stats/gram_pack.h"

#include <immintrin.h>

enum { LANES = 4, MAX_HEIGHT = 3, MAX_VECTORS = 4 };

/* Sums of `height` (at most 3) columns from `left` against `vectors` (2 or 4, for one or two
 * panels) vectors of columns from `right`. Both are constants at each call, so the inner loops
 * unroll: a sum waits four cycles for the one before it, so eight of them or more must be under
 * way to keep both multipliers busy. */
static inline __attribute__((always_inline)) void block(const double *left, const double *right,
                                                        size_t rows, size_t height,
                                                        size_t vectors, bool fresh,
                                                        double *gram, size_t ld)
{
    __m256d sum[MAX_HEIGHT][MAX_VECTORS];
    for (size_t i = 0; i < height; i++)
        for (size_t v = 0; v < vectors; v++)
            sum[i][v] = _mm256_setzero_pd();
    for (size_t r = 0; r < rows; r++) {
        __m256d x[MAX_VECTORS];
        for (size_t v = 0; v < vectors; v++)
            x[v] = _mm256_load_pd(right + (v / 2 * TILE_ROWS + r) * PANEL + v % 2 * LANES);
        for (size_t i = 0; i < height; i++) {
            __m256d y = _mm256_broadcast_sd(left + r * PANEL + i);
            for (size_t v = 0; v < vectors; v++)
                sum[i][v] = _mm256_fmadd_pd(y, x[v], sum[i][v]);
        }
    }
    for (size_t i = 0; i < height; i++)
        for (size_t v = 0; v < vectors; v++) {
            double *out = gram + i * ld + v * LANES;
            if (!fresh)
                sum[i][v] = _mm256_add_pd(_mm256_loadu_pd(out), sum[i][v]);
            _mm256_storeu_pd(out, sum[i][v]);
        }
}

/* All eight columns of panel `left` against one or two panels. */
static inline __attribute__((always_inline)) void panel(const double *left, const double *right,
                                                        size_t rows, size_t vectors, bool fresh,
                                                        double *gram, size_t ld)
{
    block(left, right, rows, 3, vectors, fresh, gram, ld);
    block(left + 3, right, rows, 3, vectors, fresh, gram + 3 * ld, ld);
    block(left + 6, right, rows, 2, vectors, fresh, gram + 6 * ld, ld);
}

static void gram_avx2(const double *tile, size_t rows, size_t panels, bool fresh, double *gram)
{
    double *out = gram;
    for (size_t p = 0; p < panels; p++) {
        const double *left = tile + p * TILE_ROWS * PANEL;
        size_t ld = (panels - p) * PANEL;
        size_t q = p;
        for (; q + 2 <= panels; q += 2)
            panel(left, tile + q * TILE_ROWS * PANEL, rows, 4, fresh, out + (q - p) * PANEL,
                  ld);
        if (q < panels)
            panel(left, tile + q * TILE_ROWS * PANEL, rows, 2, fresh, out + (q - p) * PANEL,
                  ld);
        out += PANEL * ld;
    }
}

const qk__gram_kernel qk__gram_avx2 = {
    gram_avx2, pack_f32, pack_f64, add, form,
};
