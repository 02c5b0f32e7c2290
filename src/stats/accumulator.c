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

#include "base/buffer.h"
#include "base/error.h"
#include "stats/block_rows.h"

/* With texts a batch has so many rows, or fewer where they are longer. */
enum { BATCH_ROWS = 4096, BATCH_VALUES = BATCH_ROWS * 128 };

/* Texts whose groups need no search: rows of few texts may come in any order. */
enum { RECENT_TEXTS = 128 };

/* Numbers in the Gram matrices of all groups, at most. */
static const size_t MAX_GRAMS = (size_t)5 << 20;

struct qk_accumulator {
    const qk__gram_kernel *kernel;
    size_t dim, panels;
    int64_t count; /* rows in the sums; `filled` more wait */
    bool started, has_texts, wide, has_pilot;
    double pilot_t;
    double *pilot;                  /* the arrays below have panels * PANEL columns */
    double *tile_sum, *tile_sum_xt; /* of the rows in the tile */
    double *tile;
    double tile_t[TILE_ROWS]; /* positions in the tile, about pilot_t */

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

/* ---- sums ------------------------------------------------------------------------------- */

size_t qk__sums_size(size_t panels)
{
    return qk__gram_size(panels) + 2 * panels * PANEL;
}

qk__sums qk__sums_at(double *memory, size_t panels)
{
    double *sum = memory + qk__gram_size(panels);
    return (qk__sums){.gram = memory, .sum = sum, .sum_xt = sum + panels * PANEL};
}

/* Memory for the sums of `count` groups, in one piece. */
static double *sums_memory(size_t count, size_t panels)
{
    return qk__alloc_aligned(count * qk__sums_size(panels), sizeof(double));
}

static void sums_add(const qk__gram_kernel *kernel, qk__sums *to, const qk__sums *more,
                     size_t panels)
{
    size_t size = qk__sums_size(panels);
    if (to->count == 0)
        memcpy(to->gram, more->gram, size * sizeof(double));
    else
        kernel->add(to->gram, more->gram, size);
    to->count += more->count;
    to->sum_t += more->sum_t;
    to->sum_tt += more->sum_tt;
}

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
    a->kernel = qk__best_gram_kernel();
    a->dim = dim;
    a->panels = (dim + PANEL - 1) / PANEL;
    size_t columns = a->panels * PANEL;
    a->pilot = qk__calloc(columns, sizeof(double));
    a->tile_sum = qk__calloc(columns, sizeof(double));
    a->tile_sum_xt = qk__calloc(columns, sizeof(double));
    a->tile = qk__alloc_aligned(columns * TILE_ROWS, sizeof(double));
    if (!a->pilot || !a->tile_sum || !a->tile_sum_xt || !a->tile) {
        qk_accumulator_free(&a);
        return qk__nomem(err);
    }
    memset(a->tile, 0, columns * TILE_ROWS * sizeof(double)); /* the padding stays zero */
    *acc = a;
    return QK_OK;
}

void qk_accumulator_free(qk_accumulator **acc)
{
    assert(acc);
    qk_accumulator *a = *acc;
    if (!a)
        return;
    free(a->pilot);
    free(a->tile_sum);
    free(a->tile_sum_xt);
    free(a->tile);
    free(a->x);
    free(a->t);
    free(a->group);
    free(a->order);
    qk__text_groups_free(&a->groups);
    free(a->memory);
    free(a);
    *acc = NULL;
}

uint32_t qk__most_text_groups(size_t panels)
{
    size_t fit = MAX_GRAMS / qk__gram_size(panels);
    uint32_t groups = QK_TEXT_GROUPS;
    while (groups > fit && groups > 1)
        groups /= 2;
    return groups;
}

void qk__accumulator_reuse(qk_accumulator *acc, qk__spare_sums spare)
{
    if (!acc->started && !acc->memory && spare.panels == acc->panels)
        acc->memory = spare.memory;
    else
        free(spare.memory);
}

/* Once the first rows show what they are. */
static qk_status start(qk_accumulator *acc, bool wide, bool has_texts, qk_error *err)
{
    acc->has_texts = has_texts;
    acc->wide = wide;
    acc->batch = has_texts ? qk__accumulator_batch(acc->dim) : TILE_ROWS;
    acc->group = qk__calloc(acc->batch, sizeof *acc->group);
    acc->order = qk__calloc(acc->batch, sizeof *acc->order);
    uint32_t limit = has_texts ? qk__most_text_groups(acc->panels) : 1;
    if (!acc->memory || !has_texts) {
        free(acc->memory);
        acc->memory = sums_memory(limit, acc->panels);
    }
    for (size_t g = 0; acc->memory && g < limit; g++)
        acc->sums[g] = qk__sums_at(acc->memory + g * qk__sums_size(acc->panels), acc->panels);
    if (!acc->group || !acc->order || !acc->memory)
        return qk__nomem(err);
    for (size_t i = 0; i < acc->batch; i++)
        acc->order[i] = (uint32_t)i;
    qk__text_groups_start(&acc->groups, limit);
    acc->started = true;
    return QK_OK;
}

/* Room for rows that wait; rows that come a batch at a time do not. */
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
static qk_status widen(qk_accumulator *acc, qk_error *err)
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

/* A NaN or infinity in a column shows in its sum: find the row it came from. */
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

static bool is_finite(const qk_accumulator *acc)
{
    bool finite = true;
    for (size_t c = 0; c < acc->dim; c++)
        finite = finite && isfinite(acc->tile_sum[c]);
    return finite;
}

/* Puts rows index[0 .. rows) of x into the tile. */
static void pack(qk_accumulator *acc, const void *x, const int64_t *t, const uint32_t *index,
                 size_t rows)
{
    for (size_t r = 0; r < rows; r++)
        acc->tile_t[r] = (double)t[index[r]] - acc->pilot_t;
    memset(acc->tile_sum, 0, acc->dim * sizeof(double));
    memset(acc->tile_sum_xt, 0, acc->dim * sizeof(double));
    if (acc->wide)
        acc->kernel->pack_f64(x, index, acc->dim, acc->pilot, acc->tile_t, rows, acc->tile,
                              acc->tile_sum, acc->tile_sum_xt);
    else
        acc->kernel->pack_f32(x, index, acc->dim, acc->pilot, acc->tile_t, rows, acc->tile,
                              acc->tile_sum, acc->tile_sum_xt);
}

/* The means of the first rows of all. */
static qk_status set_pilot(qk_accumulator *acc, const void *x, const int64_t *t, size_t rows,
                           qk_error *err)
{
    size_t first = rows < TILE_ROWS ? rows : TILE_ROWS;
    double n = (double)first, total = 0;
    for (size_t r = 0; r < first; r++) {
        acc->order[r] = (uint32_t)r;
        total += (double)t[r];
    }
    pack(acc, x, t, acc->order, first);
    if (!is_finite(acc))
        return fail_values(acc, x, rows, err);
    for (size_t c = 0; c < acc->dim; c++)
        acc->pilot[c] = acc->tile_sum[c] / n;
    acc->pilot_t = floor(total / n); /* an integer keeps t - pilot_t exact */
    acc->has_pilot = true;
    return QK_OK;
}

static qk_status add_tile(qk_accumulator *acc, const void *x, const int64_t *t,
                          const uint32_t *index, size_t rows, qk__sums *to)
{
    pack(acc, x, t, index, rows);
    if (!is_finite(acc))
        return QK_ERR_INCONSISTENT;
    if (to->count == 0)
        memset(to->sum, 0, 2 * acc->panels * PANEL * sizeof(double));
    double sum_t = 0, sum_tt = 0;
    for (size_t r = 0; r < rows; r++) {
        sum_t += acc->tile_t[r];
        sum_tt += acc->tile_t[r] * acc->tile_t[r];
    }
    to->sum_t += sum_t;
    to->sum_tt += sum_tt;
    for (size_t c = 0; c < acc->dim; c++) {
        to->sum[c] += acc->tile_sum[c];
        to->sum_xt[c] += acc->tile_sum_xt[c];
    }
    acc->kernel->gram(acc->tile, rows, acc->panels, to->count == 0, to->gram);
    to->count += (int64_t)rows;
    return QK_OK;
}

/* Rows by group, in their order within each; ends[g] is where group g ends. */
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

static qk_status gather(qk_accumulator *acc, const void *x, const int64_t *t, size_t rows,
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
            if (add_tile(acc, x, t, acc->order + at, take, &acc->sums[g]) != QK_OK)
                return fail_values(acc, x, rows, err);
            at += take;
        }
    }
    acc->count += (int64_t)rows;
    return QK_OK;
}

/* ---- rows that arrive ------------------------------------------------------------------- */

/* Groups have joined: so do their sums, and the rows that wait. Who went where is forgotten. */
static void follow(qk_accumulator *acc, const uint32_t move[QK_MOST_GROUPS], size_t waiting)
{
    for (size_t r = 0; r < waiting; r++)
        acc->group[r] = (uint8_t)move[acc->group[r]];
    for (size_t g = 0; g < acc->groups.limit; g++) {
        qk__sums *from = &acc->sums[g], *to = &acc->sums[move[g]];
        if (from == to || from->count == 0)
            continue;
        sums_add(acc->kernel, to, from, acc->panels);
        *from = qk__sums_at(from->gram, acc->panels);
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
        QK_TRY(start(acc, wide, has_texts, err));
    if (acc->has_texts != has_texts)
        return qk__fail(err, QK_ERR_ARGUMENT, "some rows come with texts and some without");
    if (wide && !acc->wide)
        QK_TRY(widen(acc, err));
    for (size_t row = 0, take; row < block->rows; row += take) {
        size_t room = acc->batch - acc->filled, left = block->rows - row;
        const void *x = qk__row_at(block, row);
        const int64_t *t = block->position + row;
        take = room < left ? room : left;
        if (has_texts)
            QK_TRY(note_texts(acc, block->example + row, take, err));
        bool whole = take == acc->batch || (last && take == left && acc->filled == 0);
        if (whole && wide == acc->wide) {
            QK_TRY(gather(acc, x, t, take, err)); /* where they lie */
        } else {
            QK_TRY(put_aside(acc, x, wide, t, take, err));
        }
        if (acc->filled == acc->batch) {
            QK_TRY(gather(acc, acc->x, acc->t, acc->filled, err));
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

/* Moves sums from the pilot to the means. */
static void centre(const qk_accumulator *acc, const qk__sums *sums, qk_moments *m)
{
    double n = (double)sums->count;
    m->count = sums->count;
    m->mean_t = acc->pilot_t + sums->sum_t / n;
    m->sum_tt = sums->sum_tt - sums->sum_t * sums->sum_t / n;
    if (m->sum_tt < 0)
        m->sum_tt = 0;
    for (size_t i = 0; i < acc->dim; i++) {
        const double *gram = sums->gram + qk__gram_row(acc->panels, i);
        m->mean[i] = acc->pilot[i] + sums->sum[i] / n;
        m->sum_xt[i] = sums->sum_xt[i] - sums->sum[i] * sums->sum_t / n;
        for (size_t j = i; j < acc->dim; j++) {
            double s = gram[j] - sums->sum[i] * sums->sum[j] / n;
            m->sum_xx[i * acc->dim + j] = s;
            m->sum_xx[j * acc->dim + i] = s;
        }
        if (m->sum_xx[i * acc->dim + i] < 0)
            m->sum_xx[i * acc->dim + i] = 0;
    }
}

/* Moments of all groups together. */
static qk_status conclude(const qk_accumulator *acc, qk_moments *m, qk_error *err)
{
    if (acc->count == 0)
        return QK_OK;
    if (acc->groups.count < 2) {
        centre(acc, &acc->sums[0], m);
    } else {
        double *memory = sums_memory(1, acc->panels);
        if (!memory)
            return qk__nomem(err);
        qk__sums total = qk__sums_at(memory, acc->panels);
        for (uint32_t g = acc->groups.count; g-- > 0;) /* the last is still in the cache */
            sums_add(acc->kernel, &total, &acc->sums[g], acc->panels);
        centre(acc, &total, m);
        free(memory);
    }
    return qk__moments_check(m, err);
}

/* Hands the groups over. */
static qk_status keep_groups(qk_accumulator *acc, const qk_moments *m, qk_text_moments **texts,
                             qk_error *err)
{
    qk_text_moments *kept = calloc(1, sizeof *kept);
    if (!kept)
        return qk__nomem(err);
    kept->kernel = acc->kernel;
    kept->dim = acc->dim;
    kept->panels = acc->panels;
    kept->pilot = acc->pilot;
    kept->pilot_t = acc->pilot_t;
    for (size_t i = 0; i < m->dim; i++)
        kept->trace += m->sum_xx[i * m->dim + i];
    kept->groups = acc->groups;
    memcpy(kept->sums, acc->sums, sizeof kept->sums);
    kept->memory = acc->memory;
    acc->pilot = acc->memory = NULL;
    acc->groups = (qk__text_groups){0};
    *texts = kept;
    return QK_OK;
}

static qk_status finish(qk_accumulator **acc, qk_moments **moments, qk_text_moments **texts,
                        qk_error *err)
{
    qk_accumulator *a = *acc;
    qk_moments *m = NULL;
    qk_status status = gather(a, a->x, a->t, a->filled, err);
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

qk_status qk_accumulator_finish_texts(qk_accumulator **acc, qk_moments **moments,
                                      qk_text_moments **texts, qk_error *err)
{
    QK_NEED(err, acc);
    QK_NEED(err, *acc);
    if (!moments)
        qk_accumulator_free(acc); /* it is used up, whatever happens */
    QK_NEED(err, moments);
    *moments = NULL;
    if (texts)
        *texts = NULL;
    return finish(acc, moments, texts, err);
}

qk_status qk_accumulator_finish(qk_accumulator **acc, qk_moments **moments, qk_error *err)
{
    QK_NEED(err, acc);
    QK_NEED(err, *acc);
    if (!moments)
        qk_accumulator_free(acc);
    QK_NEED(err, moments);
    *moments = NULL;
    return finish(acc, moments, NULL, err);
}
