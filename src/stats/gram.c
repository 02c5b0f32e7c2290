/* SPDX-License-Identifier: Apache-2.0 */
/* The portable Gram kernel, which the others must equal, and the choice among them. */
#include "stats/gram.h"

#include <math.h>

#include <qkscope/stats.h>

enum { WIDTH = 2 };

#include "stats/gram_pack.h"

static void gram_portable(const double *tile, size_t rows, size_t panels, bool fresh,
                          double *gram)
{
    for (size_t i = 0; i < panels * PANEL; i++) {
        const double *left = tile + i / PANEL * TILE_ROWS * PANEL + i % PANEL;
        double *row = gram + qk__gram_row(panels, i);
        for (size_t panel = i / PANEL; panel < panels; panel++) {
            const double *right = tile + panel * TILE_ROWS * PANEL;
            double sum[PANEL] = {0};
            for (size_t r = 0; r < rows; r++)
                for (size_t j = 0; j < PANEL; j++)
                    sum[j] = fma(left[r * PANEL], right[r * PANEL + j], sum[j]);
            for (size_t j = 0; j < PANEL; j++)
                row[panel * PANEL + j] = fresh ? sum[j] : row[panel * PANEL + j] + sum[j];
        }
    }
}

const qk__gram_kernel qk__gram_portable = {
    gram_portable, pack_f32, pack_f64, add, form,
};

const qk__gram_kernel *const qk__gram_kernels[QK_NUM_SIMD] = {
    [QK_PORTABLE] = &qk__gram_portable,
    [QK_AVX2] = QK__ON_X86(qk__gram_avx2),
    [QK_AVX512] = QK__ON_X86(qk__gram_avx512),
    [QK_NEON] = QK__ON_ARM64(qk__gram_neon),
};

const qk__gram_kernel *qk__best_gram_kernel(void)
{
    return qk__gram_kernels[qk__best_simd(QK__VERSIONS(qk__gram_kernels))];
}

const char *qk__moments_kernel(void)
{
    return qk__simd_names[qk__best_simd(QK__VERSIONS(qk__gram_kernels))];
}
