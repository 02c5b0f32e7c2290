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
#include <stdint.h>

#include <qkscope/attention.h>

#include "base/simd.h"
#include "model/config_values.h"
#include "prefill/norm.h"
#include "prefill/rounding.h"

enum {
    QK_LANES = 32,    /* tokens in a panel */
    QK_TILE = 8,      /* outputs that a kernel computes at once */
    QK_DEPTH = 256,   /* inputs whose products are one chain; longer sums are sums of those */
    QK_KEY_PANELS = 4 /* panels of keys in a block of scores */
};

/* What is added up of the weights of a panel of queries on its way through the keys (tally.h), beside
 * their total. The keys passed over are the first QK_SINK_KEYS, which are kept one by one. */
enum {
    QK_TALLY_WEIGHT,    /* all but those passed over */
    QK_TALLY_DISTANCE,  /* the same, times the distances of keys */
    QK_TALLY_DUPLICATE, /* the same, of keys with the query's own token */
    QK_TALLY_INDUCTION, /* the same, of keys behind such a one */
    QK_TALLY_FIRST,     /* those passed over */
    /* the others, by bins of distances */
    QK_TALLY_BINS = QK_TALLY_FIRST + QK_SINK_KEYS,
    QK_TALLY_SUMS = QK_TALLY_BINS + QK_DISTANCE_BINS
};

typedef struct qk__head_tally {
    float sums[QK_TALLY_SUMS][QK_LANES]; /* of weights, as large as total is */
    float logs[QK_LANES];                /* sum of w log2 w, but of those passed over */
    float first_scores[QK_SINK_KEYS][QK_LANES];
} qk__head_tally;

/* The keys that it meets at once. */
typedef struct qk__tally_block {
    float *scores;   /* [keys][lanes] */
    size_t keys;     /* whole panels */
    size_t passed;   /* in the first block QK_SINK_KEYS, else 0 */
    float ahead;     /* from the first key to the first query */
    size_t num_sums; /* of the tally; the others are 0 */
    const int32_t *query_tokens;
    const int32_t *key_tokens; /* one more stands before them */
    /* Where each panel's weights go, but for those passed over; NULL: nowhere. */
    float *bins[QK_KEY_PANELS];
} qk__tally_block;

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

    /* The same of a block's scores, to the same bits, and adds their weights to the tally, but for its first
     * keys. */
    void (*tally)(const qk__tally_block *block, float *top, float *total, float *sums,
                  size_t width, qk__head_tally *tally);

    /* Adds the weights of keys from `passed` on of one panel to the sum of their lanes, where
     * least <= lane - key < past. */
    void (*band)(const float *weights, size_t passed, float least, float past, float *sum);

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
extern const qk__panel_kernel qk__panel_neon;

#endif
