/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary pairs: the complex numbers that RoPE turns, their means over rows before it, and whether turning these gives
 * the rows after it. */
#ifndef QK_STATS_ROPE_PAIRS_H
#define QK_STATS_ROPE_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/stats.h>

/* Which coordinates of a vector turn together, and how fast; coordinates from 2 pairs on do not turn. */
typedef struct qk__pairing {
    size_t pairs;
    bool interleaved;          /* 2j and 2j + 1, else j and j + pairs */
    const double *frequencies; /* [pairs] radians per token */
} qk__pairing;

static inline size_t qk__pair_first(const qk__pairing *p, size_t pair)
{
    return p->interleaved ? 2 * pair : pair;
}

static inline size_t qk__pair_second(const qk__pairing *p, size_t pair)
{
    return p->interleaved ? 2 * pair + 1 : pair + p->pairs;
}

/* ---- angles ----------------------------------------------------------------------------- */

/* cos and sin of frequency * position. Positions up to that of the tables cost a
 * multiplication, others a call of the library. */
typedef struct qk__phasors {
    const qk__pairing *pairing;
    int64_t end; /* of the positions in the tables */
    /* [.][2 pairs] cosines, then sines: of 0 .. QK__PHASOR_STEP - 1, and of its multiples */
    double *fine, *coarse;
} qk__phasors;
enum { QK__PHASOR_STEP = 256 };

QK_MUST_CHECK qk_status qk__phasors_init(qk__phasors *phasors, const qk__pairing *pairing,
                                         int64_t last_position, qk_error *err);
void qk__phasors_free(qk__phasors *phasors);

/* [2 pairs] cosines, then sines. */
void qk__phasors_at(const qk__phasors *phasors, int64_t position, double *out);

/* ---- means ------------------------------------------------------------------------------ */

/* Over rows of one kind before RoPE. */
typedef struct qk__pair_means {
    double *re, *im; /* [pairs] mean of z */
    double *energy;  /* [pairs] mean of |z|^2 */
    double total;    /* mean of |x|^2 over all dimensions */
} qk__pair_means;

/* Means over the rows from position `from` on. back: how rows after RoPE are turned back; NULL: rows are from before
 * RoPE. NaN without rows. */
QK_MUST_CHECK qk_status qk__pair_means_of(const qk_block *rows, const qk__pairing *pairing,
                                          const qk__phasors *back, int64_t from,
                                          qk__pair_means *means, qk_error *err);
void qk__pair_means_free(qk__pair_means *means);

/* ---- rotation --------------------------------------------------------------------------- */

/* How far rows after RoPE are from the turned rows before it. Each row may have a factor on what turns, and another on
 * the rest: YaRN scales the first, some models scale queries. */
typedef struct qk__turned {
    double deviation; /* largest difference in a coordinate, over the row's length after RoPE */
    size_t row;       /* its row */
    double scale;     /* mean factor on what turns, over rows that are not 0 there */
} qk__turned;

/* back: turns by the negative angles. */
QK_MUST_CHECK qk_status qk__compare_turned(const qk_block *before, const qk_block *after,
                                           const qk__phasors *phasors, bool back,
                                           qk__turned *turned, qk_error *err);

#endif
