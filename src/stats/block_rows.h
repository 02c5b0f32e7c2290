/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a qk_block, whose numbers are float or double: besides kernels, no other file distinguishes them. */
#ifndef QK_STATS_BLOCK_ROWS_H
#define QK_STATS_BLOCK_ROWS_H

#include <qkscope/stats.h>

#include "base/error.h"

/* The i-th number of all rows. */
static inline double qk__number_at(const qk_block *block, size_t i)
{
    return block->f32 ? (double)block->f32[i] : block->f64[i];
}

/* Where row `row` begins. */
static inline const void *qk__row_at(const qk_block *block, size_t row)
{
    size_t at = row * block->dim;
    return block->f32 ? (const void *)(block->f32 + at) : block->f64 + at;
}

/* Row r in double precision. */
static inline void qk__row_of(const qk_block *block, size_t r, double *row)
{
    for (size_t i = 0; i < block->dim; i++)
        row[i] = qk__number_at(block, r * block->dim + i);
}

/* Checks what a caller of the library gives: vectors of this dimension, with positions. */
static inline qk_status qk__check_block(const qk_block *block, size_t dim, qk_error *err)
{
    if (block->rows > 0 && (!block->f32 == !block->f64 || !block->position))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "a block of rows needs positions, and one of f32 and f64");
    if (block->rows > 0 && block->dim != dim)
        return qk__fail(err, QK_ERR_ARGUMENT, "rows of dimension %zu where it is %zu",
                        block->dim, dim);
    return QK_OK;
}

#endif
