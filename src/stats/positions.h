/* SPDX-License-Identifier: Apache-2.0 */
/* The different positions of a set of rows, and waves over them.
 *
 * All positions lie on a lattice smallest + place * step. Waves count from the middle between
 * the smallest and the largest position: nothing depends on where a text begins, and phases
 * stay small. */
#ifndef QK_STATS_POSITIONS_H
#define QK_STATS_POSITIONS_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#define TURN 6.283185307179586476925 /* radians */

typedef struct qk__positions {
    size_t rows, count;  /* count: different positions */
    double range;        /* largest - smallest, tokens */
    double step;         /* greatest common divisor of all differences; 1 if there is none */
    uint64_t last_place; /* of the largest position */
    uint32_t *order;     /* [rows] ascending by position, equal ones as they came */
    size_t *first;       /* [count + 1] where each position begins in `order` */
    uint64_t *place;     /* [count] */
    double *tau;         /* [count] tokens from the middle */
    /* Tables of qk__wave: those of the lattice's coarse and fine places. */
    int fine_bits; /* -1: no tables, the lattice is too sparse to gain from them */
    size_t num_coarse;
    double *coarse, *fine; /* cosine, sine; cosine, sine; ... */
} qk__positions;

/* At least one row. */
QK_MUST_CHECK qk_status qk__positions_create(qk__positions **positions, const int64_t *t,
                                             size_t rows, qk_error *err);
void qk__positions_free(qk__positions **positions);

/* cos(omega tau) and sin(omega tau) of every position, right to a few units of rounding. Uses
 * the tables: one caller at a time. */
void qk__wave(qk__positions *positions, double omega, double *cosine, double *sine);

#endif
