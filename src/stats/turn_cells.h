/* SPDX-License-Identifier: Apache-2.0 */
/* Unit vectors added up by position, and what they add up to around one frequency.
 *
 * With F(omega) = sum of S exp(-i omega tau): around a frequency F is a power series in the
 * distance from it, whose coefficients are sums over positions. One look at the positions
 * gives them; values and derivatives within a quarter of a turn over the range then cost next
 * to nothing. */
#ifndef QK_STATS_TURN_CELLS_H
#define QK_STATS_TURN_CELLS_H

#include <stddef.h>
#include <stdint.h>

#include "stats/positions.h"
#include "stats/turn_kernel.h"

/* QK_TURN_CELLS: of equal width; at an eighth of a turn from the middle of a series, the
 * phases within a cell differ by less than 1/160 from its middle, and TURN_TERMS moments give
 * all digits. QK_TURN_POWERS: (pi / 4)^18 / 18! = 2e-18. */
enum { QK_TURN_CELLS = 128, QK_TURN_POWERS = 18 };

/* Positions lie in slots: cell by cell, each filled up with zeros to whole lanes. */
typedef struct qk__turn_cells {
    size_t slots;
    size_t first[QK_TURN_CELLS + 1]; /* slot where a cell begins */
    uint32_t *slot;                  /* [positions] */
    uint32_t *slot_of_row;           /* [rows] */
    double *x[2], *y[2];             /* [slots] sums of unit vectors: of queries, of keys */
    double *at, *share;           /* [slots] places from the cell's middle; of half a range */
    double *c, *s;                /* [slots] the wave in hand */
    double middle[QK_TURN_CELLS]; /* of cells: places from the middle of the range */
    double power[QK_TURN_POWERS][QK_TURN_CELLS]; /* (middle / half a range)^i / i! */
    double step, half_range;                     /* tokens */
} qk__turn_cells;

typedef struct qk__turn_series {
    double omega, half_range;
    double re[2][QK_TURN_POWERS], im[2][QK_TURN_POWERS]; /* of queries, of keys */
} qk__turn_series;

/* The sums turned back by omega tau, and how their lengths together change with omega (times a
 * constant). */
typedef struct qk__resultant {
    double re[2], im[2];
    double length, slope;
} qk__resultant;

/* Of positions with some range. */
QK_MUST_CHECK qk_status qk__turn_cells_create(qk__turn_cells **cells,
                                              const qk__positions *positions, qk_error *err);
void qk__turn_cells_free(qk__turn_cells **cells);

/* Adds up exp(i angle) by position; the first n_q rows are queries. */
void qk__turn_cells_add_up(qk__turn_cells *cells, const double *angle, size_t n_q, size_t rows);

void qk__turn_series_set(qk__turn_series *series, qk__turn_cells *cells, double omega);

/* At most an eighth of a turn over the range away from the series' omega. */
qk__resultant qk__turn_series_at(const qk__turn_series *series, double omega);

#endif
