/* SPDX-License-Identifier: Apache-2.0 */
/* Captures whose answers are known: vectors drawn from a model whose means, drifts,
 * covariances and frequencies are chosen, and written down beside them.
 *
 *     qk_synth_settings settings;
 *     qk_synth_settings_default(&settings);
 *     settings.layers = 2;
 *     settings.r_k = 0.9;
 *     if (qk_synth_write(&settings, "made-up", &err) != QK_OK)
 *         ...
 *
 * A row of kind s (query or key) at token position t is
 *
 *     x(t) = mean_s + alpha_s (t - t0) a + sum_j sqrt(lambda_j) z_j b_j
 *            + sum_p A_p (cos(omega_p t + phi_p) e_x(p) + sin(omega_p t + phi_p) e_y(p))
 *
 * with z_j independent standard normal; t0 the middle of the positions; a a unit vector,
 * common to a key head and the query heads that attend to it; b_j a random orthonormal
 * basis; lambda_j proportional to j^-exponent with mean scale^2; e_x, e_y the coordinates
 * that RoPE turns together, i and i + dim/2; a orthogonal to all of them. docs/synth.md
 * derives what an analysis should find. */
#ifndef QKSCOPE_SYNTH_H
#define QKSCOPE_SYNTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/parquet.h>
#include <qkscope/settings.h>
#include <qkscope/status.h>

QK_BEGIN_DECLS

/* done of total heads, bytes of vectors behind them; return false to stop
 * (QK_ERR_CANCELLED). Called from any worker thread, one call at a time. */
typedef bool qk_synth_progress_fn(void *user, size_t done, size_t total, int64_t bytes);

typedef struct qk_synth_settings {
    /* shape */
    int layers;
    int query_heads; /* per layer; a multiple of group */
    int group;       /* query heads per key head */
    size_t dim;      /* 2 to 4096 */
    /* rows; of every head */
    int examples;
    size_t rows_per_example; /* spread evenly over the buckets, positions without repeats */
    int buckets;
    int bucket_width;        /* tokens */
    int64_t position_offset; /* of the first token of bucket 0 */
    int sliding_window;      /* column sliding_window; 0 = null */
    uint64_t seed;
    bool bfloat16; /* round to the nearest bfloat16 */
    bool strings;  /* add token_str */
    /* The model. NAN: drawn for every head from the range given. */
    double r_q, r_k;         /* correlation of a.x, drift and content alone, with t;
                                drawn as tanh of 0 .. 3, r_k of either sign */
    double slope_q, slope_k; /* alpha_s; NAN: as r_q and r_k demand */
    double separation;       /* |mean_q - mean_k| / scale_q; drawn from 1 .. 16 */
    double mean_offset;      /* |mean_k| / scale_k; drawn from 0 .. 2 */
    double scale;            /* content, root mean square a dimension; drawn from 0.5 .. 2 */
    double exponent;         /* decay of the eigenvalues; drawn from 0.5 .. 1.5 */
    int rope_planes;         /* how many planes turn; 2 rope_planes < dim */
    double rope_theta;
    double rope_amplitude;          /* A_p / scale; drawn from 0.5 .. 2 */
    const double *rope_frequencies; /* [rope_planes] radians a token; NULL:
                                       theta^(-2i/dim) of each plane's coordinate i */
    /* output */
    const char *model;   /* name in capture.json; NULL = "synth" */
    int shards;          /* files per head */
    bool truth_matrices; /* add the basis b_j (dim x dim a head) to truth.json */
    int threads;         /* 0 = all processors; the bytes written do not depend on it */
    qk_parquet_writer_settings writer;
    qk_synth_progress_fn *progress;
    void *user;
} qk_synth_settings;

/* 2 layers of 4 query and 2 key heads, 64 dimensions, 4 examples of 1,000 rows in 16
 * buckets of 128 tokens, 2 turning planes, bfloat16; everything that can be drawn is. */
extern QK_API const qk_settings_table qk_synth_settings_table;
QK_API void qk_synth_settings_default(qk_synth_settings *settings);

/* Writes the capture and its truth.json into `dir`, which is created.
 * Errors: QK_ERR_ARGUMENT (a setting out of range, named), QK_ERR_EXISTS (dir is there
 * and not empty), QK_ERR_IO, QK_ERR_CANCELLED. After a failure capture.json says that the
 * capture is not complete. */
QK_API QK_MUST_CHECK qk_status qk_synth_write(const qk_synth_settings *settings,
                                              const char *dir, qk_error *err);

QK_END_DECLS

#endif
