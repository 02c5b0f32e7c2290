/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of rows that somebody else has summed. All rows of a text are one chunk. It has room for
 * QK__CHUNK_ROWS runs of a bucket: a text with more runs has further chunks, of those runs alone. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "state/chunk_moments.h"

/* What rounding may leave of the squares of equal numbers, of their sum. */
#define SQUARES_ERROR 1e-9
/* How far sums of parts may be from those of the whole. */
#define PARTS_ERROR 1e-6

size_t qk__summed_chunks(const qk__part_shape *shape, const qk__summed_rows *rows)
{
    size_t runs = 0;
    for (size_t r = 0; shape->by_bucket && r < rows->rows; r++)
        runs += r == 0 || rows->bucket[r] != rows->bucket[r - 1];
    return runs > 0 ? (runs + QK__CHUNK_ROWS - 1) / QK__CHUNK_ROWS : 1;
}

/* Positions about their mean, of all heads. */
static void put_positions(const qk__chunk_moments *chunk, const int64_t *position, size_t rows,
                          qk__moment_set *set)
{
    double sum = 0, squares = 0;
    for (size_t r = 0; r < rows; r++)
        sum += (double)(position[r] - position[0]);
    double mean = sum / (double)rows;
    for (size_t r = 0; r < rows; r++) {
        double step = (double)(position[r] - position[0]) - mean;
        squares += step * step;
    }
    for (size_t h = 0; h < chunk->shape.num_heads; h++) {
        set->count[h] = (int64_t)rows;
        set->mean_t[h] = (double)position[0] + mean;
        set->sum_tt[h] = squares;
    }
}

/* The runs of a chunk, and the first row of each. */
static void find_runs(qk__chunk_moments *chunk, const qk__summed_rows *rows, size_t skip,
                      size_t start[QK__CHUNK_ROWS])
{
    chunk->num_runs = chunk->all_runs = 0;
    for (size_t r = 0, run = 0; chunk->by_bucket && r < rows->rows; r++) {
        bool first = r == 0 || rows->bucket[r] != rows->bucket[r - 1];
        chunk->all_runs = run += first;
        if (run <= skip || run > skip + QK__CHUNK_ROWS)
            continue;
        if (first) {
            start[chunk->num_runs] = r;
            chunk->run[chunk->num_runs++] = (qk__chunk_run){.bucket = rows->bucket[r]};
        }
        chunk->run[chunk->num_runs - 1].rows++;
    }
}

qk_status qk__chunk_moments_expect(qk__chunk_moments *chunk, const qk__part_shape *shape,
                                   const qk__summed_rows *rows, size_t number, qk_error *err)
{
    size_t start[QK__CHUNK_ROWS] = {0};
    assert(rows->rows > 0);
    chunk->shape = (qk__set_shape){
        .num_heads = shape->num_heads, .dim = shape->dim, .pairs = shape->pairs};
    chunk->by_bucket = shape->by_bucket;
    chunk->first_run = number * QK__CHUNK_ROWS;
    find_runs(chunk, rows, chunk->first_run, start);
    qk_status status = qk__chunk_place_sets(chunk, err);
    if (status != QK_OK) {
        chunk->shape = (qk__set_shape){.num_heads = 0};
        return status;
    }
    chunk->first_position = rows->position[0];
    chunk->last_position = rows->position[rows->rows - 1];
    if (number == 0)
        put_positions(chunk, rows->position, rows->rows, &chunk->whole);
    else
        memset(chunk->whole.count, 0, shape->num_heads * sizeof *chunk->whole.count);
    for (size_t run = 0; run < chunk->num_runs; run++)
        put_positions(chunk, rows->position + start[run], chunk->run[run].rows,
                      &chunk->of_run[run]);
    return QK_OK;
}

/* ---- a head ----------------------------------------------------------------------------- */

/* A sum of squares about the mean, given what it was about the origin. Returns false where no rows can have
 * such a sum: it is negative by more than rounding. */
static bool put_square(double about_mean, double about_origin, double *to)
{
    *to = about_mean > 0 ? about_mean : 0;
    return isfinite(about_mean) && about_mean >= -SQUARES_ERROR * about_origin;
}

/* Means and slopes of a set from sums about the origin. */
static bool put_means(const qk__chunk_moments *chunk, const qk__moment_set *to, size_t head,
                      const qk__head_sums *sums, const double *x, const double *xt)
{
    const size_t d = chunk->shape.dim;
    const double n = (double)to->count[head], step_t = to->mean_t[head] - sums->origin_t;
    double *mean = to->mean + head * d, *slope = to->sum_xt + head * d;
    bool sound = true;
    for (size_t i = 0; i < d; i++) {
        mean[i] = (sums->origin ? sums->origin[i] : 0) + x[i] / n;
        slope[i] = xt[i] - x[i] * step_t;
        sound = sound && isfinite(mean[i]) && isfinite(slope[i]);
    }
    return sound;
}

static bool put_whole(const qk__chunk_moments *chunk, size_t head, const qk__head_sums *sums)
{
    const size_t d = chunk->shape.dim, pairs = chunk->shape.pairs;
    const double n = (double)chunk->whole.count[head], *x = sums->x;
    double *to = chunk->whole.sum_xx + head * qk__set_squares(&chunk->shape);
    bool sound = put_means(chunk, &chunk->whole, head, sums, x, sums->xt);
    for (size_t p = 0; p < pairs; p++) {
        chunk->whole.sum_abs[head * pairs + p] = sums->abs ? sums->abs[p] : NAN;
        sound = sound && !(sums->abs && !(sums->abs[p] >= 0 && isfinite(sums->abs[p])));
    }
    for (size_t i = 0; i < d; to += d - i, i++) {
        const double *squares = sums->xx + i * d;
        double mean = x[i] / n;
        sound = sound && put_square(squares[i] - mean * x[i], squares[i], to);
        for (size_t j = i + 1; j < d; j++) {
            to[j - i] = squares[j] - mean * x[j];
            sound = sound && isfinite(to[j - i]);
        }
    }
    return sound;
}

static bool put_run(const qk__chunk_moments *chunk, size_t run, size_t head,
                    const qk__head_sums *sums)
{
    const size_t d = chunk->shape.dim, at = (chunk->first_run + run) * d;
    const qk__moment_set *to = &chunk->of_run[run];
    const double n = (double)to->count[head], *x = sums->run_x + at;
    bool sound = put_means(chunk, to, head, sums, x, sums->run_xt + at);
    for (size_t i = 0; i < d; i++)
        sound = sound && put_square(sums->run_xx[at + i] - x[i] / n * x[i],
                                    sums->run_xx[at + i], to->sum_xx + head * d + i);
    return sound;
}

/* Whether sums by bucket add up to those of the whole. They do not where an array has its dimensions in
 * another order. */
static bool add_up(const qk__chunk_moments *chunk, size_t head, const qk__head_sums *sums)
{
    const size_t d = chunk->shape.dim;
    const double n = (double)chunk->whole.count[head];
    bool same = true;
    for (size_t i = 0; i < d; i++) {
        double x = 0, squares = 0, whole = sums->xx[i * d + i];
        for (size_t run = 0; run < sums->runs; run++) {
            x += sums->run_x[run * d + i];
            squares += sums->run_xx[run * d + i];
        }
        same = same && fabs(x - sums->x[i]) <= PARTS_ERROR * sqrt(n * whole) &&
               fabs(squares - whole) <= PARTS_ERROR * whole;
    }
    return same;
}

const char *qk__chunk_moments_take(qk__chunk_moments *chunk, size_t head,
                                   const qk__head_sums *sums)
{
    static const char NONE[] = "its numbers are not the sums of any rows in these positions";
    if (chunk->by_bucket && chunk->all_runs != sums->runs)
        return "its sums by bucket are of another number of buckets than its positions";
    if (chunk->first_run == 0 && !put_whole(chunk, head, sums))
        return NONE;
    if (chunk->by_bucket && chunk->first_run == 0 && !add_up(chunk, head, sums))
        return "its sums by bucket do not add up to those of all rows";
    for (size_t run = 0; run < chunk->num_runs; run++)
        if (!put_run(chunk, run, head, sums))
            return NONE;
    return NULL;
}

/* ---- means ------------------------------------------------------------------------------ */

qk_status qk__chunk_means_expect(qk__chunk_moments *chunk, const qk__part_shape *shape,
                                 const qk__summed_means *text, qk_error *err)
{
    assert(shape->means && shape->by_bucket && text->num_buckets <= QK__CHUNK_ROWS);
    chunk->shape = (qk__set_shape){
        .num_heads = shape->num_heads, .dim = shape->dim, .diagonal = true, .means = true};
    chunk->by_bucket = true;
    chunk->num_runs = 0;
    for (size_t b = 0; b < text->num_buckets; b++)
        if (text->rows[b] > 0)
            chunk->run[chunk->num_runs++] =
                (qk__chunk_run){.bucket = (int64_t)b, .rows = (size_t)text->rows[b]};
    qk_status status = qk__chunk_place_sets(chunk, err);
    if (status != QK_OK)
        chunk->shape = (qk__set_shape){.num_heads = 0};
    chunk->first_position = 0;
    chunk->last_position = text->last_position;
    return status;
}

bool qk__chunk_means_take(qk__chunk_moments *chunk, size_t head, const double *sums)
{
    const size_t d = chunk->shape.dim, sum = d - 1; /* behind the sums is a maximum */
    double *mean = chunk->whole.mean + head * d;
    int64_t rows = 0;
    bool finite = true;
    memset(mean, 0, sum * sizeof *mean);
    mean[sum] = -INFINITY;
    for (size_t run = 0; run < chunk->num_runs; run++) {
        const double *from = sums + (size_t)chunk->run[run].bucket * d;
        double *to = chunk->of_run[run].mean + head * d;
        chunk->of_run[run].count[head] = (int64_t)chunk->run[run].rows;
        rows += (int64_t)chunk->run[run].rows;
        for (size_t i = 0; i < d; i++)
            finite = finite && isfinite(from[i]);
        for (size_t i = 0; i < sum; i++) {
            to[i] = from[i] / (double)chunk->run[run].rows;
            mean[i] += from[i];
        }
        to[sum] = from[sum];
        mean[sum] = fmax(mean[sum], from[sum]);
    }
    for (size_t i = 0; i < sum; i++)
        mean[i] /= (double)rows;
    chunk->whole.count[head] = rows;
    return finite;
}
