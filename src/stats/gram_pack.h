/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a Gram kernel that a compiler vectorises by itself. Each kernel file
 * includes them and so compiles them for its own instruction set. */
#ifndef QK_STATS_GRAM_PACK_H
#define QK_STATS_GRAM_PACK_H

#include "stats/gram.h"

#define DEFINE_PACK(name, type)                                                                \
    static void name(const type *x, size_t dim, const double *pilot, size_t first,             \
                     size_t rows, double *tile)                                                \
    {                                                                                          \
        for (size_t r = 0; r < rows; r++) {                                                    \
            const type *row = x + r * dim;                                                     \
            double *out = tile + (first + r) * PANEL;                                          \
            size_t c = 0;                                                                      \
            for (; c + PANEL <= dim; c += PANEL, out += TILE_ROWS * PANEL)                     \
                for (size_t j = 0; j < PANEL; j++)                                             \
                    out[j] = (double)row[c + j] - pilot[c + j];                                \
            for (size_t j = 0; c + j < dim; j++)                                               \
                out[j] = (double)row[c + j] - pilot[c + j];                                    \
        }                                                                                      \
    }

DEFINE_PACK(pack_f32, float)
DEFINE_PACK(pack_f64, double)

static void sums(const double *tile, const double *t, size_t rows, size_t panels, double *sum,
                 double *sum_t)
{
    for (size_t p = 0; p < panels; p++) {
        const double *x = tile + p * TILE_ROWS * PANEL;
        double s[PANEL] = {0}, st[PANEL] = {0};
        for (size_t r = 0; r < rows; r++)
            for (size_t j = 0; j < PANEL; j++) {
                s[j] += x[r * PANEL + j];
                st[j] += x[r * PANEL + j] * t[r];
            }
        for (size_t j = 0; j < PANEL; j++) {
            sum[p * PANEL + j] += s[j];
            sum_t[p * PANEL + j] += st[j];
        }
    }
}

#endif
