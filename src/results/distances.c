/* SPDX-License-Identifier: Apache-2.0 */
/* Sums plasticity by distance and lag over the heads of each model. */
#include "results/distances.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"

/* Tables have at most 512 bins a side, but lags need not begin at 0. */
enum { MAX_SIDE = 1024, MAX_SHIFT = 53 };
static const size_t MAX_CELLS = (size_t)1 << 26; /* of all models: 1 GiB */

typedef struct cell {
    double pairs, sum; /* sum of ap * pairs */
} cell;

struct qk__distance_grid {
    size_t columns, rows;          /* bins that were met */
    size_t stride, allocated_rows; /* of cells */
    int shift;                     /* 2^shift bins of the file are one here */
    cell *cells;
};

void qk__distances_free(qk__distances *distances)
{
    for (size_t i = 0; i < distances->count; i++)
        free(distances->grids[i].cells);
    free(distances->grids);
    *distances = (qk__distances){0};
}

static qk_status add_grids(qk__distances *distances, size_t model, qk_error *err)
{
    size_t count = model + 1 > distances->count * 2 ? model + 1 : distances->count * 2;
    if (count > SIZE_MAX / sizeof *distances->grids)
        return qk__nomem(err);
    qk__distance_grid *grids = realloc(distances->grids, count * sizeof *grids);
    if (!grids)
        return qk__nomem(err);
    for (size_t i = distances->count; i < count; i++)
        grids[i] = (qk__distance_grid){0};
    distances->grids = grids;
    distances->count = count;
    return QK_OK;
}

/* Room for one more than the bins, in powers of two, in grids of 2^shift bins of the file. */
static qk_status reshape(qk__distances *distances, qk__distance_grid *grid, size_t column,
                         size_t row, int shift, qk_error *err)
{
    size_t columns = 16, rows = 16;
    int more = shift - grid->shift;
    while (columns <= column || columns < (grid->columns >> more) + 1)
        columns *= 2;
    while (rows <= row || rows < (grid->rows >> more) + 1)
        rows *= 2;
    size_t old = grid->stride * grid->allocated_rows;
    if (columns * rows > MAX_CELLS - (distances->cells - old))
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "the distance tables of all models have more than %zu cells",
                        MAX_CELLS);
    cell *cells = qk__calloc(columns * rows, sizeof *cells);
    if (!cells)
        return qk__nomem(err);
    for (size_t r = 0; r < grid->rows; r++) {
        for (size_t c = 0; c < grid->columns; c++) {
            const cell *from = &grid->cells[r * grid->stride + c];
            cell *to = &cells[(r >> more) * columns + (c >> more)];
            to->pairs += from->pairs;
            to->sum += from->sum;
        }
    }
    free(grid->cells);
    distances->cells += columns * rows - old;
    size_t last_column = grid->columns > 0 ? (grid->columns - 1) >> more : 0;
    size_t last_row = grid->rows > 0 ? (grid->rows - 1) >> more : 0;
    *grid = (qk__distance_grid){.columns = grid->columns > 0 ? last_column + 1 : 0,
                                .rows = grid->rows > 0 ? last_row + 1 : 0,
                                .stride = columns,
                                .allocated_rows = rows,
                                .shift = shift,
                                .cells = cells};
    return QK_OK;
}

qk_status qk__distances_add(qk__distances *distances, size_t model, int64_t distance_bin,
                            int64_t lag_bin, double pairs, double ap, qk_error *err)
{
    if (distance_bin < 0 || lag_bin < 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "negative bins");
    if (model >= distances->count)
        QK_TRY(add_grids(distances, model, err));
    qk__distance_grid *grid = &distances->grids[model];
    int shift = grid->shift;
    while (shift < MAX_SHIFT &&
           ((distance_bin >> shift) >= MAX_SIDE || (lag_bin >> shift) >= MAX_SIDE))
        shift++;
    size_t column = (size_t)(distance_bin >> shift), row = (size_t)(lag_bin >> shift);
    if (shift != grid->shift || column >= grid->stride || row >= grid->allocated_rows)
        QK_TRY(reshape(distances, grid, column, row, shift, err));
    grid->columns = column >= grid->columns ? column + 1 : grid->columns;
    grid->rows = row >= grid->rows ? row + 1 : grid->rows;
    if (pairs > 0 && isfinite(ap)) {
        cell *at = &grid->cells[row * grid->stride + column];
        at->pairs += pairs;
        at->sum += pairs * ap;
    }
    return QK_OK;
}

qk_status qk__distances_map(const qk__distances *distances, size_t model, double bucket_width,
                            qk__arena *arena, qk__distance_map *map, qk_error *err)
{
    *map = (qk__distance_map){.bucket_width = bucket_width};
    if (model >= distances->count || distances->grids[model].rows == 0)
        return QK_OK;
    const qk__distance_grid *grid = &distances->grids[model];
    double *ap = qk__arena_alloc(arena, grid->rows * grid->columns, sizeof *ap);
    double *pairs = qk__arena_alloc(arena, grid->rows * grid->columns, sizeof *pairs);
    if (!ap || !pairs)
        return qk__nomem(err);
    for (size_t r = 0; r < grid->rows; r++) {
        for (size_t c = 0; c < grid->columns; c++) {
            const cell *at = &grid->cells[r * grid->stride + c];
            ap[r * grid->columns + c] = at->pairs > 0 ? at->sum / at->pairs : NAN;
            pairs[r * grid->columns + c] = at->pairs;
        }
    }
    map->columns = grid->columns;
    map->rows = grid->rows;
    map->ap = ap;
    map->pairs = pairs;
    map->bucket_width = ldexp(bucket_width, grid->shift);
    return QK_OK;
}
