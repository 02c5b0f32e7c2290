/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost work of finding how planes turn: projections, angles, waves, transforms.
 *
 * Every number comes from the same chain of operations in the same lanes, none of them fused:
 * kernels agree to the last bit, whatever their vector width. */
#ifndef QK_STATS_TURN_KERNEL_H
#define QK_STATS_TURN_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/simd.h"

/* TURN_ROWS: projected at a time; TURN_LANES: doubles; TURN_BINS: float32, the bins that one
 * transform finds side by side; TURN_TERMS: moments of a cell of positions. */
enum { TURN_ROWS = 4, TURN_LANES = 8, TURN_BINS = 16, TURN_TERMS = 6 };

/* Complex numbers for all bins of a transform. */
typedef struct qk__turn_point {
    float re[TURN_BINS], im[TURN_BINS];
} qk__turn_point;

/* Numbers at places of the lattice, to be transformed. */
typedef struct qk__turn_signal {
    size_t count;
    const double *x, *y;            /* [count] */
    const uint32_t *point, *part;   /* [count] place = part * points + point */
    size_t points;                  /* a power of two */
    const qk__turn_point *by_point; /* [points] turns a number by lane * point bins */
    const qk__turn_point *by_part;  /* the same for part * points */
    const float *root;              /* [points][2] exp(-2 pi i k / points) */
    const uint32_t *order;          /* [points] where a transform leaves its numbers */
} qk__turn_signal;

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

    /* re[m], im[m] = sum of (x + iy) (cosine - i sine) at^m; n is in whole lanes. */
    void (*moments)(const double *x, const double *y, const double *cosine, const double *sine,
                    const double *at, size_t n, double re[TURN_TERMS], double im[TURN_TERMS]);

    /* spectrum[order[m]] = bins m * strides + lane of the signal, of strides * points. */
    void (*transform)(const qk__turn_signal *signal, qk__turn_point *spectrum);

    /* length[m * strides + lane] gets |spectrum[order[m]]|, added to what is there if `add`. */
    void (*lengths)(const qk__turn_point *spectrum, const uint32_t *order, size_t points,
                    size_t strides, int add, float *length);

    /* The largest, or 0; n is in whole TURN_BINS. */
    float (*highest)(const float *length, size_t n);
} qk__turn_kernel;

/* Fastest kernel for this processor. */
const qk__turn_kernel *qk__best_turn_kernel(void);

/* By instruction set. */
extern const qk__turn_kernel *const qk__turn_kernels[QK_NUM_SIMD];
extern const qk__turn_kernel qk__turn_portable;
extern const qk__turn_kernel qk__turn_avx2;
extern const qk__turn_kernel qk__turn_avx512;

#endif
