/* SPDX-License-Identifier: Apache-2.0 */
/* From the keys of a block to sums. Its rows lie in the order of the first query bucket that sees their key, so
 * that what a bucket sees is the beginning of the block: u, w and the rest are formed once, and each bucket runs
 * over its share of them. With a window, keys also go out of sight: then what a bucket still sees is copied to one
 * place first. So are the pairs that count for a bucket which draws from them. */
#include "stats/pair_block.h"

#include <string.h>

enum {
    NEAR_VALUES = 4096, /* coordinates that fit the first-level cache */
    AHEAD = 8,          /* keys asked for before they are needed */
};

/* ---- filling a block -------------------------------------------------------------------- */

void qk__block_load(qk__pair_walk *w, size_t at, const qk__seen_key *keys, size_t count,
                    size_t centre)
{
    qk__pair_block *b = &w->block;
    const qk__whitening *p = w->sums->whitening;
    double *out = b->coordinates + at * p->ld;
    for (size_t i = 0; i < count; i++) {
        double dots[2];
        if (keys[i].place + AHEAD < w->sums->space->index->rows)
            qk__prefetch_key(w->sums->space, keys[i].place + AHEAD);
        qk__whiten_key(w->sums->space, p, keys[i].place, centre, out + i * p->ld, dots);
        b->key[at + i] = &keys[i];
        b->scores.mean[at + i] = dots[0];
        b->scores.slope[at + i] = dots[1];
        b->scores.position[at + i] = w->sums->space->index->position[keys[i].place];
    }
    b->num_keys = at + count;
    b->part[0] = b->coordinates;
    b->split = TILE_KEYS;
}

static void copy_scores(const qk__key_scores *to, size_t at, const qk__key_scores *from,
                        size_t i, size_t count)
{
    memcpy(to->mean + at, from->mean + i, count * sizeof *to->mean);
    memcpy(to->slope + at, from->slope + i, count * sizeof *to->slope);
    memcpy(to->position + at, from->position + i, count * sizeof *to->position);
}

void qk__block_prepare(qk__pair_walk *w, const qk__seen_key *keys, size_t count, size_t centre)
{
    qk__pair_block *b = &w->block;
    size_t ld = w->sums->whitening->ld;
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < TILE_KEYS ? count - at : TILE_KEYS;
        qk__block_load(w, 0, keys + at, n, centre);
        memcpy(w->prepared + at * ld, b->coordinates, n * ld * sizeof *w->prepared);
        copy_scores(&w->prepared_scores, at, &b->scores, 0, n);
    }
}

void qk__block_take(qk__pair_walk *w, size_t at, const qk__seen_key *keys, size_t from,
                    size_t count)
{
    qk__pair_block *b = &w->block;
    for (size_t i = 0; i < count; i++)
        b->key[at + i] = &keys[from + i];
    copy_scores(&b->scores, at, &w->prepared_scores, from, count);
    b->part[at > 0] = w->prepared + from * w->sums->whitening->ld;
    b->split = at > 0 ? at : TILE_KEYS;
    b->num_keys = at + count;
}

/* Coordinates of keys `key` .. of the block. */
static const double *coordinates(const qk__pair_block *b, size_t key, size_t ld)
{
    return key < b->split ? b->part[0] + key * ld : b->part[1] + (key - b->split) * ld;
}

void qk__block_add_row(qk__pair_walk *w, size_t left, size_t from, size_t end, size_t start)
{
    qk__pair_block *b = &w->block;
    size_t first = b->key[left]->first, near = w->sums->space->near[b->key[left]->place];
    while (from < end && (b->key[from]->last < first || b->key[from]->place < near))
        from++;
    if (from == end)
        return;
    uint64_t before = b->key[left]->place - start;
    b->row[b->num_rows++] =
        (qk__block_row){.left = (uint32_t)left,
                        .from = (uint32_t)from,
                        .end = (uint32_t)end,
                        .first = first,
                        .number = before * (before - 1) / 2 + (b->key[from]->place - start)};
    b->num_pairs += end - from;
    b->last = b->key[left]->last > b->last ? b->key[left]->last : b->last;
}

/* ---- from keys to pairs ----------------------------------------------------------------- */

/* Counting sort of the rows by the first bucket that sees them, and their places. */
static void sort_rows(qk__pair_walk *w)
{
    qk__pair_block *b = &w->block;
    size_t *reach = w->reach;
    memset(reach, 0, (w->num_active + 1) * sizeof *reach);
    for (size_t i = 0; i < b->num_rows; i++)
        reach[b->row[i].first + 1]++;
    for (size_t r = 0; r < w->num_active; r++)
        reach[r + 1] += reach[r];
    /* reach[r]: first row that begins at r; placing the rows makes it that of r + 1. */
    for (size_t i = 0; i < b->num_rows; i++)
        b->sorted[reach[b->row[i].first]++] = &b->row[i];
    uint32_t at = 0;
    for (size_t i = 0; i < b->num_rows; i++) {
        b->sorted[i]->at = at;
        at += b->sorted[i]->count = b->sorted[i]->end - b->sorted[i]->from;
    }
}

static uint32_t rank_of(const qk__pair_walk *w, size_t key)
{
    return w->sums->tally->cells->rank[w->block.key[key]->place];
}

/* The pairs of a row within one key bucket are its last pairs. */
static size_t count_tail(const qk__pair_walk *w, const qk__block_row *r)
{
    size_t from = r->end;
    uint32_t rank = rank_of(w, r->left);
    while (from > r->from && rank_of(w, from - 1) == rank)
        from--;
    return r->end - from;
}

static void add_segment(qk__pair_block *b, qk__block_segment s)
{
    qk__block_segment *last = b->num_segments ? &b->segment[b->num_segments - 1] : NULL;
    if (s.count == 0)
        return;
    if (last && last->at + last->count == s.at && last->rank == s.rank &&
        last->first == s.first)
        last->count += s.count;
    else
        b->segment[b->num_segments++] = s;
}

static void find_segments(qk__pair_walk *w)
{
    qk__pair_block *b = &w->block;
    b->num_segments = 0;
    for (size_t i = 0; i < b->num_rows; i++) {
        const qk__block_row *r = b->sorted[i];
        uint32_t count = (uint32_t)count_tail(w, r);
        add_segment(b, (qk__block_segment){.at = r->at + (r->end - r->from) - count,
                                           .count = count,
                                           .rank = rank_of(w, r->left),
                                           .first = r->first});
    }
}

/* The next pairs that a bucket adds are these `count` of a row. */
static void add_run(qk__pair_walk *w, const qk__block_row *r, size_t count)
{
    qk__pair_block *b = &w->block;
    const qk__pair_space *space = w->sums->space;
    const size_t place = b->key[r->left]->place, n = b->num_runs;
    const uint32_t group = w->sums->tally->parts->group[space->index->row[place]];
    if (n > 0 && b->run[n - 1].group == group) {
        b->run[n - 1].end += count;
        return;
    }
    b->run[n] = (qk__pair_run){.group = group, .end = count + (n > 0 ? b->run[n - 1].end : 0)};
    b->num_runs++;
}

/* The list, without the members that only bins need where there are none. */
static qk__pair_list wanted(const qk__pair_walk *w, const qk__pair_list *list)
{
    qk__pair_list all = *list;
    if (!w->sums->tally->bins)
        all.mid = NULL;
    all.run = w->sums->tally->parts ? w->block.run : NULL;
    return all;
}

/* Weights of the pairs of a row, where keys have weights. which: of the keys, or NULL. */
static void weigh_row(const qk__pair_walk *w, const qk__block_row *r, const uint32_t *which)
{
    const qk__pair_block *b = &w->block;
    double *weight = b->all.list.weight + r->at;
    for (uint32_t i = 0; i < r->count; i++)
        weight[i] = qk__pair_weight(w->sums->space->index, b->key[r->left]->place,
                                    b->key[r->from + (which ? which[i] : i)]->place);
}

/* u, w and the rest of a row, but for their scale. Kernels write whole lanes, so rows come in the order
 * in which they lie. */
static void form_row(const qk__pair_walk *w, const qk__block_row *r, const qk__pair_list *list,
                     const uint32_t *which)
{
    const qk__bin_table *bins = w->sums->tally->bins;
    w->kernel->differences(&w->block.scores, r->left, r->from, which, r->count,
                           bins ? bins->width : 1, bins ? (double)bins->lags : 0, list, r->at);
    if (list->weight)
        weigh_row(w, r, which);
}

static uint32_t near_keys(size_t ld)
{
    return (uint32_t)(ld * LANES < NEAR_VALUES ? NEAR_VALUES / ld : LANES);
}

/* All pairs of all rows. Distances go through the keys a few at a time. */
static void form_pairs(qk__pair_walk *w)
{
    qk__pair_block *b = &w->block;
    size_t ld = w->sums->whitening->ld;
    uint32_t step = near_keys(ld);
    const qk__pair_list list = wanted(w, &b->all.list);
    for (uint32_t near = 0; near < b->num_keys; near += step)
        for (size_t i = 0; i < b->num_rows; i++) {
            const qk__block_row *r = &b->row[i];
            uint32_t from = r->from > near ? r->from : near;
            uint32_t end = r->end < near + step ? r->end : near + step;
            if (from < end)
                w->kernel->distances(coordinates(b, r->left, ld), coordinates(b, from, ld),
                                     NULL, end - from, ld, b->all.v + r->at + (from - r->from));
        }
    for (size_t i = 0; i < b->num_rows; i++)
        form_row(w, b->sorted[i], &list, NULL);
    w->kernel->normalise(b->all.v, b->all.list.u, b->all.list.w, b->num_pairs);
}

/* ---- with a window: the pairs that a bucket still sees ---------------------------------- */

static void copy_pairs(const qk__pair_list *to, size_t at, const qk__pair_list *from, size_t i,
                       size_t n)
{
    memcpy(to->u + at, from->u + i, n * sizeof *to->u);
    memcpy(to->w + at, from->w + i, n * sizeof *to->w);
    memcpy(to->mid + at, from->mid + i, n * sizeof *to->mid);
    memcpy(to->bin + at, from->bin + i, n * sizeof *to->bin);
    if (from->weight)
        memcpy(to->weight + at, from->weight + i, n * sizeof *to->weight);
}

/* end[i] - i: how many keys from i on are seen without a gap; next[i]: the first one seen. */
static void find_seen(const qk__pair_walk *w, size_t active, uint32_t *next, uint32_t *end)
{
    uint32_t n = (uint32_t)w->block.num_keys;
    next[n] = end[n] = n;
    for (uint32_t i = n; i-- > 0;) {
        const qk__seen_key *key = w->block.key[i];
        bool seen =
            key->first <= active && active <= key->last && qk__walk_sees(w, key->place, active);
        next[i] = seen ? i : next[i + 1];
        end[i] = !seen ? i : next[i + 1] == i + 1 ? end[i + 1] : i + 1;
    }
}

/* Returns the number of pairs; makes the segments again, with places among the copies. */
static size_t copy_seen(qk__pair_walk *w, size_t active)
{
    qk__pair_block *b = &w->block;
    uint32_t next[TILE_KEYS + 1], end[TILE_KEYS + 1];
    size_t n = 0;
    find_seen(w, active, next, end);
    b->num_segments = b->num_runs = 0;
    for (size_t i = 0; i < w->reach[active]; i++) {
        const qk__block_row *r = b->sorted[i];
        if (next[r->left] != r->left)
            continue;
        uint32_t tail = w->sums->tally->cells ? (uint32_t)count_tail(w, r) : 0, copied = 0;
        size_t before = n;
        for (uint32_t k = next[r->from]; k < r->end; k = next[end[k]]) {
            uint32_t stop = end[k] < r->end ? end[k] : r->end;
            copy_pairs(&b->some.list, n, &b->all.list, r->at + (k - r->from), stop - k);
            n += stop - k;
            if (stop > r->end - tail)
                copied += stop - (k > r->end - tail ? k : r->end - tail);
            if (stop == r->end)
                break;
        }
        if (w->sums->tally->parts)
            add_run(w, r, n - before);
        if (tail)
            add_segment(b, (qk__block_segment){.at = (uint32_t)n - copied,
                                               .count = copied,
                                               .rank = rank_of(w, r->left)});
    }
    return n;
}

/* ---- pairs that were drawn -------------------------------------------------------------- */

/* Bits number .. number + count - 1 of a set, at most 64. */
static uint64_t cut_set(const uint64_t *set, uint64_t number, uint32_t count)
{
    const uint64_t *word = set + (number >> 6), shift = number & 63;
    return (word[0] >> shift | word[1] << 1 << (63 - shift)) & (UINT64_MAX >> (64 - count));
}

/* Which pairs of the block an active bucket has drawn. Rows of an example come into sight one after
 * the other, and its seen keys are one more than its seen rows. */
static void find_drawn(qk__pair_walk *w, size_t active)
{
    qk__pair_block *b = &w->block;
    const uint64_t *set = w->sets[active];
    uint64_t base = w->base[active], *drawn = w->drawn + active * MAX_ROWS;
    for (size_t i = 0, seen, end; i < b->num_rows; i = end) {
        for (end = i + 1; end < b->num_rows && b->row[end].number != 0;)
            end++;
        for (seen = i; seen < end && b->row[seen].first <= active; seen++) {
            const qk__block_row *r = &b->row[seen];
            drawn[seen] = cut_set(set, base + r->number, r->end - r->from);
            b->among[seen] |= drawn[seen];
        }
        for (size_t hidden = seen; hidden < end; hidden++)
            drawn[hidden] = 0;
        if (!b->long_example)
            base += (uint64_t)(seen - i + 1) * (seen - i) / 2;
    }
    w->base[active] = base;
}

/* Which pairs of the block any bucket has drawn. */
static void find_among(qk__pair_walk *w)
{
    qk__pair_block *b = &w->block;
    memset(b->among, 0, b->num_rows * sizeof *b->among);
    for (size_t r = b->sorted[0]->first; r <= b->last; r++)
        find_drawn(w, r);
}

/* Distances, a few keys at a time. */
static void measure_drawn(qk__pair_walk *w)
{
    qk__pair_block *b = &w->block;
    size_t ld = w->sums->whitening->ld;
    uint32_t step = near_keys(ld), done[MAX_ROWS] = {0};
    for (uint32_t near = step; near < STRETCH + step; near += step)
        for (size_t i = 0; i < b->num_rows; i++) {
            const qk__block_row *r = &b->row[i];
            const uint32_t *which = b->which + r->at + done[i];
            uint32_t n = 0;
            while (done[i] + n < r->count && which[n] < near)
                n++;
            w->kernel->distances(coordinates(b, r->left, ld), coordinates(b, r->from, ld),
                                 which, n, ld, b->all.v + r->at + done[i]);
            done[i] += n;
        }
}

/* The pairs that any active bucket has drawn, in the order in which rows came. */
static void form_drawn(qk__pair_walk *w)
{
    static const uint64_t all = UINT64_MAX;
    static const uint32_t none = 0;
    qk__pair_block *b = &w->block;
    const qk__pair_list list = wanted(w, &b->all.list);
    find_among(w);
    b->num_pairs = 0;
    for (size_t i = 0; i < b->num_rows; i++) {
        qk__block_row *r = &b->row[i];
        uint32_t *which = b->which + b->num_pairs;
        r->at = b->at[i] = (uint32_t)b->num_pairs;
        r->count = (uint32_t)w->kernel->members(&b->among[i], &all, &none, 1, which);
        b->num_pairs += r->count;
        form_row(w, r, &list, which);
    }
    measure_drawn(w);
    w->kernel->normalise(b->all.v, b->all.list.u, b->all.list.w, b->num_pairs);
}

void qk__block_count_example(qk__pair_walk *w, const qk__seen_key *keys, size_t count)
{
    for (size_t r = 0, seen = 0; r < w->num_active; r++) {
        while (seen < count && keys[seen].first <= r)
            seen++;
        w->base[r] += (uint64_t)seen * (seen - (seen > 0)) / 2;
    }
}

/* ---- from pairs to sums ----------------------------------------------------------------- */

static void tally_drawn(qk__pair_walk *w, size_t active)
{
    qk__pair_block *b = &w->block;
    const qk__pair_list list = wanted(w, &b->some.list);
    const uint64_t *drawn = w->drawn + active * MAX_ROWS;
    size_t n = w->kernel->members(drawn, b->among, b->at, b->num_rows, w->members);
    w->kernel->pick(&b->all.list, w->members, n, &list);
    for (size_t i = 0; i < n && list.weight; i++)
        list.weight[i] = b->all.list.weight[w->members[i]];
    b->num_runs = 0;
    for (size_t i = 0; i < b->num_rows && list.run; i++)
        add_run(w, &b->row[i], (size_t)__builtin_popcountll(drawn[i]));
    qk__tally_pairs(w->sums, w->active[active], &list, n, false, &b->all);
}

/* Adds the pairs of one key bucket, whose values have the same places as in the list with these weights. */
static void add_to_cell(qk__pair_walk *w, const qk__block_segment *s, const double *weight,
                        size_t cell)
{
    const double *pp = w->block.all.pp + s->at;
    if (!weight) {
        w->sums->tally->cells->cell[cell].ap += w->kernel->sum(pp, s->count);
        return;
    }
    w->sums->tally->cells->cell[cell].ap += w->kernel->dot(weight + s->at, pp, s->count);
    w->sums->tally->cells->weight[cell] += w->kernel->sum(weight + s->at, s->count);
}

static void tally_block(qk__pair_walk *w, size_t active)
{
    qk__pair_block *b = &w->block;
    size_t j = w->active[active], n;
    qk__pair_list list = wanted(w, &b->all.list);
    if (w->reach[active] == 0)
        return;
    if (w->sets) {
        tally_drawn(w, active);
        return;
    }
    if (w->sums->space->grid->window) {
        n = copy_seen(w, active);
        list = wanted(w, &b->some.list);
    } else {
        const qk__block_row *last = b->sorted[w->reach[active] - 1];
        n = last->at + (last->end - last->from);
    }
    qk__tally_pairs(w->sums, j, &list, n, w->only_cells, &b->all);
    if (!w->sums->tally->cells)
        return;
    size_t first = w->sums->tally->cells->at[j];
    for (size_t s = 0; s < b->num_segments && b->segment[s].at < n; s++)
        add_to_cell(w, &b->segment[s], list.weight, first + b->segment[s].rank);
}

void qk__block_finish(qk__pair_walk *w)
{
    qk__pair_block *b = &w->block;
    if (b->num_rows > 0) {
        sort_rows(w);
        if (w->sets)
            form_drawn(w);
        else
            form_pairs(w);
        if (!w->sets && w->sums->tally->cells && !w->sums->space->grid->window)
            find_segments(w);
        b->num_runs = 0;
        for (size_t i = 0; i < b->num_rows && w->sums->tally->parts; i++)
            add_run(w, b->sorted[i], b->sorted[i]->count);
        for (size_t r = b->sorted[0]->first; r <= b->last; r++)
            tally_block(w, r);
    }
    b->num_keys = b->num_rows = b->num_pairs = b->last = 0;
    b->long_example = false;
}
