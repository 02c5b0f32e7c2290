/* SPDX-License-Identifier: Apache-2.0 */
/* Meeting pairs of keys: every one (pairs.c), or some drawn at random (pair_draw.c); both count
 * them by pair_tally.c. */
#ifndef QK_STATS_PAIRS_H
#define QK_STATS_PAIRS_H

#include "stats/pair_space.h"

/* Which pairs are summed, by which model of the queries, and where. The value of a pair for query
 * bucket j is formed of z = u + w (tau_j - mean_t). */
typedef struct qk__pair_sums {
    const qk__pair_space *space;
    const qk__whitening *whitening;
    double mean_t;
    qk__tally *tally;
} qk__pair_sums;

/* Adds all pairs to the sums of the query buckets active[0] < active[1] < ...; with
 * `only_cells` just pairs of one key bucket to their cells. Cells with more than tally->limit
 * pairs are left alone then.
 *
 * sets[num_active], if not NULL, has for each active bucket NULL or the pairs that count for
 * it, one bit each; such a bucket adds nothing to its cells. Pairs are numbered example by
 * example, (1, 0), (2, 0), (2, 1), (3, 0), ... of the keys that the bucket sees. There must be
 * no window. */
QK_MUST_CHECK qk_status qk__add_all_pairs(const qk__pair_sums *sums, const size_t *active,
                                          const uint64_t *const *sets, size_t num_active,
                                          bool only_cells, qk_error *err);

/* Adds tally->limit pairs drawn without replacement from the `count` pairs of query bucket j,
 * or of its cell `cell` (an index into the table; SIZE_MAX: the bucket as a whole). */
QK_MUST_CHECK qk_status qk__add_drawn_pairs(const qk__pair_sums *sums, size_t j, size_t cell,
                                            int64_t count, uint64_t seed,
                                            const uint64_t stream[2], qk_error *err);

/* What follows is shared by the two ways.
 *
 * Room for `capacity` pairs and what is formed of them, all initialised. */
typedef struct qk__pair_room {
    qk__pair_list list;
    double *v, *pp;
    int32_t *cell;
    void *memory;
} qk__pair_room;

QK_MUST_CHECK qk_status qk__pair_room_create(qk__pair_room *room, size_t capacity,
                                             bool weighted, qk_error *err);
void qk__pair_room_free(qk__pair_room *room);

/* scale H x and the scores {x . mean, x . slope} of a key at a place of the index, x being its
 * difference from another. */
void qk__whiten_key(const qk__pair_space *space, const qk__whitening *whitening, size_t place,
                    size_t centre, double *out, double scores[2]);

/* Asks for a key's row ahead of time: rows come in any order, and waiting for them would take
 * longer than all the arithmetic. */
void qk__prefetch_key(const qk__pair_space *space, size_t place);

/* pp of the first n pairs of the list for query bucket j, added to the sums of the bucket and
 * the bins unless only cells are wanted; it stays in room->pp. */
void qk__tally_pairs(const qk__pair_sums *sums, size_t j, const qk__pair_list *list, size_t n,
                     bool only_cells, qk__pair_room *room);

#endif
