/* SPDX-License-Identifier: Apache-2.0 */
/* Weights to float32, and products of them: loops around the kernels that keep what they read
 * in the caches.
 *
 * A matrix is cut into chunks of CHUNK rows and QK_DEPTH columns, 128 KiB, which stay in the
 * second-level cache while all panels of a block of tokens pass; a panel's QK_DEPTH features,
 * 32 KiB, stay in the first while all rows of the chunk pass. */
#include "prefill/linear.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"
#include "prefill/rounding.h"

enum { CHUNK = 128, LINE = 16 /* floats in a cache line */ };

static size_t row_step(size_t columns)
{
    size_t lines = (columns + LINE - 1) / LINE;
    return (lines | 1) * LINE;
}

int64_t qk__matrix_bytes(size_t rows, size_t columns)
{
    return (int64_t)((qk__whole_tiles(rows) * row_step(columns) + rows) * sizeof(float));
}

qk_status qk__matrix_init(qk__matrix *matrix, size_t rows, size_t columns, qk_error *err)
{
    *matrix = (qk__matrix){.columns = columns, .step = row_step(columns)};
    size_t whole = qk__whole_tiles(rows);
    if (matrix->step <= SIZE_MAX / sizeof(float) / (whole ? whole : 1))
        matrix->values = qk__alloc_aligned(whole * matrix->step, sizeof(float));
    matrix->bias = qk__calloc(rows, sizeof(float));
    if (matrix->values && matrix->bias)
        return QK_OK;
    qk__matrix_free(matrix);
    return qk__nomem(err);
}

void qk__matrix_free(qk__matrix *matrix)
{
    free(matrix->values);
    free(matrix->bias);
    *matrix = (qk__matrix){0};
}

static size_t source_row(const qk__head_rows *which, size_t row)
{
    if (!which->heads)
        return row;
    return (size_t)which->heads[row / which->head_dim] * which->head_dim +
           row % which->head_dim;
}

static void convert(const qk__tensor *tensor, size_t row, qk__rounding rounding, float *out)
{
    const float *values = qk__tensor_rows(tensor, (int64_t)row, 1, out);
    size_t n = (size_t)tensor->columns;
    if (values != out)
        memcpy(out, values, n * sizeof *out);
    qk__round_values(rounding, out, n);
}

/* A bias is one row in the file, a head a stretch of it. */
static void fill_bias(const qk__matrix_source *source, qk__rounding rounding)
{
    qk__matrix *m = source->matrix;
    m->has_bias = source->linear->bias.data != NULL;
    if (!m->has_bias)
        return;
    convert(&source->linear->bias, 0, rounding, m->bias);
    const qk__head_rows *which = &source->which;
    for (size_t i = 0; which->heads && i < which->count; i++)
        memmove(m->bias + i * which->head_dim,
                m->bias + (size_t)which->heads[i] * which->head_dim,
                which->head_dim * sizeof *m->bias);
}

/* Of a matrix of bfloat16 numbers, rounded and paired. What a file has of them are words already; that
 * small ones are 0 is left to the product. */
static void fill_paired(const qk__matrix *m, const qk__tensor *weight, size_t row, float *out)
{
    const void *halves = m->bf16->words ? qk__tensor_bf16_row(weight, (int64_t)row) : NULL;
    if (halves) {
        out[(m->columns - 1) / 2] = 0; /* whose second half may be beside the last number */
        memcpy(out, halves, m->columns * sizeof(uint16_t));
        return;
    }
    convert(weight, row, QK__UNROUNDED, out);
    m->bf16->pair_lanes(out, m->columns);
}

typedef struct filling {
    const qk__matrix_source *sources;
    qk__rounding rounding;
} filling;

/* Job i is the i-th tile of all. */
static void fill_tile(void *context, size_t i, int worker)
{
    (void)worker;
    const filling *f = context;
    const qk__matrix_source *source = f->sources;
    for (; i >= qk__whole_tiles(source->matrix->rows) / QK_TILE; source++)
        i -= qk__whole_tiles(source->matrix->rows) / QK_TILE;
    qk__matrix *m = source->matrix;
    const qk__tensor *weight = &source->linear->weight;
    for (size_t row = i * QK_TILE; row < (i + 1) * QK_TILE; row++) {
        float *out = m->values + row * m->step;
        if (row >= m->rows)
            memset(out, 0, m->columns * sizeof *out);
        else if (m->bf16)
            fill_paired(m, weight, source_row(&source->which, row), out);
        else
            convert(weight, source_row(&source->which, row), f->rounding, out);
    }
}

void qk__matrices_fill(const qk__matrix_source *sources, size_t count, qk__rounding rounding,
                       const qk__bf16_kernel *bf16, int threads)
{
    size_t tiles = 0;
    for (size_t i = 0; i < count; i++) {
        const qk__matrix_source *s = &sources[i];
        s->matrix->rows = s->which.heads ? s->which.count * s->which.head_dim
                                         : (size_t)s->linear->weight.rows;
        s->matrix->bf16 = bf16;
        tiles += qk__whole_tiles(s->matrix->rows) / QK_TILE;
        fill_bias(s, rounding);
    }
    filling f = {sources, rounding};
    qk__parallel_for(tiles, threads, fill_tile, &f);
}

/* One tile: rows from `row` on, columns [column, +depth); x is the first of their features. */
static void multiply_tile(const qk__panel_kernel *kernel, const qk__matrix *matrix, size_t row,
                          size_t column, size_t depth, const float *x, bool add, float *y)
{
    const float *weights = matrix->values + row * matrix->step;
    if (matrix->bf16)
        matrix->bf16->rows(weights + qk__paired(matrix->bf16, column), matrix->step, depth, 1,
                           0, x, add, y);
    else
        kernel->rows(weights + column, matrix->step, depth, 1, 0, x, add, y);
}

void qk__matrix_multiply(const qk__panel_kernel *kernel, const qk__matrix *matrix,
                         size_t first_row, size_t num_rows, size_t first_column,
                         size_t num_columns, const qk__panels *x, bool add, const qk__panels *y)
{
    for (size_t k = 0; k < num_columns; k += QK_DEPTH) {
        size_t depth = num_columns - k < QK_DEPTH ? num_columns - k : QK_DEPTH;
        size_t feature = qk__paired(matrix->bf16, k); /* of x: where k's is */
        for (size_t chunk = 0; chunk < num_rows; chunk += CHUNK) {
            size_t end = num_rows - chunk < CHUNK ? num_rows : chunk + CHUNK;
            for (size_t p = 0; p < x->count; p++)
                for (size_t row = chunk; row < end; row += QK_TILE)
                    multiply_tile(kernel, matrix, first_row + row, first_column + k, depth,
                                  x->values + p * x->step + feature * QK_LANES, add || k > 0,
                                  y->values + p * y->step + row * QK_LANES);
        }
    }
}

void qk__matrix_add_bias(const qk__matrix *matrix, size_t first_row, size_t rows,
                         const qk__panels *y)
{
    if (!matrix->has_bias)
        return;
    for (size_t p = 0; p < y->count; p++)
        for (size_t row = 0; row < rows; row++) {
            float *out = y->values + p * y->step + row * QK_LANES;
            for (size_t lane = 0; lane < QK_LANES; lane++)
                out[lane] += matrix->bias[first_row + row];
        }
}

void qk__matrix_apply(const qk__panel_kernel *kernel, const qk__matrix *matrix,
                      const qk__panels *x, const qk__panels *y)
{
    qk__matrix_multiply(kernel, matrix, 0, qk__whole_tiles(matrix->rows), 0, matrix->columns, x,
                        false, y);
    qk__matrix_add_bias(matrix, 0, matrix->rows, y);
}
