/* SPDX-License-Identifier: Apache-2.0 */
/* Summing pairs of keys, all of them or drawn ones: room for them, their coordinates, their sums. */
#ifndef QK_STATS_PAIR_TALLY_H
#define QK_STATS_PAIR_TALLY_H

#include "stats/pair_space.h"

/* Which pairs are summed, by which model of the queries, and where. The value of a pair for query
 * bucket j is formed of z = u + w (tau_j - mean_t). */
typedef struct qk__pair_sums {
    const qk__pair_space *space;
    const qk__whitening *whitening;
    double mean_t;
    qk__tally *tally;
} qk__pair_sums;

/* Room for `capacity` pairs and their values, all initialised. */
typedef struct qk__pair_room {
    qk__pair_list list;
    double *v, *pp;
    int32_t *cell;
    void *memory;
} qk__pair_room;

QK_MUST_CHECK qk_status qk__pair_room_create(qk__pair_room *room, size_t capacity,
                                             bool weighted, qk_error *err);
void qk__pair_room_free(qk__pair_room *room);

/* scale H x and the scores {x . mean, x . slope} of a key at a place of the index; x is its difference from another
 * key. */
void qk__whiten_key(const qk__pair_space *space, const qk__whitening *whitening, size_t place,
                    size_t centre, double *out, double scores[2]);

/* How many keys of one example to make room for, so that each is whitened once: those of the longest example, up to a
 * limit. */
size_t qk__keys_to_prepare(const qk__pair_sums *sums);

/* Asks for a key's row ahead of time: rows come in any order, and waiting for them would take
 * longer than all the arithmetic. */
void qk__prefetch_key(const qk__pair_space *space, size_t place);

/* pp of the first n pairs of the list for query bucket j, added to the sums of the bucket and
 * the bins unless only cells are wanted; it stays in room->pp. */
void qk__tally_pairs(const qk__pair_sums *sums, size_t j, const qk__pair_list *list, size_t n,
                     bool only_cells, qk__pair_room *room);

#endif
