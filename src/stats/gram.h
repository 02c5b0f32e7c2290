/* SPDX-License-Identifier: Apache-2.0 */
/* Gram matrices of one tile of rows, the innermost work of every analysis.
 *
 * A tile holds up to TILE_ROWS rows as column panels of PANEL doubles:
 *
 *     tile:  panel 0            panel 1            ...
 *            row 0: x0 .. x7    row 0: x8 .. x15
 *            row 1: x0 .. x7    row 1: x8 .. x15
 *            ...                ...
 *
 * so that a kernel walks each panel in memory order and TILE_ROWS rows of two panels
 * fit in the first-level cache. Columns are padded to whole panels with zeros.
 *
 * A Gram matrix is symmetric: of each panel of rows only the part from the diagonal on is kept,
 * one panel after the other, the first with `panels` panels of columns, the last with one:
 *
 *     gram:  rows 0..7: columns 0 .. 8 panels - 1
 *            rows 8..15: columns 8 .. 8 panels - 1
 *            ...
 *
 * Every kernel forms each sum by the same chain of fused multiply-adds, row after row from
 * zero, and then adds it to gram: they agree to the last bit, whatever their vector width. */
#ifndef QK_STATS_GRAM_H
#define QK_STATS_GRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/simd.h"

enum { TILE_ROWS = 128, PANEL = 8 };

/* Numbers in a Gram matrix of so many panels. */
static inline size_t qk__gram_size(size_t panels)
{
    return PANEL * PANEL * (panels * (panels + 1) / 2);
}

/* Where row i of it begins: column j >= i is at [j]. */
static inline size_t qk__gram_row(size_t panels, size_t i)
{
    size_t p = i / PANEL, width = (panels - p) * PANEL;
    return qk__gram_size(panels) - qk__gram_size(panels - p) + i % PANEL * width - p * PANEL;
}

typedef struct qk__gram_kernel {
    /* gram += tile^T tile or, where fresh, gram = tile^T tile. The tile lies at a multiple of
     * 64 bytes. */
    void (*gram)(const double *tile, size_t rows, size_t panels, bool fresh, double *gram);

    /* Puts x - pilot of `rows` rows of `dim` values, those at x + index[r] * dim, into the tile
     * and carries on the column sums: sum[c] over x - pilot, sum_t[c] over (x - pilot) times t, and,
     * unless o is NULL, sum_o[c] over (x - pilot) times o. pilot and sums have whole panels; padding
     * stays zero. */
    void (*pack_f32)(const float *x, const uint32_t *index, size_t dim, const double *pilot,
                     const double *t, const double *o, size_t rows, double *tile, double *sum,
                     double *sum_t, double *sum_o);
    void (*pack_f64)(const double *x, const uint32_t *index, size_t dim, const double *pilot,
                     const double *t, const double *o, size_t rows, double *tile, double *sum,
                     double *sum_t, double *sum_o);

    /* to += from; count is a multiple of PANEL. */
    void (*add)(double *to, const double *from, size_t count);

    /* v^T gram v; v has whole panels, padded with zeros. */
    double (*form)(const double *gram, size_t panels, const double *v);
} qk__gram_kernel;

/* Fastest kernel for this processor. */
const qk__gram_kernel *qk__best_gram_kernel(void);

/* By instruction set. */
extern const qk__gram_kernel *const qk__gram_kernels[QK_NUM_SIMD];
extern const qk__gram_kernel qk__gram_portable;
extern const qk__gram_kernel qk__gram_avx2;
extern const qk__gram_kernel qk__gram_avx512;
extern const qk__gram_kernel qk__gram_neon;

/* Name of the Gram kernel this processor runs: "avx512", "avx2" or "portable".
 * All give the same bits. */
const char *qk__moments_kernel(void);

#endif
