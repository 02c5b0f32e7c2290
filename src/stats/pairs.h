/* SPDX-License-Identifier: Apache-2.0 */
/* Meeting pairs of keys: every one (pairs.c), or some drawn at random (pair_draw.c). */
#ifndef QK_STATS_PAIRS_H
#define QK_STATS_PAIRS_H

#include "stats/pair_tally.h"

/* Adds all pairs to the sums of the query buckets active[0] < active[1] < ...; with
 * `only_cells` just pairs of one key bucket to their cells. Cells with more than tally->limit
 * pairs are left alone then.
 *
 * sets[num_active], if not NULL, has for each active bucket the pairs that count for it, one
 * bit each and a word to spare; nothing is added to cells then. Pairs are numbered example by
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

#endif
