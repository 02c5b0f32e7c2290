/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices of weights in float32, and their products with panels of tokens. */
#ifndef QK_PREFILL_LINEAR_H
#define QK_PREFILL_LINEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "model/model.h"
#include "prefill/bf16_kernel.h"
#include "prefill/panel_kernel.h"
#include "prefill/rounding.h"

/* Rows are padded to whole tiles with zeros, and lie `step` values apart: an odd number of
 * cache lines, so that the rows of a tile do not compete for the same places in the cache. */
typedef struct qk__matrix {
    float *values;
    float *bias;
    bool has_bias;
    const qk__bf16_kernel *bf16; /* a row's numbers are paired by lanes; NULL: float32 */
    size_t rows, columns, step;
} qk__matrix;

/* Rows that a kernel computes for so many. */
static inline size_t qk__whole_tiles(size_t rows)
{
    return (rows + QK_TILE - 1) / QK_TILE * QK_TILE;
}

/* Room for up to `rows`, as many as the weight in the file has. */
QK_MUST_CHECK qk_status qk__matrix_init(qk__matrix *matrix, size_t rows, size_t columns,
                                        qk_error *err);
void qk__matrix_free(qk__matrix *matrix);
/* Bytes that qk__matrix_init takes. */
int64_t qk__matrix_bytes(size_t rows, size_t columns);

/* Which rows of a weight a matrix holds: `count` heads of head_dim rows each, or all. */
typedef struct qk__head_rows {
    const int *heads; /* NULL: all rows */
    size_t count, head_dim;
} qk__head_rows;

/* What one matrix is to hold: a layer's weight and bias. */
typedef struct qk__matrix_source {
    qk__matrix *matrix;
    const qk__linear *linear;
    qk__head_rows which;
} qk__matrix_source;

/* Converts `count` of them, on `threads`, and rounds them; bf16 may be NULL. */
void qk__matrices_fill(const qk__matrix_source *sources, size_t count, qk__rounding rounding,
                       const qk__bf16_kernel *bf16, int threads);

/* Some panels of tokens: panel p is at values + p * step, a feature's tokens side by side. */
typedef struct qk__panels {
    float *values;
    size_t step, count;
} qk__panels;

/* y = rows [first_row, +num_rows) and columns [first_column, +num_columns) of the matrix times
 * x, which holds num_columns features; num_rows is in whole tiles, and y has room for them.
 * first_row and first_column are multiples of QK_TILE and QK_DEPTH. add: y grows by the
 * product. Bias is not added. x is paired by features if the matrix is of bfloat16 numbers. */
void qk__matrix_multiply(const qk__panel_kernel *kernel, const qk__matrix *matrix,
                         size_t first_row, size_t num_rows, size_t first_column,
                         size_t num_columns, const qk__panels *x, bool add,
                         const qk__panels *y);

/* y = matrix x + bias. */
void qk__matrix_apply(const qk__panel_kernel *kernel, const qk__matrix *matrix,
                      const qk__panels *x, const qk__panels *y);

/* y += bias, from row first_row of the matrix on, for `rows` features. */
void qk__matrix_add_bias(const qk__matrix *matrix, size_t first_row, size_t rows,
                         const qk__panels *y);

#endif
