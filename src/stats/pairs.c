/* SPDX-License-Identifier: Apache-2.0 */
/* All pairs: a walk over the examples that fills blocks. */
#include "stats/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/pair_block.h"

/* Fills in *key and says whether any active bucket sees it. `from` is an active bucket below
 * which none does. Without a window, what one bucket sees the later ones see. */
static bool find_viewers(const qk__pair_walk *w, size_t place, size_t from, qk__seen_key *key)
{
    while (from < w->num_active && !qk__walk_sees(w, place, from))
        from++;
    if (from == w->num_active)
        return false;
    *key = (qk__seen_key){.place = place, .first = from, .last = w->num_active - 1};
    while (w->sums->space->grid->window && !qk__walk_sees(w, place, key->last))
        key->last--;
    return true;
}

/* ---- walking over the examples ---------------------------------------------------------- */

/* An example with few keys, beside others in the block. */
static void add_short(qk__pair_walk *w, const qk__seen_key *keys, size_t count, size_t centre)
{
    qk__pair_block *b = &w->block;
    if (b->num_keys + count > TILE_KEYS || b->num_pairs + count * (count - 1) / 2 > MAX_PAIRS)
        qk__block_finish(w);
    size_t at = b->num_keys;
    qk__block_load(w, at, keys, count, centre);
    for (size_t i = 1; i < count; i++)
        qk__block_add_row(w, at + i, at, at + i, centre);
}

static bool never_together(const size_t *near, const qk__seen_key *late, size_t num_late,
                           const qk__seen_key *early, size_t num_early)
{
    size_t first = SIZE_MAX, last = 0;
    if (early[num_early - 1].place < near[late[0].place])
        return true;
    for (size_t i = 0; i < num_late; i++)
        first = late[i].first < first ? late[i].first : first;
    for (size_t i = 0; i < num_early; i++)
        last = early[i].last > last ? early[i].last : last;
    return last < first;
}

static void load_stretch(qk__pair_walk *w, size_t at, const qk__seen_key *keys, size_t from,
                         size_t count, size_t centre, bool prepared)
{
    if (prepared)
        qk__block_take(w, at, keys, from, count);
    else
        qk__block_load(w, at, keys + from, count, centre);
}

/* A long example: each stretch of it with itself and with those before it. */
static void add_long(qk__pair_walk *w, const qk__seen_key *keys, size_t count, size_t centre)
{
    qk__pair_block *b = &w->block;
    const size_t *near = w->sums->space->near;
    bool prepared = count <= w->num_prepared;
    qk__block_finish(w);
    if (prepared)
        qk__block_prepare(w, keys, count, centre);
    for (size_t late = 0; late < count; late += STRETCH) {
        size_t num_late = count - late < STRETCH ? count - late : STRETCH;
        load_stretch(w, 0, keys, late, num_late, centre, prepared);
        for (size_t i = 1; i < num_late; i++)
            qk__block_add_row(w, i, 0, i, centre);
        b->long_example = true;
        qk__block_finish(w);
        for (size_t early = 0; early < late; early += STRETCH) {
            if (never_together(near, keys + late, num_late, keys + early, STRETCH))
                continue;
            load_stretch(w, num_late, keys, early, STRETCH, centre, prepared);
            for (size_t i = 0; i < num_late; i++)
                qk__block_add_row(w, i, num_late, num_late + STRETCH, centre);
            b->long_example = true;
            qk__block_finish(w);
        }
    }
    if (w->sets)
        qk__block_count_example(w, keys, count);
}

/* The keys first..end-1 of the index form pairs with one another. */
static void add_group(qk__pair_walk *w, size_t first, size_t end)
{
    const qk__key_index *index = w->sums->space->index;
    size_t count = 0, from = 0;
    for (size_t i = first; i < end; i++) {
        while (from < w->num_active &&
               w->sums->space->grid->bucket[w->active[from]].id <= index->bucket[i])
            from++;
        count += find_viewers(w, i, from, &w->keys[count]);
    }
    if (count < 2)
        return;
    /* The block points at its keys until it is finished: they stay where they are. */
    if (count <= STRETCH) {
        add_short(w, w->keys, count, first);
        w->keys += count;
    } else {
        add_long(w, w->keys, count, first);
    }
}

static void walk_groups(qk__pair_walk *w)
{
    const qk__key_index *index = w->sums->space->index;
    for (size_t e = 0; e < index->num_examples; e++)
        for (size_t i = index->start[e], end; i < index->start[e + 1]; i = end) {
            end = index->start[e + 1];
            if (w->only_cells)
                for (end = i + 1;
                     end < index->start[e + 1] && index->bucket[end] == index->bucket[i];)
                    end++;
            if (end - i > 1)
                add_group(w, i, end);
        }
    qk__block_finish(w);
}

static qk_status allocate_walk(qk__pair_walk *w, qk_error *err)
{
    size_t ld = w->sums->whitening->ld, tile = TILE_KEYS * ld, line = 2 * TILE_KEYS + LANES;
    qk__pair_block *b = &w->block;
    size_t longest = qk__keys_to_prepare(w->sums), room = longest > STRETCH ? longest : 0;
    w->memory = qk__alloc_aligned(tile + 3 * line + room * (ld + 3), sizeof(double));
    w->keys = qk__calloc(w->sums->space->index->rows + 1, sizeof *w->keys);
    w->reach = qk__calloc(w->num_active + 1, sizeof *w->reach);
    if (!w->memory || !w->keys || !w->reach)
        return qk__nomem(err);
    b->coordinates = w->memory;
    b->scores.mean = w->memory + tile;
    b->scores.slope = b->scores.mean + line;
    b->scores.position = b->scores.slope + line;
    memset(b->scores.mean, 0, 3 * line * sizeof(double));
    w->num_prepared = room;
    w->prepared = b->scores.mean + 3 * line;
    w->prepared_scores.mean = w->prepared + room * ld;
    w->prepared_scores.slope = w->prepared_scores.mean + room;
    w->prepared_scores.position = w->prepared_scores.slope + room;
    if (w->sets) {
        w->base = qk__calloc(w->num_active, sizeof *w->base);
        w->drawn = qk__calloc(w->num_active * MAX_ROWS, sizeof *w->drawn);
        w->members = qk__calloc(MAX_PAIRS + 15, sizeof *w->members);
        if (!w->base || !w->drawn || !w->members)
            return qk__nomem(err);
    }
    QK_TRY(qk__pair_room_create(&b->all, MAX_PAIRS, w->sums->space->index->weight, err));
    bool copies = w->sets || w->sums->space->grid->window;
    return copies
               ? qk__pair_room_create(&b->some, MAX_PAIRS, w->sums->space->index->weight, err)
               : QK_OK;
}

qk_status qk__add_all_pairs(const qk__pair_sums *sums, const size_t *active,
                            const uint64_t *const *sets, size_t num_active, bool only_cells,
                            qk_error *err)
{
    if (num_active == 0)
        return QK_OK;
    qk__pair_walk *w = calloc(1, sizeof *w);
    if (!w)
        return qk__nomem(err);
    *w = (qk__pair_walk){.kernel = qk__best_pair_kernel(),
                         .sums = sums,
                         .active = active,
                         .sets = sets,
                         .num_active = num_active,
                         .only_cells = only_cells};
    qk_status status = allocate_walk(w, err);
    qk__seen_key *keys = w->keys;
    if (status == QK_OK)
        walk_groups(w);
    qk__pair_room_free(&w->block.all);
    qk__pair_room_free(&w->block.some);
    free(w->memory);
    free(keys);
    free(w->reach);
    free(w->base);
    free(w->drawn);
    free(w->members);
    free(w);
    return status;
}
