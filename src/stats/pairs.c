/* SPDX-License-Identifier: Apache-2.0 */
/* All pairs, in blocks that stay in the cache. A block holds the keys of a few examples, or a
 * stretch of a long one against another stretch of it. The pairs of one later key with the
 * earlier keys are a row; the rows of a block lie in the order of the first query bucket
 * that sees their key, so that what a bucket sees is the beginning of the block: u, w
 * and the rest are formed once, each bucket runs over its share of them. With a window, keys
 * also go out of sight; then the share is what is left of that beginning, copied together. */
#include "stats/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

enum {
    TILE_KEYS = 128,         /* in one block */
    STRETCH = TILE_KEYS / 2, /* of an example that is longer than this */
    MAX_PAIRS = STRETCH * STRETCH,
    NEAR_VALUES = 4096, /* coordinates that fit the first-level cache */
    MAX_ROWS = TILE_KEYS,
    AHEAD = 8, /* keys asked for before they are needed */
};

/* A key that some active query bucket sees: its place in the index, the first and the last of
 * those buckets (indices into active). */
typedef struct seen_key {
    size_t place;
    size_t first, last;
} seen_key;

/* Pairs of key `left` with the keys from..end-1 of the block, at `at` in its lists. */
typedef struct row {
    uint32_t left, from, end, at;
    size_t first;    /* of the left key */
    uint64_t number; /* of its first pair among those of the example, all keys counted */
} row;

/* Pairs at..at+count-1 of a list belong to one key bucket. */
typedef struct segment {
    uint32_t at, count, rank;
    size_t first;
} segment;

typedef struct block {
    size_t num_keys, num_rows, num_pairs, num_segments;
    size_t num_done; /* keys whose coordinates are there; the others are mirrored only */
    size_t last;     /* active bucket that sees a row */
    const seen_key *key[TILE_KEYS];
    double *coordinates;   /* [TILE_KEYS][ld] */
    double *mirrored;      /* the same before the factor, where there is one */
    qk_key_scores scores;  /* [TILE_KEYS + LANES] */
    row row[MAX_ROWS];     /* as they come */
    row *sorted[MAX_ROWS]; /* by first */
    segment segment[MAX_ROWS];
    bool long_example;      /* a part of one; else a number of whole ones */
    qk_pair_run run[MAX_ROWS];
    qk_pair_room all, some; /* some: what a bucket with a window sees, or has drawn */
} block;

typedef struct walk {
    const qk_pair_kernel *kernel;
    const qk_pair_space *space;
    const qk_pair_model *model;
    const size_t *active;
    const uint64_t *const *sets; /* or NULL */
    size_t num_active;
    bool only_cells;
    qk_tally *tally;
    uint64_t *base;    /* [num_active] pairs that a bucket sees in earlier examples */
    uint32_t *members; /* [MAX_PAIRS + 15] of the block that a bucket has drawn */
    seen_key *keys;
    size_t *reach; /* [num_active + 1] rows of the block that begin below an active bucket */
    double *memory;
    block block;
} walk;

/* ---- which keys are seen ---- */

static bool sees(const walk *w, size_t place, size_t active)
{
    const qk_key_index *index = w->space->index;
    size_t j = w->active[active];
    if (!qk__sees(w->space->grid, &w->space->grid->bucket[j], index->bucket[place],
                  index->position[place]))
        return false;
    const qk_cell_table *cells = w->tally->cells;
    return !w->only_cells ||
           cells->cell[cells->at[j] + cells->rank[place]].pairs <= w->tally->limit;
}

/* Fills in *key and says whether any active bucket sees it. `from` is an active bucket below
 * which none does. Without a window, what one bucket sees the later ones see. */
static bool find_viewers(const walk *w, size_t place, size_t from, seen_key *key)
{
    while (from < w->num_active && !sees(w, place, from))
        from++;
    if (from == w->num_active)
        return false;
    *key = (seen_key){.place = place, .first = from, .last = w->num_active - 1};
    while (w->space->grid->window && !sees(w, place, key->last))
        key->last--;
    return true;
}

/* ---- filling a block ---- */

/* Puts keys of one example at `at` of the block, about its first key: differences of near keys
 * keep their digits however far the keys are from zero. */
static void load_keys(walk *w, size_t at, const seen_key *keys, size_t count, size_t centre)
{
    block *b = &w->block;
    const qk_whitening *p = w->model->whitening;
    double *out = (p->factor ? b->mirrored : b->coordinates) + at * p->ld;
    for (size_t i = 0; i < count; i++) {
        double dots[2];
        if (keys[i].place + AHEAD < w->space->index->rows)
            qk__prefetch_key(w->space, keys[i].place + AHEAD);
        qk__whiten_key(w->space, p, keys[i].place, centre, out + i * p->ld, dots);
        b->key[at + i] = &keys[i];
        b->scores.mean[at + i] = dots[0];
        b->scores.slope[at + i] = dots[1];
        b->scores.position[at + i] = w->space->index->position[keys[i].place];
    }
    b->num_keys = at + count;
    b->num_done = at < b->num_done ? at : b->num_done;
}

/* Where there is a factor, it is applied to many keys at a time. */
static void finish_keys(walk *w)
{
    block *b = &w->block;
    const qk_whitening *p = w->model->whitening;
    size_t at = b->num_done * p->ld;
    if (p->factor)
        w->kernel->multiply(p->factor, p->ld, b->mirrored + at, b->num_keys - b->num_done,
                            b->coordinates + at);
    b->num_done = b->num_keys;
}

/* Pairs of key `left` with from..end-1, less those at the beginning that have gone out of sight
 * before it comes into sight. `start` is the place of their example's first key. */
static void add_row(block *b, size_t left, size_t from, size_t end, size_t start)
{
    size_t first = b->key[left]->first;
    while (from < end && b->key[from]->last < first)
        from++;
    if (from == end)
        return;
    uint64_t before = b->key[left]->place - start;
    b->row[b->num_rows++] =
        (row){.left = (uint32_t)left,
              .from = (uint32_t)from,
              .end = (uint32_t)end,
              .first = first,
              .number = before * (before - 1) / 2 + (b->key[from]->place - start)};
    b->num_pairs += end - from;
    b->last = b->key[left]->last > b->last ? b->key[left]->last : b->last;
}

/* ---- from keys to pairs ---- */

/* Counting sort of the rows by the first bucket that sees them, and their places. */
static void sort_rows(walk *w)
{
    block *b = &w->block;
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
        at += b->sorted[i]->end - b->sorted[i]->from;
    }
}

/* What the kernel that looks for drawn pairs takes, in the order in which rows came. */
static void set_runs(block *b)
{
    for (size_t i = 0; i < b->num_rows; i++) {
        const row *r = &b->row[i];
        b->run[i] = (qk_pair_run){.number = r->number, .at = r->at, .count = r->end - r->from};
    }
}

static uint32_t rank_of(const walk *w, size_t key)
{
    return w->tally->cells->rank[w->block.key[key]->place];
}

/* Pairs of a row within one key bucket are its last ones. */
static size_t count_tail(const walk *w, const row *r)
{
    size_t from = r->end;
    uint32_t rank = rank_of(w, r->left);
    while (from > r->from && rank_of(w, from - 1) == rank)
        from--;
    return r->end - from;
}

static void add_segment(block *b, segment s)
{
    segment *last = b->num_segments ? &b->segment[b->num_segments - 1] : NULL;
    if (s.count == 0)
        return;
    if (last && last->at + last->count == s.at && last->rank == s.rank &&
        last->first == s.first)
        last->count += s.count;
    else
        b->segment[b->num_segments++] = s;
}

static void find_segments(walk *w)
{
    block *b = &w->block;
    b->num_segments = 0;
    for (size_t i = 0; i < b->num_rows; i++) {
        const row *r = b->sorted[i];
        uint32_t count = (uint32_t)count_tail(w, r);
        add_segment(b, (segment){.at = r->at + (r->end - r->from) - count,
                                 .count = count,
                                 .rank = rank_of(w, r->left),
                                 .first = r->first});
    }
}

/* The list without what only bins need, where there are none. */
static qk_pair_list wanted(const walk *w, const qk_pair_list *list)
{
    qk_pair_list all = *list;
    if (!w->tally->bins)
        all.mid = NULL;
    return all;
}

/* u, w and the rest of all rows. Distances go through the keys a few at a time; the other
 * kernel writes whole lanes, so its rows come in the order in which they lie. */
static void form_pairs(walk *w)
{
    block *b = &w->block;
    size_t ld = w->model->whitening->ld;
    uint32_t step = (uint32_t)(ld * LANES < NEAR_VALUES ? NEAR_VALUES / ld : LANES);
    const qk_bin_table *bins = w->tally->bins;
    const qk_pair_list list = wanted(w, &b->all.list);
    for (uint32_t near = 0; near < b->num_keys; near += step)
        for (size_t i = 0; i < b->num_rows; i++) {
            const row *r = &b->row[i];
            uint32_t from = r->from > near ? r->from : near;
            uint32_t end = r->end < near + step ? r->end : near + step;
            if (from < end)
                w->kernel->distances(b->coordinates + r->left * ld, b->coordinates + from * ld,
                                     end - from, ld, b->all.v + r->at + (from - r->from));
        }
    for (size_t i = 0; i < b->num_rows; i++) {
        const row *r = b->sorted[i];
        w->kernel->differences(&b->scores, r->left, r->from, r->end - r->from,
                               bins ? bins->width : 1, bins ? (double)bins->lags : 0, &list,
                               r->at);
    }
    w->kernel->normalise(b->all.v, b->all.list.u, b->all.list.w, b->num_pairs);
}

/* ---- with a window: the pairs that a bucket still sees ---- */

static void copy_pairs(const qk_pair_list *to, size_t at, const qk_pair_list *from, size_t i,
                       size_t n)
{
    memcpy(to->u + at, from->u + i, n * sizeof *to->u);
    memcpy(to->w + at, from->w + i, n * sizeof *to->w);
    memcpy(to->mid + at, from->mid + i, n * sizeof *to->mid);
    memcpy(to->bin + at, from->bin + i, n * sizeof *to->bin);
}

/* end[i] - i: how many keys from i on are seen without a gap; next[i]: the first one seen. */
static void find_runs(const walk *w, size_t active, uint32_t *next, uint32_t *end)
{
    uint32_t n = (uint32_t)w->block.num_keys;
    next[n] = end[n] = n;
    for (uint32_t i = n; i-- > 0;) {
        const seen_key *key = w->block.key[i];
        bool seen = key->first <= active && active <= key->last && sees(w, key->place, active);
        next[i] = seen ? i : next[i + 1];
        end[i] = !seen ? i : next[i + 1] == i + 1 ? end[i + 1] : i + 1;
    }
}

/* Returns the number of pairs; the segments are made anew, with places among the copies. */
static size_t copy_seen(walk *w, size_t active)
{
    block *b = &w->block;
    uint32_t next[TILE_KEYS + 1], end[TILE_KEYS + 1];
    size_t n = 0;
    find_runs(w, active, next, end);
    b->num_segments = 0;
    for (size_t i = 0; i < w->reach[active]; i++) {
        const row *r = b->sorted[i];
        if (next[r->left] != r->left)
            continue;
        uint32_t tail = w->tally->cells ? (uint32_t)count_tail(w, r) : 0, copied = 0;
        for (uint32_t k = next[r->from]; k < r->end; k = next[end[k]]) {
            uint32_t stop = end[k] < r->end ? end[k] : r->end;
            copy_pairs(&b->some.list, n, &b->all.list, r->at + (k - r->from), stop - k);
            n += stop - k;
            if (stop > r->end - tail)
                copied += stop - (k > r->end - tail ? k : r->end - tail);
            if (stop == r->end)
                break;
        }
        if (tail)
            add_segment(b, (segment){.at = (uint32_t)n - copied,
                                     .count = copied,
                                     .rank = rank_of(w, r->left)});
    }
    return n;
}

/* ---- pairs that were drawn ---- */

/* Pairs of the block in the set. Rows of an example come into sight one after the other, and its
 * seen keys are one more than its seen rows. */
static size_t find_members(walk *w, size_t active)
{
    block *b = &w->block;
    size_t n = 0;
    uint64_t base = w->base[active];
    for (size_t i = 0, end; i < b->num_rows; i = end) {
        size_t seen = i;
        end = i + 1;
        while (end < b->num_rows && b->row[end].number != 0)
            end++;
        while (seen < end && b->row[seen].first <= active)
            seen++;
        n += w->kernel->members(w->sets[active], base, b->run + i, seen - i, w->members + n);
        if (!b->long_example)
            base += (uint64_t)(seen - i + 1) * (seen - i) / 2;
    }
    w->base[active] = base;
    return n;
}

/* Once a long example is done. */
static void count_example(walk *w, const seen_key *keys, size_t count)
{
    for (size_t r = 0, seen = 0; r < w->num_active; r++) {
        while (seen < count && keys[seen].first <= r)
            seen++;
        w->base[r] += (uint64_t)seen * (seen - (seen > 0)) / 2;
    }
}

/* ---- from pairs to sums ---- */

static void tally_drawn(walk *w, size_t active)
{
    block *b = &w->block;
    const qk_pair_list list = wanted(w, &b->some.list);
    size_t n = find_members(w, active);
    w->kernel->pick(&b->all.list, w->members, n, &list);
    qk__tally_pairs(w->space, w->model, w->active[active], &list, n, false, &b->all, w->tally);
}

static void tally_block(walk *w, size_t active)
{
    block *b = &w->block;
    size_t j = w->active[active], n;
    const qk_pair_list *list = &b->all.list;
    if (w->reach[active] == 0)
        return;
    if (w->sets && w->sets[active]) {
        tally_drawn(w, active);
        return;
    }
    if (w->space->grid->window) {
        n = copy_seen(w, active);
        list = &b->some.list;
    } else {
        const row *last = b->sorted[w->reach[active] - 1];
        n = last->at + (last->end - last->from);
    }
    qk__tally_pairs(w->space, w->model, j, list, n, w->only_cells, &b->all, w->tally);
    if (!w->tally->cells)
        return;
    qk_ap_cell *cells = w->tally->cells->cell + w->tally->cells->at[j];
    for (size_t s = 0; s < b->num_segments && b->segment[s].at < n; s++)
        cells[b->segment[s].rank].ap +=
            w->kernel->sum(b->all.pp + b->segment[s].at, b->segment[s].count);
}

static void finish_block(walk *w)
{
    block *b = &w->block;
    if (b->num_rows > 0) {
        sort_rows(w);
        finish_keys(w);
        form_pairs(w);
        if (w->sets)
            set_runs(b);
        if (w->tally->cells && !w->space->grid->window)
            find_segments(w);
        for (size_t r = b->sorted[0]->first; r <= b->last; r++)
            tally_block(w, r);
    }
    b->num_keys = b->num_rows = b->num_pairs = b->last = 0;
    b->long_example = false;
}

/* ---- walking over the examples ---- */

/* An example with few keys, beside others in the block. */
static void add_short(walk *w, const seen_key *keys, size_t count, size_t centre)
{
    block *b = &w->block;
    if (b->num_keys + count > TILE_KEYS || b->num_pairs + count * (count - 1) / 2 > MAX_PAIRS)
        finish_block(w);
    size_t at = b->num_keys;
    load_keys(w, at, keys, count, centre);
    for (size_t i = 1; i < count; i++)
        add_row(b, at + i, at, at + i, centre);
}

static bool never_together(const seen_key *late, size_t num_late, const seen_key *early,
                           size_t num_early)
{
    size_t first = SIZE_MAX, last = 0;
    for (size_t i = 0; i < num_late; i++)
        first = late[i].first < first ? late[i].first : first;
    for (size_t i = 0; i < num_early; i++)
        last = early[i].last > last ? early[i].last : last;
    return last < first;
}

/* A long example: each stretch of it with itself and with those before it. */
static void add_long(walk *w, const seen_key *keys, size_t count, size_t centre)
{
    block *b = &w->block;
    finish_block(w);
    for (size_t late = 0; late < count; late += STRETCH) {
        size_t num_late = count - late < STRETCH ? count - late : STRETCH;
        load_keys(w, 0, keys + late, num_late, centre);
        for (size_t i = 1; i < num_late; i++)
            add_row(b, i, 0, i, centre);
        b->long_example = true;
        finish_block(w);
        for (size_t early = 0; early < late; early += STRETCH) {
            if (never_together(keys + late, num_late, keys + early, STRETCH))
                continue;
            load_keys(w, num_late, keys + early, STRETCH, centre);
            for (size_t i = 0; i < num_late; i++)
                add_row(b, i, num_late, num_late + STRETCH, centre);
            b->long_example = true;
            finish_block(w);
        }
    }
    if (w->sets)
        count_example(w, keys, count);
}

/* The keys first..end-1 of the index form pairs with one another. */
static void add_group(walk *w, size_t first, size_t end)
{
    const qk_key_index *index = w->space->index;
    size_t count = 0, from = 0;
    for (size_t i = first; i < end; i++) {
        while (from < w->num_active &&
               w->space->grid->bucket[w->active[from]].id <= index->bucket[i])
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

static void walk_groups(walk *w)
{
    const qk_key_index *index = w->space->index;
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
    finish_block(w);
}

static qk_status allocate(walk *w, qk_error *err)
{
    size_t ld = w->model->whitening->ld, tile = TILE_KEYS * ld, line = TILE_KEYS + LANES;
    size_t tiles = w->model->whitening->factor ? 2 : 1;
    block *b = &w->block;
    w->memory = qk__alloc_aligned(tiles * tile + 3 * line, sizeof(double));
    w->keys = qk__calloc(w->space->index->rows + 1, sizeof *w->keys);
    w->reach = qk__calloc(w->num_active + 1, sizeof *w->reach);
    if (!w->memory || !w->keys || !w->reach)
        return qk__nomem(err);
    b->coordinates = w->memory;
    b->mirrored = tiles > 1 ? w->memory + tile : NULL;
    b->scores.mean = w->memory + tiles * tile;
    b->scores.slope = b->scores.mean + line;
    b->scores.position = b->scores.slope + line;
    memset(b->scores.mean, 0, 3 * line * sizeof(double));
    if (w->sets) {
        w->base = qk__calloc(w->num_active, sizeof *w->base);
        w->members = qk__calloc(MAX_PAIRS + 15, sizeof *w->members);
        if (!w->base || !w->members)
            return qk__nomem(err);
    }
    QK_TRY(qk__pair_room_create(&b->all, MAX_PAIRS, err));
    bool copies = w->sets || w->space->grid->window;
    return copies ? qk__pair_room_create(&b->some, MAX_PAIRS, err) : QK_OK;
}

qk_status qk__add_all_pairs(const qk_pair_space *space, const qk_pair_model *model,
                            const size_t *active, const uint64_t *const *sets,
                            size_t num_active, bool only_cells, qk_tally *tally, qk_error *err)
{
    if (num_active == 0)
        return QK_OK;
    walk *w = calloc(1, sizeof *w);
    if (!w)
        return qk__nomem(err);
    *w = (walk){.kernel = qk__pair_kernel(),
                .space = space,
                .model = model,
                .active = active,
                .sets = sets,
                .num_active = num_active,
                .only_cells = only_cells,
                .tally = tally};
    qk_status status = allocate(w, err);
    seen_key *keys = w->keys;
    if (status == QK_OK)
        walk_groups(w);
    qk__pair_room_free(&w->block.all);
    qk__pair_room_free(&w->block.some);
    free(w->memory);
    free(keys);
    free(w->reach);
    free(w->base);
    free(w->members);
    free(w);
    return status;
}
