/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs drawn at random where there are too many: numbers of pairs, ascending, are turned into
 * pairs in one walk over the examples. Where an example has more of them than keys, its keys
 * are brought into the metric of the queries once, else the difference of each pair is. */
#include "stats/pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/pair_sets.h"

enum { BATCH = 64 };

typedef struct draw {
    const qk__pair_sums *sums;
    size_t j, cell;
    uint64_t *numbers;
    size_t *seen;        /* places of one example's eligible keys */
    double *coordinates; /* [BATCH][ld] of differences */
    double *zero;        /* [ld] */
    double *memory;
    size_t capacity;     /* keys that there is room for in what follows */
    double *keys;        /* [capacity][ld] of the example, if it is prepared */
    double (*scores)[2]; /* [capacity] x . mean, x . slope */
    bool prepared;
    size_t filled, late[BATCH], early[BATCH]; /* places of the keys */
    size_t late_key[BATCH], early_key[BATCH]; /* which of the prepared ones */
    qk__pair_room room;
    qk__pair_run run[BATCH];
} draw;

/* Coordinates of the n seen keys about the first of them. */
static void prepare_keys(draw *d, size_t n)
{
    const qk__whitening *p = d->sums->whitening;
    for (size_t from = 0; from < n; from += BATCH) {
        size_t count = n - from < BATCH ? n - from : BATCH;
        double *out = d->keys + from * p->ld;
        for (size_t i = 0; i < count; i++)
            qk__whiten_key(d->sums->space, p, d->seen[from + i], d->seen[0], out + i * p->ld,
                           d->scores[from + i]);
    }
}

/* Differences and distances of the pairs in the batch. */
static void measure_prepared(draw *d)
{
    const qk__pair_kernel *kernel = qk__best_pair_kernel();
    size_t ld = d->sums->whitening->ld;
    qk__pair_room *room = &d->room;
    for (size_t i = 0; i < d->filled; i++) {
        size_t late = d->late_key[i], early = d->early_key[i];
        kernel->distances(d->keys + late * ld, d->keys + early * ld, NULL, 1, ld, &room->v[i]);
        room->list.u[i] = d->scores[late][0] - d->scores[early][0];
        room->list.w[i] = d->scores[late][1] - d->scores[early][1];
    }
}

static void measure_pairs(draw *d)
{
    const qk__pair_kernel *kernel = qk__best_pair_kernel();
    const qk__whitening *p = d->sums->whitening;
    for (size_t i = 0; i < d->filled; i++) {
        double *out = d->coordinates + i * p->ld, scores[2];
        qk__whiten_key(d->sums->space, p, d->late[i], d->early[i], out, scores);
        d->room.list.u[i] = scores[0];
        d->room.list.w[i] = scores[1];
    }
    kernel->distances(d->zero, d->coordinates, NULL, d->filled, p->ld, d->room.v);
}

static void place_pairs(draw *d)
{
    const qk__bin_table *bins = d->sums->tally->bins;
    const double *position = d->sums->space->index->position;
    for (size_t i = 0; i < d->filled && d->room.list.weight; i++)
        d->room.list.weight[i] =
            qk__pair_weight(d->sums->space->index, d->late[i], d->early[i]);
    for (size_t i = 0; i < d->filled && bins; i++) {
        double s1 = position[d->late[i]], s2 = position[d->early[i]];
        d->room.list.mid[i] = (s1 + s2) * 0.5;
        d->room.list.bin[i] =
            (int32_t)(floor(fabs(s1 - s2) / bins->width) * (double)bins->lags);
    }
}

static void finish_batch(draw *d)
{
    const qk__pair_kernel *kernel = qk__best_pair_kernel();
    qk__pair_room *room = &d->room;
    bool whole = d->cell == SIZE_MAX;
    if (d->prepared)
        measure_prepared(d);
    else
        measure_pairs(d);
    place_pairs(d);
    kernel->normalise(room->v, room->list.u, room->list.w, d->filled);
    room->list.run = d->run;
    for (size_t i = 0; i < d->filled && d->sums->tally->parts; i++)
        d->run[i] = (qk__pair_run){
            .group = d->sums->tally->parts->group[d->sums->space->index->row[d->late[i]]],
            .end = i + 1};
    qk__tally_pairs(d->sums, d->j, &room->list, d->filled, !whole, room);
    const double *weight = room->list.weight;
    if (!whole)
        d->sums->tally->cells->cell[d->cell].ap +=
            weight ? kernel->dot(weight, room->pp, d->filled)
                   : kernel->sum(room->pp, d->filled);
    if (!whole && weight)
        d->sums->tally->cells->weight[d->cell] += kernel->sum(weight, d->filled);
    d->filled = 0;
}

static void add_pair(draw *d, size_t late, size_t early)
{
    if (!d->prepared) {
        qk__prefetch_key(d->sums->space, d->seen[late]);
        qk__prefetch_key(d->sums->space, d->seen[early]);
    }
    d->late[d->filled] = d->seen[late];
    d->early[d->filled] = d->seen[early];
    d->late_key[d->filled] = late;
    d->early_key[d->filled] = early;
    if (++d->filled == BATCH)
        finish_batch(d);
}

/* Pairs of the seen key i are those with low .. i-1 of them: (1, 0), (2, 0), (2, 1), (3, 0), ... where all are near. */
static size_t find_low(const draw *d, size_t i, size_t low)
{
    while (d->seen[low] < d->sums->space->near[d->seen[i]])
        low++;
    return low;
}

/* Pairs of an example with n seen keys, by their ascending numbers. */
static void add_pairs(draw *d, const uint64_t *numbers, size_t count, uint64_t base, size_t n)
{
    size_t late = 0, low = 0; /* the pairs of late begin at base */
    bool prepared = count > n && n <= d->capacity;
    if (d->filled > 0 && (prepared || d->prepared))
        finish_batch(d);
    d->prepared = prepared;
    if (prepared)
        prepare_keys(d, n);
    for (size_t i = 0; i < count; i++) {
        while (numbers[i] - base >= late - low) {
            base += late - low;
            low = find_low(d, ++late, low);
        }
        add_pair(d, late, low + (size_t)(numbers[i] - base));
    }
}

static size_t list_seen(draw *d, size_t example)
{
    const qk__key_index *index = d->sums->space->index;
    const qk__query_grid *grid = d->sums->space->grid;
    const qk__cell_table *cells = d->sums->tally->cells;
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
        const size_t n = list_seen(d, e);
        size_t count = 0;
        uint64_t end = base;
        for (size_t i = 1, low = 0; i < n; i++)
            end += i - (low = find_low(d, i, low));
        while (next + count < limit && d->numbers[next + count] < end)
            count++;
        if (count > 0)
            add_pairs(d, d->numbers + next, count, base, n);
        next += count;
        base = end;
    }
    if (d->filled > 0)
        finish_batch(d);
}

static qk_status allocate_draw(draw *d, size_t limit, qk_error *err)
{
    size_t ld = d->sums->whitening->ld, tile = BATCH * ld;
    d->numbers = qk__calloc(limit, sizeof *d->numbers);
    d->seen = qk__calloc(d->sums->space->index->rows + 1, sizeof *d->seen);
    d->capacity = qk__keys_to_prepare(d->sums);
    d->memory = qk__alloc_aligned(tile + ld + d->capacity * ld, sizeof(double));
    d->scores = qk__calloc(d->capacity + 1, sizeof *d->scores);
    if (!d->numbers || !d->seen || !d->memory || !d->scores)
        return qk__nomem(err);
    d->coordinates = d->memory;
    d->zero = d->memory + tile;
    d->keys = d->memory + tile + ld;
    memset(d->zero, 0, ld * sizeof(double));
    return qk__pair_room_create(&d->room, BATCH, d->sums->space->index->weight, err);
}

qk_status qk__add_drawn_pairs(const qk__pair_sums *sums, size_t j, size_t cell, int64_t count,
                              uint64_t seed, const uint64_t stream[2], qk_error *err)
{
    qk__tally *tally = sums->tally;
    size_t limit = (size_t)tally->limit;
    bool whole = cell == SIZE_MAX;
    draw d = {.sums = sums, .j = j, .cell = cell};
    /* A bucket is named by three words, a cell by four: their streams differ. */
    uint64_t words[4] = {stream[0], stream[1], (uint64_t)sums->space->grid->bucket[j].id,
                         whole ? 0 : (uint64_t)tally->cells->cell[cell].k_bucket};
    qk_status status = allocate_draw(&d, limit, err);
    if (status == QK_OK)
        status = qk__draw(d.numbers, limit, (uint64_t)count, seed, words, whole ? 3 : 4, err);
    if (status == QK_OK)
        walk_numbers(&d, limit);
    tally->sampled++;
    qk__pair_room_free(&d.room);
    free(d.numbers);
    free(d.seen);
    free(d.memory);
    free(d.scores);
    return status;
}
