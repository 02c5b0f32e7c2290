/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost work of attention plasticity: from key rows to coordinates in which the query
 * variance is a unit ball, from those to distances of pairs, from those to numbers of
 * undecided choices.
 *
 * Every kernel works in 8 logical lanes and forms every number by the same chain of
 * operations, fused where written so: they agree to the last bit, whatever their vector width.
 * Arrays of `n` values are read and written in whole lanes: they need LANES - 1 spare
 * values, which may hold anything initialised. */
#ifndef QK_STATS_PAIR_KERNEL_H
#define QK_STATS_PAIR_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/simd.h"

enum { LANES = 8 };

typedef struct qk__pair_kernel qk__pair_kernel;

/* How a difference x of two keys meets the queries. `ld` is dim in whole lanes, padding is
 * zero. y = H x is the mirrored difference; the variance of the score difference is
 * |scale y|^2. */
typedef struct qk__whitening {
    const qk__pair_kernel *kernel; /* chosen once: every key is whitened separately */
    size_t dim, ld;
    double *mean, *slope; /* [ld] of the queries */
    double *mirror;       /* [ld] */
    double *scale;        /* [ld] */
} qk__whitening;

/* Keys of one example side by side: x . mean, x . slope and position of each. */
typedef struct qk__key_scores {
    double *mean, *slope, *position;
} qk__key_scores;

/* Pairs up to `end` of a list, from where the run before ends, are of one group of texts. */
typedef struct qk__pair_run {
    uint32_t group;
    size_t end;
} qk__pair_run;

/* Pairs side by side. u + w (tau - mean of t) is z; mid is the mean position; bin is
 * the first cell of the pair's row in the table of distances. */
typedef struct qk__pair_list {
    double *u, *w, *mid;
    int32_t *bin;
    /* No kernel uses these: */
    double *weight;          /* NULL: each counts as one */
    const qk__pair_run *run; /* where sums are kept apart by groups */
} qk__pair_list;

struct qk__pair_kernel {
    /* x = row - centre; out[ld] = scale H x; dots = {x . mean, x . slope}. */
    void (*whiten_f32)(const qk__whitening *p, const float *row, const float *centre,
                       double *out, double dots[2]);
    void (*whiten_f64)(const qk__whitening *p, const double *row, const double *centre,
                       double *out, double dots[2]);

    /* v[j] = |left - right_j|^2 for right[][ld], j being 0 .. n-1 or, unless `which` is NULL, which[0 .. n-1].
     * Writes n values and no more. */
    void (*distances)(const double *left, const double *right, const uint32_t *which, size_t n,
                      size_t ld, double *v);

    /* Differences of key `left` and n keys from `at` on, or at + which[..]: u and w still without their
     * scale, bin = floor(|difference of positions| / width) * stride. Where pairs->mid is NULL,
     * neither it nor bin is wanted. */
    void (*differences)(const qk__key_scores *scores, size_t left, size_t at,
                        const uint32_t *which, size_t n, double width, double stride,
                        const qk__pair_list *pairs, size_t out);

    /* u, w times 1 / sqrt(v); v <= 0 counts as tiny. */
    void (*normalise)(const double *v, double *u, double *w, size_t n);

    /* pp = 4 p (1 - p) with p = Phi(u + w offset), |error| < 1e-14 pp. */
    void (*undecided)(const double *u, const double *w, double offset, size_t n, double *pp);

    /* cell = bin + floor((tau - mid) / width) - first. */
    void (*lags)(const double *mid, const int32_t *bin, double tau, double width, double first,
                 size_t n, int32_t *cell);

    /* The next `steps` numbers x of LANES generators (base/rng.h) whose states lie side by
     * side: out[i * LANES + l] = x % (n[l] + i), for 2^10 <= n and n + steps < 2^31. Whether
     * all x are at least 2^31, so that no choice among less than that would refuse one. */
    bool (*draw)(uint64_t state[4][LANES], const uint32_t n[LANES], size_t steps,
                 uint32_t *out);

    /* Lists the bits of in[words]: a bit of in[i] that has k bits of among[i] below it as at[i] + k.
     * Returns how many; out has room for all of them and 15 more. */
    size_t (*members)(const uint64_t *in, const uint64_t *among, const uint32_t *at,
                      size_t words, uint32_t *out);

    /* to[i] = from[which[i]]; mid and bin only where to->mid is not NULL. */
    void (*pick)(const qk__pair_list *from, const uint32_t *which, size_t n,
                 const qk__pair_list *to);

    double (*sum)(const double *x, size_t n);
    double (*dot)(const double *x, const double *y, size_t n);
};

/* Fastest kernel for this processor. */
const qk__pair_kernel *qk__best_pair_kernel(void);

/* By instruction set. */
extern const qk__pair_kernel *const qk__pair_kernels[QK_NUM_SIMD];
extern const qk__pair_kernel qk__pair_portable;
extern const qk__pair_kernel qk__pair_avx2;
extern const qk__pair_kernel qk__pair_avx512;
extern const qk__pair_kernel qk__pair_neon;

#endif
