/* SPDX-License-Identifier: Apache-2.0 */
/* The product of a tile with itself, for the file of each instruction set to include after it has defined
 *
 * - WIDTH: doubles in one of its vectors
 * - HEIGHT and WIDE: columns against so many panels, whose sums it holds in registers. A sum waits about
 *   four cycles for the one before it, so twice as many must be under way as the processor multiplies at once,
 *   times two
 * - ALL(x): x in every lane; FMA(a, b, c): a b + c, rounded once */
#ifndef QK_STATS_GRAM_BODY_H
#define QK_STATS_GRAM_BODY_H

#include "stats/gram_pack.h"

/* Sums of `height` columns from `left` against `wide` neighbouring panels from `right`: constants at each
 * call, so that the inner loops unroll. */
INLINE void block(const double *left, const double *right, size_t rows, size_t height,
                  size_t wide, bool fresh, double *gram, size_t ld)
{
    vec sum[HEIGHT][WIDE * PARTS];
    for (size_t i = 0; i < height; i++)
        for (size_t v = 0; v < wide * PARTS; v++)
            sum[i][v] = ALL(0.0);
    for (size_t r = 0; r < rows; r++) {
        vec x[WIDE * PARTS];
        for (size_t v = 0; v < wide * PARTS; v++)
            LOAD_F64(x[v], right + (v / PARTS * TILE_ROWS + r) * PANEL + v % PARTS * WIDTH);
        for (size_t i = 0; i < height; i++) {
            vec y = ALL(left[r * PANEL + i]);
            for (size_t v = 0; v < wide * PARTS; v++)
                sum[i][v] = FMA(y, x[v], sum[i][v]);
        }
    }
    for (size_t i = 0; i < height; i++)
        for (size_t v = 0; v < wide * PARTS; v++) {
            double *out = gram + i * ld + v * WIDTH;
            vec before;
            LOAD_F64(before, out);
            sum[i][v] = fresh ? sum[i][v] : before + sum[i][v];
            STORE(out, sum[i][v]);
        }
}

/* All columns of panel `left` against so many panels. */
INLINE void panel(const double *left, const double *right, size_t rows, size_t wide, bool fresh,
                  double *gram, size_t ld)
{
    size_t i = 0;
    for (; i + HEIGHT <= PANEL; i += HEIGHT)
        block(left + i, right, rows, HEIGHT, wide, fresh, gram + i * ld, ld);
    if (i < PANEL)
        block(left + i, right, rows, PANEL % HEIGHT, wide, fresh, gram + i * ld, ld);
}

static void gram(const double *tile, size_t rows, size_t panels, bool fresh, double *out)
{
    for (size_t p = 0; p < panels; p++) {
        const double *left = tile + p * TILE_ROWS * PANEL;
        size_t ld = (panels - p) * PANEL, q = p;
        for (; q + WIDE <= panels; q += WIDE)
            panel(left, tile + q * TILE_ROWS * PANEL, rows, WIDE, fresh, out + (q - p) * PANEL,
                  ld);
        if (q < panels)
            panel(left, tile + q * TILE_ROWS * PANEL, rows, 1, fresh, out + (q - p) * PANEL,
                  ld);
        out += PANEL * ld;
    }
}

#define GRAM_KERNEL                                                                            \
    {                                                                                          \
        gram, pack_f32, pack_f64, add, form                                                    \
    }

#endif
