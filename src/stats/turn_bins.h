/* SPDX-License-Identifier: Apache-2.0 */
/* Resultant lengths at evenly spaced frequencies. */
#ifndef QK_STATS_TURN_BINS_H
#define QK_STATS_TURN_BINS_H

#include <stddef.h>
#include <stdint.h>

#include "stats/turn_cells.h"

/* Bin i stands for i / bins turns a step of the lattice, bins + i for -i. */
typedef struct qk__turn_bins {
    size_t bins, strides; /* at least four bins a place of the lattice */
    float *length;        /* [bins] */
    int *high;            /* [bins] see qk__turn_bins_high */
    size_t section;       /* bins that are looked at together */
    float *top;           /* [bins / section] the longest of a section */
    qk__turn_signal signal;
    qk__turn_point *spectrum, *by_point, *by_part;
    uint32_t *point, *part, *order;
    float *root;
    double *x, *y;         /* [slots] sums turned to the bins in hand */
    double *turn, *turn_s; /* [slots] cosine and sine of TURN_BINS bins' turn at each place */
} qk__turn_bins;

QK_MUST_CHECK qk_status qk__turn_bins_create(qk__turn_bins **bins,
                                             const qk__positions *positions,
                                             const qk__turn_cells *cells, qk_error *err);
void qk__turn_bins_free(qk__turn_bins **bins);

/* length[] = |sum over queries| + |sum over keys|, right to about a float32's rounding of the
 * longest. */
void qk__turn_bins_fill(qk__turn_bins *bins, const qk__turn_cells *cells);

/* Forgets bins between -first and first, not those two. Returns the longest of the others. */
double qk__turn_bins_confine(qk__turn_bins *bins, int first);

/* Bins at least so long into high[], -i for bins - i: slow ones first, forwards before
 * backwards. Returns how many. */
size_t qk__turn_bins_high(qk__turn_bins *bins, double least);

#endif
