/* SPDX-License-Identifier: Apache-2.0 */
/* Coordinates of a key, values of pairs, and where these are added. */
#include "stats/pair_tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/block_rows.h"

enum { KEY_VALUES = 1 << 20 }; /* coordinates of one example's keys, at most */

qk_status qk__pair_room_create(qk__pair_room *room, size_t capacity, bool weighted,
                               qk_error *err)
{
    size_t size = capacity + LANES; /* kernels write whole lanes */
    double *x = qk__alloc_aligned(7 * size, sizeof *x);
    if (!x)
        return qk__nomem(err);
    memset(x, 0, 7 * size * sizeof *x);
    room->memory = x;
    room->list = (qk__pair_list){
        .u = x, .w = x + size, .mid = x + 2 * size, .weight = weighted ? x + 6 * size : NULL};
    room->v = x + 3 * size;
    room->pp = x + 4 * size;
    room->list.bin = (int32_t *)(void *)(x + 5 * size);
    room->cell = room->list.bin + size;
    return QK_OK;
}

void qk__pair_room_free(qk__pair_room *room)
{
    free(room->memory);
    room->memory = NULL;
}

void qk__whiten_key(const qk__pair_space *space, const qk__whitening *whitening, size_t place,
                    size_t centre, double *out, double scores[2])
{
    const qk__pair_kernel *kernel = whitening->kernel;
    const qk_block *keys = space->keys;
    size_t d = whitening->dim, row = space->index->row[place];
    size_t zero = space->index->row[centre];
    if (keys->f32)
        kernel->whiten_f32(whitening, keys->f32 + row * d, keys->f32 + zero * d, out, scores);
    else
        kernel->whiten_f64(whitening, keys->f64 + row * d, keys->f64 + zero * d, out, scores);
}

size_t qk__keys_to_prepare(const qk__pair_sums *sums)
{
    const qk__key_index *index = sums->space->index;
    size_t longest = 0, most = KEY_VALUES / sums->whitening->ld;
    for (size_t e = 0; e < index->num_examples; e++) {
        size_t keys = index->start[e + 1] - index->start[e];
        longest = keys > longest ? keys : longest;
    }
    return longest < most ? longest : most;
}

void qk__prefetch_key(const qk__pair_space *space, size_t place)
{
    const qk_block *keys = space->keys;
    size_t size = keys->dim * (keys->f32 ? sizeof(float) : sizeof(double));
    const char *row = qk__row_at(keys, space->index->row[place]);
    for (size_t at = 0; at < size; at += 64)
        __builtin_prefetch(row + at);
}

static void add_weighted_to_bins(qk__bin_table *bins, const int32_t *cell, const double *pp,
                                 const double *weight, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        qk__bin *bin = &bins->bin[cell[i]];
        bin->ap += weight[i] * pp[i];
        bin->weight += weight[i];
        bin->pairs++;
    }
}

static void add_to_bins(qk__bin_table *bins, const int32_t *cell, const double *pp, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        qk__bin *bin = &bins->bin[cell[i]];
        bin->ap += pp[i];
        bin->pairs++;
    }
}

/* The sum of n values, each times its weight if there are weights, and the sum of the weights. */
static void sum_values(const qk__pair_kernel *kernel, const double *pp, const double *weight,
                       size_t n, double *ap, double *count)
{
    *ap += weight ? kernel->dot(weight, pp, n) : kernel->sum(pp, n);
    *count += weight ? kernel->sum(weight, n) : (double)n;
}

static void add_to_parts(const qk__pair_sums *sums, size_t j, const qk__pair_list *list,
                         size_t n, const double *pp)
{
    qk__ap_parts *parts = sums->tally->parts;
    size_t from = 0;
    for (const qk__pair_run *run = list->run; from < n; from = run++->end) {
        size_t at = run->group * parts->buckets + j, end = run->end < n ? run->end : n;
        sum_values(sums->whitening->kernel, pp + from,
                   list->weight ? list->weight + from : NULL, end - from, &parts->ap[at],
                   &parts->weight[at]);
    }
}

void qk__tally_pairs(const qk__pair_sums *sums, size_t j, const qk__pair_list *list, size_t n,
                     bool only_cells, qk__pair_room *room)
{
    const qk__pair_kernel *kernel = sums->whitening->kernel;
    qk__tally *tally = sums->tally;
    double tau = sums->space->grid->bucket[j].tau;
    kernel->undecided(list->u, list->w, tau - sums->mean_t, n, room->pp);
    tally->evaluated += (int64_t)n;
    if (only_cells)
        return;
    sum_values(kernel, room->pp, list->weight, n, &tally->ap[j], &tally->weight[j]);
    if (tally->parts)
        add_to_parts(sums, j, list, n, room->pp);
    if (!tally->bins)
        return;
    kernel->lags(list->mid, list->bin, tau, tally->bins->width, (double)tally->bins->first_lag,
                 n, room->cell);
    if (list->weight)
        add_weighted_to_bins(tally->bins, room->cell, room->pp, list->weight, n);
    else
        add_to_bins(tally->bins, room->cell, room->pp, n);
}
