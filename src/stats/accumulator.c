/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over rows to moments about their means, all together or by groups of texts.
 *
 * Rows wait until there is a batch of them. A batch is cut into tiles in the order of the rows
 * or, with texts, one group after the other: so the Gram kernel always has full tiles, however
 * the rows of a text lie, and the matrix of one group at a time in the cache. */
#include "stats/moments.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bit_width.h"
#include "base/buffer.h"
#include "base/error.h"
#include "stats/block_rows.h"

/* With texts a batch has so many rows, or fewer where they are longer. */
enum { BATCH_ROWS = 4096, BATCH_VALUES = BATCH_ROWS * 128 };

/* Texts whose groups are remembered: with so few texts, rows may come in any order without a search for each. */
enum { RECENT_TEXTS = 128 };

struct qk_accumulator {
    size_t dim;
    int64_t count; /* rows in the sums; `filled` more wait */
    bool started, has_texts, wide, has_pilot;
    qk__tile tile;
    double pilot_t, tile_t[TILE_ROWS]; /* positions in the tile are about pilot_t */
    double tile_o[TILE_ROWS];          /* and their octaves, where rows have texts */
    double *tile_memory;

    /* rows that wait */
    size_t batch, filled;
    void *x; /* float, or double where wide */
    int64_t *t;
    uint8_t *group;  /* of each row; all 0 without texts */
    uint32_t *order; /* rows by group */

    qk__text_groups groups;
    qk__known_text recent[RECENT_TEXTS]; /* by the last bits of their ids */
    qk__sums sums[QK_TEXT_GROUPS];       /* [groups.limit], in one piece of memory */
    double *memory;
};

/* ---- creating --------------------------------------------------------------------------- */

qk_status qk_accumulator_create(qk_accumulator **acc, size_t dim, qk_error *err)
{
    QK_NEED(err, acc);
    *acc = NULL;
    if (dim < 1 || dim > QK_MAX_DIM)
        return qk__fail(err, QK_ERR_ARGUMENT, "vector dimension %zu is not in 1..%d", dim,
                        QK_MAX_DIM);
    qk_accumulator *a = calloc(1, sizeof *a);
    if (!a)
        return qk__nomem(err);
    a->dim = dim;
    a->tile_memory = qk__alloc_aligned(qk__tile_size(dim), sizeof(double));
    if (!a->tile_memory) {
        qk_accumulator_free(&a);
        return qk__nomem(err);
    }
    qk__tile_place(&a->tile, qk__best_gram_kernel(), dim, a->tile_memory);
    *acc = a;
    return QK_OK;
}

void qk_accumulator_free(qk_accumulator **acc)
{
    assert(acc);
    qk_accumulator *a = *acc;
    if (!a)
        return;
    free(a->tile_memory);
    free(a->x);
    free(a->t);
    free(a->group);
    free(a->order);
    qk__text_groups_free(&a->groups);
    free(a->memory);
    free(a);
    *acc = NULL;
}

void qk__accumulator_reuse(qk_accumulator *acc, qk__spare_sums spare)
{
    if (!acc->started && !acc->memory && spare.panels == acc->tile.panels)
        acc->memory = spare.memory;
    else
        free(spare.memory);
}

/* When the first rows show what they are. */
static qk_status start_sums(qk_accumulator *acc, bool wide, bool has_texts, qk_error *err)
{
    acc->has_texts = has_texts;
    acc->wide = wide;
    acc->batch = has_texts ? qk__accumulator_batch(acc->dim) : TILE_ROWS;
    acc->group = qk__calloc(acc->batch, sizeof *acc->group);
    acc->order = qk__calloc(acc->batch, sizeof *acc->order);
    uint32_t limit = has_texts ? qk__most_text_groups(acc->tile.panels) : 1;
    if (!acc->memory || !has_texts) {
        free(acc->memory);
        acc->memory = qk__sums_memory(limit, acc->tile.panels);
    }
    if (!acc->group || !acc->order || !acc->memory)
        return qk__nomem(err);
    qk__sums_place(acc->sums, limit, acc->memory, acc->tile.panels);
    for (size_t i = 0; i < acc->batch; i++)
        acc->order[i] = (uint32_t)i;
    qk__text_groups_start(&acc->groups, limit);
    acc->started = true;
    return QK_OK;
}

/* Room for rows that wait; rows that come a batch at a time do not wait. */
static qk_status make_room(qk_accumulator *acc, qk_error *err)
{
    if (acc->x)
        return QK_OK;
    acc->x =
        qk__alloc_aligned(acc->batch * acc->dim, acc->wide ? sizeof(double) : sizeof(float));
    acc->t = qk__calloc(acc->batch, sizeof *acc->t);
    return acc->x && acc->t ? QK_OK : qk__nomem(err);
}

/* The first rows were float and now there are double ones. */
static qk_status widen_sums(qk_accumulator *acc, qk_error *err)
{
    acc->wide = true;
    if (!acc->x)
        return QK_OK;
    double *wide = qk__alloc_aligned(acc->batch * acc->dim, sizeof *wide);
    const float *narrow = acc->x;
    if (!wide)
        return qk__nomem(err);
    for (size_t i = 0; i < acc->filled * acc->dim; i++)
        wide[i] = narrow[i];
    free(acc->x);
    acc->x = wide;
    return QK_OK;
}

/* ---- gathering a batch ------------------------------------------------------------------ */

static double value_at(const qk_accumulator *acc, const void *x, size_t i)
{
    return acc->wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

/* A sum is not finite: finds the row that caused it. */
static qk_status fail_values(const qk_accumulator *acc, const void *x, size_t rows,
                             qk_error *err)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < acc->dim; c++)
            if (!isfinite(value_at(acc, x, r * acc->dim + c)))
                return qk__fail(err, QK_ERR_INCONSISTENT,
                                "NaN or infinity in row %lld, dimension %zu",
                                (long long)acc->count + (long long)r, c);
    return qk__fail(err, QK_ERR_INCONSISTENT, "values up to row %lld are too large to sum",
                    (long long)acc->count + (long long)rows - 1);
}

/* How often a position, counted from 1, has doubled. */
static double octave_of(int64_t t)
{
    return t > 0 ? (double)qk__bit_width((uint64_t)t + 1) - 1 : 0;
}

/* The rows index[0 .. rows) of x, with positions about the pilot. */
static qk__tile_rows tile_rows(qk_accumulator *acc, const void *x, const int64_t *t,
                               const uint32_t *index, size_t rows)
{
    for (size_t r = 0; r < rows; r++)
        acc->tile_t[r] = (double)t[index[r]] - acc->pilot_t;
    for (size_t r = 0; r < rows && acc->has_texts; r++)
        acc->tile_o[r] = octave_of(t[index[r]]);
    return (qk__tile_rows){
        x, acc->wide, index, acc->tile_t, acc->has_texts ? acc->tile_o : NULL, rows};
}

/* Sets the pilot to the means of the first rows. */
static qk_status set_pilot(qk_accumulator *acc, const void *x, const int64_t *t, size_t rows,
                           qk_error *err)
{
    size_t first = rows < TILE_ROWS ? rows : TILE_ROWS;
    double total = 0;
    for (size_t r = 0; r < first; r++) {
        acc->order[r] = (uint32_t)r;
        total += (double)t[r];
    }
    const qk__tile_rows taken = tile_rows(acc, x, t, acc->order, first);
    qk__tile_set_pilot(&acc->tile, &taken);
    if (!qk__all_finite(acc->tile.sum, acc->dim))
        return fail_values(acc, x, rows, err);
    acc->pilot_t = floor(total / (double)first); /* an integer keeps t - pilot_t exact */
    acc->has_pilot = true;
    return QK_OK;
}

/* Sorts rows by group and keeps their order within each; ends[g] is where group g ends. */
static void sort_rows(qk_accumulator *acc, size_t rows, size_t ends[QK_TEXT_GROUPS])
{
    size_t count[QK_TEXT_GROUPS] = {0}, start = 0;
    for (size_t r = 0; r < rows; r++)
        count[acc->group[r]]++;
    for (size_t g = 0; g < QK_TEXT_GROUPS; g++) {
        ends[g] = start;
        start += count[g];
    }
    for (size_t r = 0; r < rows; r++)
        acc->order[ends[acc->group[r]]++] = (uint32_t)r;
}

static qk_status gather_rows(qk_accumulator *acc, const void *x, const int64_t *t, size_t rows,
                             qk_error *err)
{
    size_t ends[QK_TEXT_GROUPS] = {rows}, at = 0;
    if (rows == 0)
        return QK_OK;
    if (!acc->has_pilot)
        QK_TRY(set_pilot(acc, x, t, rows, err));
    if (acc->has_texts)
        sort_rows(acc, rows, ends);
    for (size_t g = 0; g < QK_TEXT_GROUPS && at < rows; g++) {
        while (at < ends[g]) {
            size_t take = ends[g] - at < TILE_ROWS ? ends[g] - at : TILE_ROWS;
            const qk__tile_rows taken = tile_rows(acc, x, t, acc->order + at, take);
            qk__tile_pack(&acc->tile, &taken);
            if (!qk__all_finite(acc->tile.sum, acc->dim))
                return fail_values(acc, x, rows, err);
            qk__sums_add_tile(&acc->sums[g], &acc->tile, &taken);
            at += take;
        }
    }
    acc->count += (int64_t)rows;
    return QK_OK;
}

/* ---- rows that arrive ------------------------------------------------------------------- */

/* Groups have joined: their sums join, and the rows that wait move. The remembered texts are forgotten. */
static void follow(qk_accumulator *acc, const uint32_t move[QK_MOST_GROUPS], size_t waiting)
{
    for (size_t r = 0; r < waiting; r++)
        acc->group[r] = (uint8_t)move[acc->group[r]];
    for (size_t g = 0; g < acc->groups.limit; g++) {
        qk__sums *from = &acc->sums[g], *to = &acc->sums[move[g]];
        if (from == to || from->count == 0)
            continue;
        qk__sums_add(acc->tile.kernel, to, from, acc->tile.panels);
        *from = qk__sums_at(from->gram, acc->tile.panels);
    }
    memset(acc->recent, 0, sizeof acc->recent);
}

/* Notes the groups of the next rows. */
static qk_status note_texts(qk_accumulator *acc, const int64_t *text, size_t rows,
                            qk_error *err)
{
    uint8_t *group = acc->group + acc->filled;
    for (size_t r = 0; r < rows; r++) {
        uint64_t id = (uint64_t)text[r];
        qk__known_text *recent = &acc->recent[id % RECENT_TEXTS];
        if (!recent->used || recent->id != id) {
            uint32_t move[QK_MOST_GROUPS];
            bool joined;
            QK_TRY(qk__text_groups_find(&acc->groups, text[r], &recent->group, &joined, move,
                                        err));
            recent->id = id;
            recent->used = true;
            if (joined) {
                qk__known_text found = *recent;
                follow(acc, move, acc->filled + r);
                *recent = found;
            }
        }
        group[r] = (uint8_t)recent->group;
    }
    return QK_OK;
}

static qk_status put_aside(qk_accumulator *acc, const void *x, bool wide, const int64_t *t,
                           size_t rows, qk_error *err)
{
    QK_TRY(make_room(acc, err));
    size_t at = acc->filled * acc->dim, count = rows * acc->dim;
    size_t bytes = acc->wide ? sizeof(double) : sizeof(float);
    if (wide == acc->wide)
        memcpy((char *)acc->x + at * bytes, x, count * bytes);
    else
        for (size_t i = 0; i < count; i++)
            ((double *)acc->x)[at + i] = ((const float *)x)[i];
    memcpy(acc->t + acc->filled, t, rows * sizeof *t);
    acc->filled += rows;
    return QK_OK;
}

qk_status qk__accumulator_add_block(qk_accumulator *acc, const qk_block *block, bool last,
                                    qk_error *err)
{
    const bool wide = !block->f32, has_texts = block->example != NULL;
    if (block->rows == 0)
        return QK_OK;
    if (!acc->started)
        QK_TRY(start_sums(acc, wide, has_texts, err));
    if (acc->has_texts != has_texts)
        return qk__fail(err, QK_ERR_ARGUMENT, "some rows come with texts and some without");
    if (wide && !acc->wide)
        QK_TRY(widen_sums(acc, err));
    for (size_t row = 0, take; row < block->rows; row += take) {
        size_t room = acc->batch - acc->filled, left = block->rows - row;
        const void *x = qk__row_at(block, row);
        const int64_t *t = block->position + row;
        take = room < left ? room : left;
        if (has_texts)
            QK_TRY(note_texts(acc, block->example + row, take, err));
        bool whole = take == acc->batch || (last && take == left && acc->filled == 0);
        if (whole && wide == acc->wide) {
            QK_TRY(gather_rows(acc, x, t, take, err)); /* without a copy */
        } else {
            QK_TRY(put_aside(acc, x, wide, t, take, err));
        }
        if (acc->filled == acc->batch) {
            QK_TRY(gather_rows(acc, acc->x, acc->t, acc->filled, err));
            acc->filled = 0;
        }
    }
    return QK_OK;
}

qk_status qk_accumulator_add(qk_accumulator *acc, const qk_block *rows, qk_error *err)
{
    QK_NEED(err, acc, rows);
    QK_TRY(qk__check_block(rows, acc->dim, err));
    return qk__accumulator_add_block(acc, rows, false, err);
}

qk_status qk__accumulator_add_row(qk_accumulator *acc, const qk_block *block, size_t row,
                                  qk_error *err)
{
    qk_block one = {.rows = 1, .dim = block->dim, .position = block->position + row};
    if (block->f32)
        one.f32 = block->f32 + row * block->dim;
    else
        one.f64 = block->f64 + row * block->dim;
    return qk__accumulator_add_block(acc, &one, false, err);
}

size_t qk__accumulator_batch(size_t dim)
{
    size_t rows = BATCH_VALUES / dim / TILE_ROWS * TILE_ROWS;
    return rows < TILE_ROWS ? TILE_ROWS : rows > BATCH_ROWS ? BATCH_ROWS : rows;
}

/* ---- the end ---------------------------------------------------------------------------- */

/* Moments of all groups together. */
static qk_status conclude(const qk_accumulator *acc, qk_moments *m, qk_error *err)
{
    if (acc->count == 0)
        return QK_OK;
    if (acc->groups.count < 2) {
        qk__sums_centre(&acc->sums[0], &acc->tile, acc->pilot_t, m);
    } else {
        double *memory = qk__sums_memory(1, acc->tile.panels);
        if (!memory)
            return qk__nomem(err);
        qk__sums total = qk__sums_at(memory, acc->tile.panels);
        for (uint32_t g = acc->groups.count; g-- > 0;) /* the last is still in the cache */
            qk__sums_add(acc->tile.kernel, &total, &acc->sums[g], acc->tile.panels);
        qk__sums_centre(&total, &acc->tile, acc->pilot_t, m);
        free(memory);
    }
    return qk__moments_check(m, err);
}

/* Passes the groups on. */
static qk_status keep_groups(qk_accumulator *acc, const qk_moments *m, qk__text_moments **texts,
                             qk_error *err)
{
    qk__text_moments *kept;
    QK_TRY(qk__text_moments_create(&kept, m, acc->tile.pilot, acc->pilot_t, err));
    kept->groups = acc->groups;
    kept->has_octaves = true;
    memcpy(kept->sums, acc->sums, sizeof kept->sums);
    kept->memory = acc->memory;
    acc->memory = NULL;
    acc->groups = (qk__text_groups){0};
    *texts = kept;
    return QK_OK;
}

static qk_status finish_sums(qk_accumulator **acc, qk_moments **moments,
                             qk__text_moments **texts, qk_error *err)
{
    qk_accumulator *a = *acc;
    qk_moments *m = NULL;
    qk_status status = gather_rows(a, a->x, a->t, a->filled, err);
    if (status == QK_OK && !(m = qk__moments_create(a->dim)))
        status = qk__nomem(err);
    if (status == QK_OK)
        status = conclude(a, m, err);
    if (status == QK_OK && texts && a->has_texts)
        status = keep_groups(a, m, texts, err);
    if (status != QK_OK)
        qk_moments_free(&m);
    qk_accumulator_free(acc);
    *moments = m;
    return status;
}

qk_status qk__accumulator_finish_texts(qk_accumulator **acc, qk_moments **moments,
                                       qk__text_moments **texts, qk_error *err)
{
    *moments = NULL;
    if (texts)
        *texts = NULL;
    return finish_sums(acc, moments, texts, err);
}

qk_status qk_accumulator_finish(qk_accumulator **acc, qk_moments **moments, qk_error *err)
{
    QK_NEED(err, acc);
    QK_NEED(err, *acc);
    if (!moments)
        qk_accumulator_free(acc);
    QK_NEED(err, moments);
    *moments = NULL;
    return finish_sums(acc, moments, NULL, err);
}
