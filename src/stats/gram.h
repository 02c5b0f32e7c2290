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
 * Every kernel forms each sum by the same chain of fused multiply-adds, row after row from
 * zero, and then adds it to gram: they agree to the last bit, whatever their vector width. */
#ifndef QK_STATS_GRAM_H
#define QK_STATS_GRAM_H

#include <stddef.h>

#include "base/simd.h"

enum { TILE_ROWS = 128, PANEL = 8 };

typedef struct qk_gram_kernel {
    const char *name;

    /* gram += tile^T tile, in the panels on and above the diagonal of a square matrix with
     * leading dimension panels * PANEL. The tile is aligned to 64 bytes. */
    void (*gram)(const double *tile, size_t rows, size_t panels, double *gram);

    /* Puts x - pilot of `rows` rows of `dim` values where tile points (row r of a tile is at
     * tile + r * PANEL) and carries on the column sums: sum[c] over x - pilot, sum_t[c] over
     * (x - pilot) times t. pilot, sum and sum_t have whole panels; padding stays zero. */
    void (*pack_f32)(const float *x, size_t dim, const double *pilot, const double *t,
                     size_t rows, double *tile, double *sum, double *sum_t);
    void (*pack_f64)(const double *x, size_t dim, const double *pilot, const double *t,
                     size_t rows, double *tile, double *sum, double *sum_t);
} qk_gram_kernel;

/* Fastest kernel for this processor. */
const qk_gram_kernel *qk__gram_kernel(void);

/* The i-th of qk__simd_count(): 0 is the portable reference. */
const qk_gram_kernel *qk__gram_kernel_at(size_t i);

extern const qk_gram_kernel qk__gram_portable;
extern const qk_gram_kernel qk__gram_avx2;
extern const qk_gram_kernel qk__gram_avx512;

#endif
