/* SPDX-License-Identifier: Apache-2.0 */
/* A block of pairs in the cache: the keys of a few examples, or a stretch of a long one against
 * another stretch of it. The pairs of one later key with the earlier keys are a row. */
#ifndef QK_STATS_PAIR_BLOCK_H
#define QK_STATS_PAIR_BLOCK_H

#include "stats/pair_tally.h"

enum {
    TILE_KEYS = 128,         /* in one block */
    STRETCH = TILE_KEYS / 2, /* of an example that is longer than this */
    MAX_PAIRS = STRETCH * STRETCH,
    MAX_ROWS = TILE_KEYS,
};

/* A key that some active query bucket sees: its place in the index, and the first and last of those buckets (indices
 * into active). */
typedef struct qk__seen_key {
    size_t place;
    size_t first, last;
} qk__seen_key;

/* Pairs of key `left` with the keys from..end-1 of the block, or some of them: `count` pairs at `at`
 * in its lists. */
typedef struct qk__block_row {
    uint32_t left, from, end, at, count;
    size_t first;    /* of the left key */
    uint64_t number; /* of its first pair among those of the example, all keys counted */
} qk__block_row;

/* Pairs at..at+count-1 of a list belong to one key bucket. */
typedef struct qk__block_segment {
    uint32_t at, count, rank;
    size_t first;
} qk__block_segment;

typedef struct qk__pair_block {
    size_t num_keys, num_rows, num_pairs, num_segments;
    size_t last; /* active bucket that sees a row */
    const qk__seen_key *key[TILE_KEYS];
    double *coordinates;   /* [TILE_KEYS][ld] of the keys that were loaded */
    const double *part[2]; /* [][ld] coordinates of the keys before `split`, and from it on */
    size_t split;
    qk__key_scores scores;           /* [2 TILE_KEYS + LANES] */
    qk__block_row row[MAX_ROWS];     /* as they come */
    qk__block_row *sorted[MAX_ROWS]; /* by first */
    qk__block_segment segment[MAX_ROWS];
    bool long_example; /* a part of a long example; else a number of whole examples */

    /* Where pairs were drawn, the block has those that some bucket has drawn: for each row the keys
     * from..end-1 among them, a bit each, and its place; for each pair its key, less `from`. */
    uint64_t among[MAX_ROWS];
    uint32_t at[MAX_ROWS], which[MAX_PAIRS + 15];
    qk__pair_room all, some; /* some: those that a bucket with a window sees, or has drawn */
    /* of the pairs that a bucket adds, where it keeps groups apart */
    qk__pair_run run[MAX_ROWS];
    size_t num_runs;
} qk__pair_block;

typedef struct qk__pair_walk {
    const qk__pair_kernel *kernel;
    const qk__pair_sums *sums;
    const size_t *active;
    const uint64_t *const *sets; /* or NULL */
    size_t num_active;
    bool only_cells;
    uint64_t *base; /* [num_active] pairs that a bucket sees in earlier examples */
    /* [num_active][MAX_ROWS] keys of each row that a bucket has drawn, bits of `among` */
    uint64_t *drawn;
    uint32_t *members; /* [MAX_PAIRS + 15] places in the block of what a bucket has drawn */
    qk__seen_key *keys;
    size_t *reach; /* [num_active + 1] rows of the block that begin below an active bucket */
    double *memory;
    double *prepared; /* [num_prepared][ld] coordinates of a long example's keys */
    qk__key_scores prepared_scores;
    size_t num_prepared; /* for so many keys there is room */
    qk__pair_block block;
} qk__pair_walk;

/* Whether an active bucket sees a key (and, for cells, wants it). */
static inline bool qk__walk_sees(const qk__pair_walk *w, size_t place, size_t active)
{
    const qk__key_index *index = w->sums->space->index;
    size_t j = w->active[active];
    if (!qk__sees(w->sums->space->grid, &w->sums->space->grid->bucket[j], index->bucket[place],
                  index->position[place]))
        return false;
    const qk__cell_table *cells = w->sums->tally->cells;
    return !w->only_cells || !cells ||
           cells->cell[cells->at[j] + cells->rank[place]].pairs <= w->sums->tally->limit;
}

/* Puts keys of one example at `at` of the block, about its first key: differences of near keys
 * keep their digits however far the keys are from zero. */
void qk__block_load(qk__pair_walk *w, size_t at, const qk__seen_key *keys, size_t count,
                    size_t centre);

/* Loads all keys of a long example, at most num_prepared, once; then puts some of them, from
 * keys[from] on, at `at` of the block. */
void qk__block_prepare(qk__pair_walk *w, const qk__seen_key *keys, size_t count, size_t centre);
void qk__block_take(qk__pair_walk *w, size_t at, const qk__seen_key *keys, size_t from,
                    size_t count);

/* Pairs of key `left` with from..end-1, less those at the beginning that are too far, or have gone out of sight
 * before it comes into sight. `start` is the place of their example's first key. */
void qk__block_add_row(qk__pair_walk *w, size_t left, size_t from, size_t end, size_t start);

/* Adds the rows to the sums of the buckets that see them; the block is empty then. */
void qk__block_finish(qk__pair_walk *w);

/* Where pairs were drawn: the seen keys of an example whose blocks are all finished, or that has none. */
void qk__block_count_example(qk__pair_walk *w, const qk__seen_key *keys, size_t count);

#endif
