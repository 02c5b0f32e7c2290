/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost work of finding how planes turn: projections, angles, waves.
 *
 * Every number comes from the same chain of operations in the same lanes, none of them fused:
 * kernels agree to the last bit, whatever their vector width. */
#ifndef QK_STATS_TURN_KERNEL_H
#define QK_STATS_TURN_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/simd.h"

/* TURN_ROWS: projected at a time; TURN_LANES: doubles. */
enum { TURN_ROWS = 4, TURN_LANES = 8 };

typedef struct qk__turn_kernel {
    /* out [TURN_ROWS][columns] = x [TURN_ROWS][ld] axes [dim][columns]; columns are in whole
     * lanes. Every sum runs in the order of the dimensions. */
    void (*project)(const double *x, size_t ld, const double *axes, size_t dim, size_t columns,
                    double *out);

    /* angle[i] = atan2(y[i], x[i]) to a unit of rounding or two; n is in whole lanes. */
    void (*angles)(const double *x, const double *y, size_t n, double *angle);

    /* Cosine and sine of at[i] * turns turns, |turns| at most 1; n is in whole lanes. Right to
     * a unit of rounding or two where at[i] is a multiple of 1/2 below 2^22, and where the
     * angle is below a turn. */
    void (*wave)(const double *at, size_t n, double turns, double *cosine, double *sine);
} qk__turn_kernel;

/* Fastest kernel for this processor. */
const qk__turn_kernel *qk__best_turn_kernel(void);

/* By instruction set. */
extern const qk__turn_kernel *const qk__turn_kernels[QK_NUM_SIMD];
extern const qk__turn_kernel qk__turn_portable;
extern const qk__turn_kernel qk__turn_avx2;
extern const qk__turn_kernel qk__turn_avx512;

#endif
