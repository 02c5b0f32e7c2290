/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost work of running a model: products of matrices, softmax and activations.
 *
 * Activations lie in panels of 32 tokens, a feature's tokens side by side:
 *
 *     panel:  feature 0: token 0 .. 31
 *             feature 1: token 0 .. 31
 *             ...
 *
 * so that a token is a lane. Everything but a product then works on whole vectors without ever
 * summing across one, an attention's scores and its probabilities are panels again (key by
 * key), and nothing is transposed between a projection, the attention and the next projection.
 * A matrix is used as it lies in a file, an output's inputs side by side.
 *
 * Every kernel forms every number by the same chain of operations, fused where written so: they
 * agree to the last bit, whatever their vector width, and a token's numbers do not depend on
 * which others are beside it. */
#ifndef QK_PREFILL_PANEL_KERNEL_H
#define QK_PREFILL_PANEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/simd.h"
#include "model/config_values.h"
#include "prefill/norm.h"
#include "prefill/rounding.h"

enum {
    QK_LANES = 32, /* tokens in a panel */
    QK_TILE = 8,   /* outputs that a kernel computes at once */
    QK_DEPTH = 256 /* inputs whose products are one chain; longer sums are sums of those */
};

/* A product of one tile: y[r][lane] = sum over k of a(r, k) b[k][lane] for QK_TILE rows r,
 * summed from zero in order of k, and then, if `add`, added to what y holds. */
typedef struct qk__panel_kernel {
    /* a(r, k) = a[r * row_step + k] for k < length, and so on for further `parts`, each
     * part_step after the last: b goes on over all of them. */
    void (*rows)(const float *a, size_t row_step, size_t length, size_t parts, size_t part_step,
                 const float *b, bool add, float *y);

    /* a(r, k) = a[k * QK_LANES + r] for k < length. */
    void (*columns)(const float *a, size_t length, const float *b, float *y);

    /* One block of scores [keys][lanes], in units of ln 2, joins a running softmax: top is
     * the largest score so far, total the sum of 2^(score - top) and sums [width][lanes] the
     * weighted sums so far. Those are brought to the new top, and scores become their
     * weights. keys is a multiple of 4. A score of -inf is one that is not there. */
    void (*softmax)(float *scores, size_t keys, float *top, float *total, float *sums,
                    size_t width);

    /* x = activation(x) for n values, a multiple of QK_LANES. */
    void (*activate)(qk__activation activation, float *x, size_t n);

    /* y = norm(x) for one panel of norm->width features, which may be the same. */
    void (*norm)(const qk__norm *norm, const float *x, float *y);

    /* (a, b) = (a cos - b sin, b cos + a sin), a pair of features of all lanes; each step is
     * rounded. */
    void (*turn)(qk__rounding rounding, float *a, float *b, const float *cosines,
                 const float *sines);
} qk__panel_kernel;

/* Fastest kernel for this processor. */
const qk__panel_kernel *qk__best_panel_kernel(void);

/* By instruction set. */
extern const qk__panel_kernel *const qk__panel_kernels[QK_NUM_SIMD];
extern const qk__panel_kernel qk__panel_portable;
extern const qk__panel_kernel qk__panel_avx2;
extern const qk__panel_kernel qk__panel_avx512;

#endif
