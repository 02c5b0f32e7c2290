/* SPDX-License-Identifier: Apache-2.0 */
/* What rotary position embedding (RoPE) does to each head, from captures of the same rows
 * before and after it: position correlations, what each rotary pair holds, and how the mean
 * score depends on distance, predicted from mean vectors and measured. docs/compare-stages.md
 *
 *     qk_stages_settings settings;
 *     qk_stages_report *report;
 *     qk_stages_settings_default(&settings);
 *     settings.before = "capture/pre";
 *     settings.after = "capture/post";
 *     settings.input.output = "results";
 *     qk_status status = qk_stages_run(&settings, &report, &err);
 *
 * writes results/stages.csv, results/rope_pairs.csv, results/score_by_distance.csv,
 * results/schema.json and results/manifest.json. With output = NULL nothing is written; the tables
 * of report->run are there by name all the same (qkscope/results.h). */
#ifndef QKSCOPE_STAGES_H
#define QKSCOPE_STAGES_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/analysis.h>
#include <qkscope/pca.h>
#include <qkscope/status.h>

QK_BEGIN_DECLS

typedef struct qk_stages_settings {
    const char *before, *after; /* captures before and after RoPE; after NULL: `before` holds
                                   both, in folders pre and post */
    qk_analysis_settings input; /* revision, layers, heads, group size, max_samples, pca
                                   thresholds, output, threads, notice, ... as in an analysis;
                                   its capture, prefix and analyses are not used */
} qk_stages_settings;

extern QK_API const qk_settings_table qk_stages_settings_table;
QK_API void qk_stages_settings_default(qk_stages_settings *settings);

/* A head's combined PCA on one side. */
typedef struct qk_stage_numbers {
    double r_q, r_k, explained_variance; /* of the first component */
    qk_category category;
} qk_stage_numbers;

/* One rotary pair: z is the complex number of its two coordinates before RoPE, means are over
 * rows. NaN where something is divided by 0. */
typedef struct qk_rope_pair {
    double frequency, wavelength;            /* radians per token, tokens */
    double energy_q, energy_k;               /* mean |z|^2, share of that of all dimensions */
    double concentration_q, concentration_k; /* |mean z|^2 / mean |z|^2, 0..1 */
    double mean_q, mean_k;                   /* |mean z| */
    double phase;                            /* arg(mean z_q) - arg(mean z_k), -pi..pi */
    double score_share; /* of the variance of the predicted score over distance; sum 1 */
} qk_rope_pair;

/* Pairs of a query and a key of one text, `first` to `last` tokens before it. */
typedef struct qk_score_bin {
    int number; /* counted from distance 0, those without pairs included */
    int64_t first, last;
    double distance;            /* mean */
    double measured, predicted; /* mean of q.k, without a factor 1/sqrt(d) */
    double standard_error;      /* of measured, over texts; NaN with one text */
    int64_t pairs;
    size_t texts;
} qk_score_bin;

/* Bins with fewer pairs than this are in no number of a head. */
enum { QK_SCORE_BIN_PAIRS = 30 };

typedef struct qk_head_stages {
    qk_stage_numbers before, after;
    size_t num_pairs, num_bins;
    qk_rope_pair *pairs; /* [num_pairs] in the model's order, the fastest first */
    qk_score_bin *bins;  /* [num_bins] those with pairs, by distance */
    /* Over bins, each counting the same. */
    double r_squared_predicted; /* 1 - what the predicted curve leaves of the variance of the
                                   measured one, both about their means; NaN below 3 bins */
    double curve_r;             /* Pearson correlation of the two */
    double chance_share;        /* mean squared standard error / variance of the measured */
    double measured_mean, measured_sd, predicted_mean, predicted_sd;
    /* Slow pairs turn less than once in the context, which is what the positions of the rows
     * reach to. */
    int64_t context;
    size_t slow_pairs;
    double slow_energy_q, slow_energy_k, slow_score_share;
    /* The pair with the largest score_share; NaN: none has any. */
    double top_pair, top_frequency, top_wavelength, top_share;
    /* Largest difference between a rotated row and the row after RoPE, over the length of that
     * row; RoPE may also scale: mean factors. */
    double rotation_deviation, scale_q, scale_k;
    int64_t rows_q, rows_k, row_pairs;
    size_t texts; /* with pairs */
} qk_head_stages;

typedef struct qk_stages_report {
    qk_analysis_results
        *run;             /* heads, failures, files, times; its capture is the one after RoPE */
    char *before;         /* folder read */
    size_t num_unrotated; /* heads in layers without frequencies: no numbers, no failure */
    qk_head_stages **heads; /* [run->num_heads]; NULL where there are no numbers */
} qk_stages_report;

/* Returns as qk_analysis_run does. QK_ERR_INCONSISTENT: captures of two models, or swapped; of a
 * head alone, rows that are not the same on both sides, and rows that the frequencies and the
 * pairing of capture.json do not turn into those after RoPE, to 2 % of their length (where the
 * up to three key heads that are tried first are all so, of the whole run). QK_ERR_NOT_FOUND: no
 * capture.json, or no rope_frequencies in it. Failures of heads are told at the end, each reason
 * once. */
QK_API QK_MUST_CHECK qk_status qk_stages_run(const qk_stages_settings *settings,
                                             qk_stages_report **report, qk_error *err);
QK_API void qk_stages_report_free(qk_stages_report **report);

/* What the heads with numbers have in common. NaN where no head has the number. */
typedef struct qk_stages_totals {
    size_t heads;                /* with numbers */
    size_t predicted, explained; /* those with r_squared_predicted, with one >= 0 */
    size_t before[QK_NUM_CATEGORIES], after[QK_NUM_CATEGORIES]; /* heads of each category */
    double r_squared_median;
    double slow_energy_q, slow_energy_k, slow_score_share; /* means */
    double rotation_deviation;                             /* largest */
} qk_stages_totals;

QK_API void qk_stages_totals_of(const qk_stages_report *report, qk_stages_totals *totals);

QK_END_DECLS

#endif
