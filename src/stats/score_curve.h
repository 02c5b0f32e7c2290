/* SPDX-License-Identifier: Apache-2.0 */
/* The mean score of a query and a key by the distance between them: measured, and predicted
 * from mean vectors (score_curve.c, score_predict.c).
 *
 * Sums over the keys of a text up to a position give those of a range of distances as a
 * difference, so a query costs a product for each bin and not for each key. */
#ifndef QK_STATS_SCORE_CURVE_H
#define QK_STATS_SCORE_CURVE_H

#include <qkscope/analysis.h>

#include "stats/rope_pairs.h"

/* Distances 0, 1, 2, 3, 4-5, 6-7, 8-11, 12-15, ...: two bins an octave. */
int64_t qk__score_bin_first(size_t bin);

/* Positions, and so distances, are below this. */
#define QK__MAX_POSITION ((int64_t)1 << 40)

/* Keys after RoPE by text and position, with running sums in each text. */
typedef struct qk__key_sums {
    size_t rows, dim, pairs;
    int64_t *text, *position; /* [rows] in order */
    double *vectors;          /* [rows][dim] sums of this key and those of its text before it */
    double *angles;           /* [rows][2 pairs] likewise of cosines, sines */
    double *positions;        /* [rows] likewise, from the text's first */
} qk__key_sums;

/* Positions are 0 .. QK__MAX_POSITION - 1. */
QK_MUST_CHECK qk_status qk__key_sums_init(qk__key_sums *sums, const qk_block *keys,
                                          const qk__phasors *phasors, qk_error *err);
void qk__key_sums_free(qk__key_sums *sums);

/* The parts of a curve that do not depend on means: bins with measured numbers, and for each the means of cos and sin
 * of frequency * distance. */
typedef struct qk__score_curve {
    size_t num_bins;
    qk_score_bin *bins; /* predicted is 0 */
    double *turns;      /* [num_bins][2 pairs] cosines, then sines */
    int64_t pairs;
    size_t texts; /* with pairs */
} qk__score_curve;

/* Pairs of queries and keys of one example: keys not after the query, and within its window where queries have
 * windows. texts: of each query's example; errors are over texts. */
QK_MUST_CHECK qk_status qk__score_curve_measure(const qk_block *queries, const int64_t *texts,
                                                const qk__key_sums *keys,
                                                const qk__phasors *phasors,
                                                qk__score_curve *curve, qk_error *err);
void qk__score_curve_free(qk__score_curve *curve);

/* What pair p adds to the score of mean vectors: Re(mean z_q conj(mean z_k) e^(i w distance)). turns:
 * [2 pairs] of a distance, cosines, then sines, or means of them over distances. */
double qk__pair_score(const qk__pair_means *q, const qk__pair_means *k, size_t p,
                      const double *turns, size_t pairs);

/* Sets the pairs and the curve's predicted numbers of `stages`, and the numbers that compare the two curves. q, k:
 * means before RoPE. factor: of RoPE on queries times that on keys. rest: product of the means of the dimensions that
 * do not turn, a constant. stages->bins and ->pairs are there; contributions: [num_bins][pairs] of scratch. */
void qk__score_curve_predict(const qk__score_curve *curve, const qk__pairing *pairing,
                             const qk__pair_means *q, const qk__pair_means *k, double factor,
                             double rest, qk_head_stages *stages, double *contributions);

#endif
