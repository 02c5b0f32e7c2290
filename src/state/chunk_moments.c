/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of a few rows of every head, with the Gram kernels of stats.
 *
 * Sums are taken about a pilot near the mean, as in an accumulator, and then moved to the mean.
 * The rows are packed run by run: so packing gives the sums of each bucket, and the sums of all
 * rows are those of the runs. */
#include "state/chunk_moments.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

/* Sums of one run: x, x t and x^2. */
enum { RUN_SUMS = 3 };

qk_status qk__chunk_moments_create(qk__chunk_moments **chunk, qk_error *err)
{
    *chunk = calloc(1, sizeof **chunk);
    if (!*chunk)
        return qk__nomem(err);
    (*chunk)->kernel = qk__best_gram_kernel();
    for (uint32_t i = 0; i < QK__CHUNK_ROWS; i++)
        (*chunk)->index[i] = i;
    return QK_OK;
}

void qk__chunk_moments_free(qk__chunk_moments **chunk)
{
    assert(chunk);
    if (!*chunk)
        return;
    free((*chunk)->sets);
    free((*chunk)->work);
    free(*chunk);
    *chunk = NULL;
}

/* ---- before the first head -------------------------------------------------------------- */

static qk_status check_rows(const qk__part_shape *shape, const qk__chunk_rows *rows,
                            qk_error *err)
{
    if (rows->rows < 1 || rows->rows > QK__CHUNK_ROWS)
        return qk__fail(err, QK_ERR_ARGUMENT, "%zu rows of a chunk are not in 1..%d",
                        rows->rows, QK__CHUNK_ROWS);
    if (shape->by_bucket && !rows->bucket)
        return qk__fail(err, QK_ERR_ARGUMENT, "rows of a part by bucket come without buckets");
    for (size_t r = 1; r < rows->rows; r++)
        if (rows->position[r] < rows->position[r - 1])
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "position %lld follows position %lld: rows of a chunk ascend",
                            (long long)rows->position[r], (long long)rows->position[r - 1]);
    return QK_OK;
}

static void find_runs(qk__chunk_moments *chunk, const qk__chunk_rows *rows)
{
    chunk->num_runs = 0;
    for (size_t r = 0; r < rows->rows; r++) {
        int64_t bucket = chunk->by_bucket ? rows->bucket[r] : 0;
        if (r == 0 || chunk->run[chunk->num_runs - 1].bucket != bucket)
            chunk->run[chunk->num_runs++] = (qk__chunk_run){.bucket = bucket};
        chunk->run[chunk->num_runs - 1].rows++;
    }
}

/* Memory of at least so many numbers, whose old ones are forgotten. */
static qk_status make_room(double **memory, size_t *size, size_t wanted, qk_error *err)
{
    if (*size >= wanted)
        return QK_OK;
    free(*memory);
    *memory = qk__alloc_aligned(wanted, sizeof(double));
    *size = *memory ? wanted : 0;
    return *memory ? QK_OK : qk__nomem(err);
}

qk_status qk__chunk_place_sets(qk__chunk_moments *chunk, qk_error *err)
{
    qk__set_shape diagonals = chunk->shape;
    diagonals.diagonal = true;
    diagonals.pairs = 0;
    size_t whole = qk__set_size(&chunk->shape), each = qk__set_size(&diagonals);
    size_t sets = chunk->by_bucket ? chunk->num_runs : 0;
    QK_TRY(make_room(&chunk->sets, &chunk->sets_size, whole + sets * each, err));
    qk__set_place(&chunk->whole, &chunk->shape, chunk->sets);
    for (size_t i = 0; i < sets; i++)
        qk__set_place(&chunk->of_run[i], &diagonals, chunk->sets + whole + i * each);
    return QK_OK;
}

static qk_status place_work(qk__chunk_moments *chunk, qk_error *err)
{
    size_t panels = (chunk->shape.dim + PANEL - 1) / PANEL, columns = panels * PANEL;
    size_t tile = qk__tile_size(chunk->shape.dim), gram = qk__gram_size(panels);
    QK_TRY(make_room(&chunk->work, &chunk->work_size,
                     tile + gram + RUN_SUMS * chunk->num_runs * columns, err));
    qk__tile_place(&chunk->tile, chunk->kernel, chunk->shape.dim, chunk->work);
    chunk->gram = chunk->work + tile;
    chunk->runs = chunk->gram + gram;
    return QK_OK;
}

/* Positions about their mean, rounded to an integer: so the differences are exact. */
static void set_positions(qk__chunk_moments *chunk, const qk__chunk_rows *rows)
{
    double total = 0;
    for (size_t r = 0; r < rows->rows; r++) {
        chunk->t[r] = (double)((uint64_t)rows->position[r] - (uint64_t)rows->position[0]);
        total += chunk->t[r];
    }
    double middle = floor(total / (double)rows->rows);
    chunk->base_t = (double)rows->position[0] + middle;
    for (size_t r = 0; r < rows->rows; r++)
        chunk->t[r] -= middle;
    chunk->first_position = rows->position[0];
    chunk->last_position = rows->position[rows->rows - 1];
}

/* Sum of the positions of some rows, about base_t. Their moments are the same for all heads. */
static double put_positions(const qk__chunk_moments *chunk, size_t first, size_t rows,
                            qk__moment_set *set)
{
    double n = (double)rows, sum = 0, squares = 0;
    for (size_t r = first; r < first + rows; r++)
        sum += chunk->t[r];
    for (size_t r = first; r < first + rows; r++) {
        double step = chunk->t[r] - sum / n;
        squares += step * step;
    }
    for (size_t h = 0; h < chunk->shape.num_heads; h++) {
        set->count[h] = (int64_t)rows;
        set->mean_t[h] = chunk->base_t + sum / n;
        set->sum_tt[h] = squares;
    }
    return sum;
}

/* ---- one head --------------------------------------------------------------------------- */

static qk_status fail_values(const qk__part_shape *shape, const qk__chunk_rows *rows,
                             size_t head, qk_error *err)
{
    const float *x = rows->x + head * rows->head_stride;
    for (size_t r = 0; r < rows->rows; r++)
        for (size_t c = 0; c < shape->dim; c++)
            if (!isfinite(x[r * shape->dim + c]))
                return qk__fail(err, QK_ERR_INCONSISTENT,
                                "head %d, row %zu (position %lld), dimension %zu: NaN or "
                                "infinity",
                                shape->heads[head], r, (long long)rows->position[r], c);
    return QK_OK;
}

/* Squares of rows in the tile, by column. */
static void add_squares(const double *tile, size_t rows, size_t panels, double *sum)
{
    for (size_t p = 0; p < panels; p++) {
        const double *x = tile + p * TILE_ROWS * PANEL;
        double *to = sum + p * PANEL, total[PANEL] = {0};
        for (size_t r = 0; r < rows; r++)
            for (size_t j = 0; j < PANEL; j++)
                total[j] += x[r * PANEL + j] * x[r * PANEL + j];
        for (size_t j = 0; j < PANEL; j++)
            to[j] += total[j];
    }
}

/* Sums of each run, and the Gram matrix of all rows. */
static void sum_rows(qk__chunk_moments *chunk, const float *x, size_t rows)
{
    const size_t columns = chunk->tile.panels * PANEL, each = RUN_SUMS * columns;
    memset(chunk->runs, 0, chunk->num_runs * each * sizeof(double));
    for (size_t at = 0, run = 0, left = chunk->run[0].rows; at < rows;) {
        size_t start = at, full = rows - at < TILE_ROWS ? rows : at + TILE_ROWS;
        while (at < full) {
            size_t take = left < full - at ? left : full - at;
            double *sums = chunk->runs + run * each;
            double *tile = chunk->tile.rows + (at - start) * PANEL;
            chunk->kernel->pack_f32(x, chunk->index + at, chunk->shape.dim, chunk->tile.pilot,
                                    chunk->t + at, NULL, take, tile, sums, sums + columns,
                                    NULL);
            if (chunk->by_bucket)
                add_squares(tile, take, chunk->tile.panels, sums + 2 * columns);
            at += take;
            left -= take;
            if (left == 0 && ++run < chunk->num_runs)
                left = chunk->run[run].rows;
        }
        chunk->kernel->gram(chunk->tile.rows, at - start, chunk->tile.panels, start == 0,
                            chunk->gram);
    }
}

/* Mean and slope sums of so many rows with these sums about the pilot. */
static void put_means(const qk__chunk_moments *chunk, const double *sum, const double *sum_xt,
                      double sum_t, double n, double *mean, double *out)
{
    for (size_t c = 0; c < chunk->shape.dim; c++) {
        mean[c] = chunk->tile.pilot[c] + sum[c] / n;
        out[c] = sum_xt[c] - sum[c] / n * sum_t;
    }
}

static void put_run(const qk__chunk_moments *chunk, size_t run, double sum_t, size_t head)
{
    const size_t columns = chunk->tile.panels * PANEL, d = chunk->shape.dim;
    const double *sum = chunk->runs + run * RUN_SUMS * columns, *squares = sum + 2 * columns;
    const double n = (double)chunk->run[run].rows;
    const qk__moment_set *to = &chunk->of_run[run];
    put_means(chunk, sum, sum + columns, sum_t, n, to->mean + head * d, to->sum_xt + head * d);
    for (size_t c = 0; c < d; c++) {
        double s = squares[c] - sum[c] / n * sum[c];
        to->sum_xx[head * d + c] = s > 0 ? s : 0;
    }
}

static void put_whole(qk__chunk_moments *chunk, double sum_t, double n, size_t head)
{
    const size_t columns = chunk->tile.panels * PANEL, d = chunk->shape.dim;
    const qk__moment_set *to = &chunk->whole;
    double *out = to->sum_xx + head * qk__set_squares(&chunk->shape);
    memcpy(chunk->tile.sum, chunk->runs, 2 * columns * sizeof(double)); /* and sum_xt */
    for (size_t run = 1; run < chunk->num_runs; run++)
        chunk->kernel->add(chunk->tile.sum, chunk->runs + run * RUN_SUMS * columns,
                           2 * columns);
    put_means(chunk, chunk->tile.sum, chunk->tile.sum_xt, sum_t, n, to->mean + head * d,
              to->sum_xt + head * d);
    for (size_t i = 0; i < d; i++) {
        const double *gram = chunk->gram + qk__gram_row(chunk->tile.panels, i) + i;
        const double *sum = chunk->tile.sum + i;
        double mean = *sum / n;
        for (size_t j = 0; j < d - i; j++)
            out[j] = gram[j] - mean * sum[j];
        if (!(out[0] > 0))
            out[0] = 0;
        out += d - i;
    }
}

/* Lengths of the pairs of dimensions that turn together. */
static void sum_lengths(const qk__part_shape *shape, const float *x, size_t rows,
                        double *restrict sum)
{
    const size_t step = shape->interleaved ? 2 : 1;
    const size_t apart = shape->interleaved ? 1 : shape->pairs;
    memset(sum, 0, shape->pairs * sizeof *sum);
    for (size_t r = 0; r < rows; r++) {
        const float *row = x + r * shape->dim;
        for (size_t p = 0; p < shape->pairs; p++) {
            double a = row[p * step], b = row[p * step + apart];
            sum[p] += sqrt(a * a + b * b);
        }
    }
}

static qk_status sum_heads(qk__chunk_moments *chunk, const qk__part_shape *shape,
                           const qk__chunk_rows *rows, qk_error *err)
{
    const size_t runs = chunk->by_bucket ? chunk->num_runs : 0;
    const size_t first = rows->rows < TILE_ROWS ? rows->rows : TILE_ROWS;
    double sum_t[QK__CHUNK_ROWS], total_t = put_positions(chunk, 0, rows->rows, &chunk->whole);
    for (size_t run = 0, at = 0; run < runs; at += chunk->run[run].rows, run++)
        sum_t[run] = put_positions(chunk, at, chunk->run[run].rows, &chunk->of_run[run]);
    for (size_t h = 0; h < shape->num_heads; h++) {
        const float *x = rows->x + h * rows->head_stride;
        qk__tile_set_pilot(&chunk->tile,
                           &(qk__tile_rows){x, false, chunk->index, chunk->t, NULL, first});
        sum_rows(chunk, x, rows->rows);
        put_whole(chunk, total_t, (double)rows->rows, h);
        sum_lengths(shape, x, rows->rows, chunk->whole.sum_abs + h * shape->pairs);
        for (size_t run = 0; run < runs; run++)
            put_run(chunk, run, sum_t[run], h);
        if (!qk__all_finite(chunk->tile.sum, chunk->tile.panels * PANEL))
            return fail_values(shape, rows, h, err);
    }
    return QK_OK;
}

qk_status qk__chunk_moments_compute(qk__chunk_moments *chunk, const qk__part_shape *shape,
                                    const qk__chunk_rows *rows, qk_error *err)
{
    chunk->shape = (qk__set_shape){.num_heads = 0}; /* unless all goes well */
    QK_TRY(check_rows(shape, rows, err));
    chunk->shape = (qk__set_shape){
        .num_heads = shape->num_heads, .dim = shape->dim, .pairs = shape->pairs};
    chunk->by_bucket = shape->by_bucket;
    find_runs(chunk, rows);
    qk_status status = qk__chunk_place_sets(chunk, err);
    if (status == QK_OK)
        status = place_work(chunk, err);
    if (status == QK_OK) {
        set_positions(chunk, rows);
        status = sum_heads(chunk, shape, rows, err);
    }
    if (status != QK_OK)
        chunk->shape = (qk__set_shape){.num_heads = 0};
    return status;
}
