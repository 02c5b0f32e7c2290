/* SPDX-License-Identifier: Apache-2.0 */
/* The frequency at which angles turn with position. */
#ifndef QK_STATS_TURNING_H
#define QK_STATS_TURNING_H

#include <stdbool.h>

#include "stats/positions.h"

/* Longest lattice of positions that is searched; it bounds the memory of the search (about 130
 * bytes a place). */
enum { QK_MAX_TURNING_PLACES = 1 << 20 };

typedef struct qk__turning {
    double omega;            /* radians per token, of either sign */
    double resultant;        /* 0..1 */
    double phase_q, phase_k; /* radians, at the middle of the positions */
    bool known;              /* omega is one of the given frequencies */
} qk__turning;

typedef struct qk__turn_finder qk__turn_finder;

/* The first n_q of the rows behind `positions` are queries, the others keys. Positions and frequencies must outlive
 * the finder. */
QK_MUST_CHECK qk_status qk__turn_finder_create(qk__turn_finder **finder,
                                               const qk__positions *positions, size_t n_q,
                                               const double *frequencies, size_t count,
                                               qk_error *err);
void qk__turn_finder_free(qk__turn_finder **finder);

/* Where R(omega) = (|sum over queries of exp(i(angle - omega t))| + the same of keys) / rows is
 * largest, over the frequencies given, in either direction, from 1/8 turn over the range of
 * positions to half a turn over their step. Where none of them lies there, over a grid, whose
 * best is right to 1/8 turn over the range. All numbers are NaN with fewer than four positions,
 * or more places than QK_MAX_TURNING_PLACES. Angles are in the order of the rows. */
qk__turning qk__find_turning(qk__turn_finder *finder, const double *angle);

#endif
