/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs drawn at random where there are too many: numbers of pairs, ascending, are turned into
 * pairs in one walk over the examples. */
#include "stats/pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/pair_sets.h"

enum { BATCH = 32 };

typedef struct draw {
    const qk_pair_space *space;
    const qk_pair_model *model;
    size_t j, cell;
    qk_tally *tally;
    uint64_t *numbers;
    size_t *seen;        /* places of one example's eligible keys */
    double *coordinates; /* [BATCH][ld] of differences */
    double *mirrored;    /* before the factor */
    double *zero;        /* [ld] */
    double *memory;
    size_t filled, late[BATCH], early[BATCH]; /* places of the keys */
    qk_pair_room room;
} draw;

static void project_pair(draw *d, size_t i)
{
    const qk_whitening *p = d->model->whitening;
    const qk_bin_table *bins = d->tally->bins;
    const double *position = d->space->index->position;
    qk_pair_list *list = &d->room.list;
    double *out = (p->factor ? d->mirrored : d->coordinates) + i * p->ld, scores[2];
    double s1 = position[d->late[i]], s2 = position[d->early[i]];
    qk__whiten_key(d->space, p, d->late[i], d->early[i], out, scores);
    list->u[i] = scores[0];
    list->w[i] = scores[1];
    list->mid[i] = (s1 + s2) * 0.5;
    if (bins)
        list->bin[i] = (int32_t)(floor(fabs(s1 - s2) / bins->width) * (double)bins->lags);
}

static void finish_batch(draw *d)
{
    const qk_pair_kernel *kernel = qk__pair_kernel();
    const qk_whitening *p = d->model->whitening;
    qk_pair_room *room = &d->room;
    bool whole = d->cell == SIZE_MAX;
    for (size_t i = 0; i < d->filled; i++)
        project_pair(d, i);
    if (p->factor)
        kernel->multiply(p->factor, p->ld, d->mirrored, d->filled, d->coordinates);
    kernel->distances(d->zero, d->coordinates, d->filled, p->ld, room->v);
    kernel->normalise(room->v, room->list.u, room->list.w, d->filled);
    qk__tally_pairs(d->space, d->model, d->j, &room->list, d->filled, !whole, room, d->tally);
    if (!whole)
        d->tally->cells->cell[d->cell].ap += kernel->sum(room->pp, d->filled);
    d->filled = 0;
}

static void add_pair(draw *d, size_t late, size_t early)
{
    qk__prefetch_key(d->space, late);
    qk__prefetch_key(d->space, early);
    d->late[d->filled] = late;
    d->early[d->filled] = early;
    if (++d->filled == BATCH)
        finish_batch(d);
}

/* Pair number t of keys 0, 1, 2, ...: (1, 0), (2, 0), (2, 1), (3, 0), ... */
static void number_to_pair(uint64_t t, size_t *late, size_t *early)
{
    uint64_t i = (uint64_t)((1 + sqrt(1 + 8 * (double)t)) / 2);
    while (i * (i - 1) / 2 > t)
        i--;
    while (i * (i + 1) / 2 <= t)
        i++;
    *late = i;
    *early = t - i * (i - 1) / 2;
}

static size_t list_seen(draw *d, size_t example)
{
    const qk_key_index *index = d->space->index;
    const qk_query_grid *grid = d->space->grid;
    const qk_cell_table *cells = d->tally->cells;
    size_t n = 0;
    for (size_t i = index->start[example]; i < index->start[example + 1]; i++)
        if ((d->cell == SIZE_MAX || cells->at[d->j] + cells->rank[i] == d->cell) &&
            qk__sees(grid, &grid->bucket[d->j], index->bucket[i], index->position[i]))
            d->seen[n++] = i;
    return n;
}

static void walk_numbers(draw *d, size_t limit)
{
    uint64_t base = 0;
    for (size_t e = 0, next = 0; next < limit; e++) {
        uint64_t n = list_seen(d, e), end = base + (n > 1 ? n * (n - 1) / 2 : 0);
        for (; next < limit && d->numbers[next] < end; next++) {
            size_t late, early;
            number_to_pair(d->numbers[next] - base, &late, &early);
            add_pair(d, d->seen[late], d->seen[early]);
        }
        base = end;
    }
    if (d->filled > 0)
        finish_batch(d);
}

static qk_status allocate(draw *d, size_t limit, qk_error *err)
{
    size_t ld = d->model->whitening->ld, tile = BATCH * ld;
    d->numbers = qk__calloc(limit, sizeof *d->numbers);
    d->seen = qk__calloc(d->space->index->rows + 1, sizeof *d->seen);
    d->memory = qk__alloc_aligned(2 * tile + ld, sizeof(double));
    if (!d->numbers || !d->seen || !d->memory)
        return qk__nomem(err);
    d->coordinates = d->memory;
    d->mirrored = d->memory + tile;
    d->zero = d->memory + 2 * tile;
    memset(d->zero, 0, ld * sizeof(double));
    return qk__pair_room_create(&d->room, BATCH, err);
}

qk_status qk__add_drawn_pairs(const qk_pair_space *space, const qk_pair_model *model, size_t j,
                              size_t cell, int64_t count, uint64_t seed,
                              const uint64_t stream[2], qk_tally *tally, qk_error *err)
{
    size_t limit = (size_t)tally->limit;
    bool whole = cell == SIZE_MAX;
    draw d = {.space = space, .model = model, .j = j, .cell = cell, .tally = tally};
    /* A bucket is named by three words, a cell by four: their streams differ. */
    uint64_t words[4] = {stream[0], stream[1], (uint64_t)space->grid->bucket[j].id,
                         whole ? 0 : (uint64_t)tally->cells->cell[cell].k_bucket};
    qk_status status = allocate(&d, limit, err);
    if (status == QK_OK)
        status = qk__draw(d.numbers, limit, (uint64_t)count, seed, words, whole ? 3 : 4, err);
    if (status == QK_OK)
        walk_numbers(&d, limit);
    tally->sampled++;
    qk__pair_room_free(&d.room);
    free(d.numbers);
    free(d.seen);
    free(d.memory);
    return status;
}
