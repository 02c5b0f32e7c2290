/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of rows about a pilot, a vector near their mean: so they keep their digits, however far from zero the rows are,
 * and sums of two sets of rows about the same pilot add up. */
#ifndef QK_STATS_PILOT_SUMS_H
#define QK_STATS_PILOT_SUMS_H

#include <stdbool.h>

#include <qkscope/stats.h>

#include "stats/gram.h"

/* ---- a tile of rows --------------------------------------------------------------------- */

/* Up to TILE_ROWS rows about the pilot, for a Gram kernel. Arrays have whole panels. */
typedef struct qk__tile {
    const qk__gram_kernel *kernel;
    size_t dim, panels;
    double *rows; /* as in gram.h */
    double *pilot;
    double *sum, *sum_xt, *sum_xo; /* of the rows in the tile; one behind the other */
} qk__tile;

/* Numbers in the arrays of a tile; and the tile in such memory, which lies at a multiple of 64 bytes. Its
 * rows and pilot are zeroed. */
size_t qk__tile_size(size_t dim);
void qk__tile_place(qk__tile *tile, const qk__gram_kernel *kernel, size_t dim, double *memory);

/* Rows at x + index[r] * dim, float or, where wide, double; at positions t[r], of octaves o[r]: NULL where
 * these are not asked for. */
typedef struct qk__tile_rows {
    const void *x;
    bool wide;
    const uint32_t *index;
    const double *t, *o;
    size_t count; /* at most TILE_ROWS */
} qk__tile_rows;

/* Makes the mean of some rows the pilot. */
void qk__tile_set_pilot(qk__tile *tile, const qk__tile_rows *rows);

/* Puts rows into the tile, and their sums beside it. */
void qk__tile_pack(qk__tile *tile, const qk__tile_rows *rows);

/* Whether all are finite. A NaN or infinity in a column of a tile shows in its sum. */
bool qk__all_finite(const double *x, size_t count);

/* ---- sums ------------------------------------------------------------------------------- */

/* Over rows x_i at positions t_i, both about a pilot, of octaves o_i. The arrays have whole panels. */
typedef struct qk__sums {
    int64_t count;
    double sum_t, sum_tt, sum_o, sum_oo;
    double *gram; /* set while count > 0; as in gram.h; the others lie behind it */
    double *sum, *sum_xt, *sum_xo;
} qk__sums;

/* Numbers in the arrays; and sums without rows in such memory: the first rows set the matrix. */
size_t qk__sums_size(size_t panels);
qk__sums qk__sums_at(double *memory, size_t panels);

/* Memory for the arrays of `count` sums, one behind the other; NULL without it. And the sums in it. */
double *qk__sums_memory(size_t count, size_t panels);
void qk__sums_place(qk__sums *sums, size_t count, double *memory, size_t panels);

/* Adds the rows that are packed in the tile. */
void qk__sums_add_tile(qk__sums *to, const qk__tile *tile, const qk__tile_rows *rows);

/* to += more, about the same pilot. */
void qk__sums_add(const qk__gram_kernel *kernel, qk__sums *to, const qk__sums *more,
                  size_t panels);

/* Moves sums of at least one row from the pilot to the means. */
void qk__sums_centre(const qk__sums *sums, const qk__tile *tile, double pilot_t, qk_moments *m);

#endif
