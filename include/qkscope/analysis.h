/* SPDX-License-Identifier: Apache-2.0 */
/* From captures to tables: the analyses of one capture, and what RoPE does from two, before and
 * after it. */
#ifndef QKSCOPE_ANALYSIS_H
#define QKSCOPE_ANALYSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/attention.h>
#include <qkscope/capture.h>
#include <qkscope/common.h>
#include <qkscope/settings.h>
#include <qkscope/stats.h>

QK_BEGIN_DECLS

/* ==== analyses ============================================================================ */

/* From a capture to tables: which heads, which analyses, on how many threads, written where.
 *
 *     qk_analysis_settings settings;
 *     qk_analysis_results *results;
 *     qk_analysis_settings_default(&settings);
 *     settings.capture = "examples/kjv-tiny-capture";
 *     settings.output = "results";
 *     settings.analyses = QK_ANALYSE_PCA | QK_ANALYSE_ROTATION;
 *     qk_status status = qk_analysis_run(&settings, &results, &err);
 *
 * writes results/qk.csv, results/heads.csv, results/rotated.csv and results/manifest.json. */

/* What a run computes; its settings have a sum of these. */
typedef enum qk_analyses {
    QK_ANALYSE_PCA = 1 << 0,        /* qk.csv, heads.csv; single-kind: see `combined` */
    QK_ANALYSE_ROTATION = 1 << 1,   /* rotated.csv, and complement.csv with planes > 0 */
    QK_ANALYSE_PLASTICITY = 1 << 2, /* head_*.csv, model_report.csv */
    /* attention.csv, attention_profile.csv; with other analyses only where the capture keeps sums of it */
    QK_ANALYSE_ATTENTION = 1 << 3,
} qk_analyses;

/* Which position buckets plasticity uses; a number above 1 means so many buckets of equal width.
 * docs/methods.md#plasticity */
enum {
    QK_BUCKETS_AUTO = 0,     /* the capture's if it has at most QK_FEW_BUCKETS, else so many */
    QK_BUCKETS_CAPTURE = -1, /* the capture's, however many */
    QK_FEW_BUCKETS = 32,
    QK_MAX_BUCKETS = 1024,
};

typedef struct qk_analysis_settings {
    /* input */
    /* folder, or "org/name" of a dataset on the Hub; wanted files that are not in the Hugging Face cache are
     * fetched */
    const char *capture;
    const char *revision;   /* of the dataset; NULL = main */
    const char *local_root; /* see qk_hub_wanted; NULL = none */
    const char *prefix;     /* sub-folder of the capture ("split"); NULL = find it */
    const char *model_name; /* NULL: from capture.json, else the Hub's name, else empty */
    /* selection */
    qk_index_list layers;
    qk_head_set heads;   /* combined: query heads; single-kind: head index of either kind */
    int64_t max_samples; /* rows per head and kind, the first ones; 0 = all */
    /* rows at positions below it are left out, as if the capture did not have them; 0 = none */
    int64_t from_position;
    int sample_heads;   /* as CPython's random.Random(seed).sample; 0 = all */
    int64_t seed;       /* of that draw, and of pairs that are drawn where there are too many */
    int q_per_kv_group; /* 0 = capture.json, else inferred */
    bool strict;        /* a group size that does not fit, or contradicts capture.json, is an
                            error */
    bool allow_missing; /* missing heads do not fail the run */
    /* rows whose text and position occurred before do not fail their head */
    bool allow_repeats;
    /* analysis */
    unsigned analyses; /* sum of qk_analyses */
    /* false: the PCA fits each kind by itself and writes correlations.csv and summary.json; then there is no
     * other analysis */
    bool combined;
    qk_kinds kinds; /* of the single-kind PCA */
    qk_pca_settings pca;
    qk_rotation_settings rotation;
    qk_plasticity_settings plasticity; /* its seed is not used, the one above is */
    int buckets; /* of plasticity: QK_BUCKETS_..., or 2 to QK_MAX_BUCKETS */
    /* between the keys of a pair in plasticity, "2000" tokens or "5%" of their text: a run sets the members of
     * plasticity from it; NULL = any */
    const char *max_distance;
    double ci; /* confidence level of the intervals in percent, 1 <= ci < 100; 0 = none */
    double correlation_threshold; /* single-kind: |r| counted as high */
    /* Recorded in summary.json as the original tool does, without effect; NULL = "auto" and "sklearn", its
     * defaults. */
    const char *device, *pca_backend;
    /* factor on scores, where attention is computed from rows or predicted; 0 = the model's, else 1/sqrt(d) */
    double attention_scale;
    /* "256,1024": fill lengths.csv, with categories of rows below these positions; at most QK_MOST_LENGTHS;
     * NULL = none */
    const char *lengths;
    bool lda; /* fill heads.csv lda_accuracy: reads the rows twice, unless they are kept */
    /* output and running */
    const char *output; /* folder; NULL: nothing is written (qkscope/results.h) */
    bool force;         /* replace all results in the folder */
    /* cells and distances of plasticity leave memory once they are in their files: results have none */
    bool drop_written;
    size_t block_rows; /* rows read at a time; results do not depend on it; 0 = default */
    const char *command_line; /* recorded in manifest.json; NULL = none */
    qk_context context;       /* progress: "heads"; a run that is stopped writes nothing */
} qk_analysis_settings;

extern QK_API const qk_settings_table qk_analysis_settings_table;
QK_API void qk_analysis_settings_default(qk_analysis_settings *settings);

/* A configuration file of pca-analyze (YAML). The strings of `settings` point into the config. Keys without effect
 * here are listed in notes. Unknown keys, wrong types and values out of range are QK_ERR_ARGUMENT and name file, key
 * and line. */
typedef struct qk_config qk_config;
QK_API QK_MUST_CHECK qk_status qk_config_load(qk_config **config, const char *path,
                                              qk_error *err);
QK_API void qk_config_free(qk_config **config);
QK_API const qk_analysis_settings *qk_config_settings(const qk_config *config);
QK_API size_t qk_config_num_notes(const qk_config *config);
QK_API const char *qk_config_note(const qk_config *config, size_t i);

/* Moments of every head of a complete capture. Query heads of a layer are neighbours, and so are key heads. */
typedef struct qk_head_moments {
    char *capture, *model; /* the folder that holds the heads; as in results */
    size_t layers, dim;
    size_t heads[2];    /* of a layer, by qk_kind */
    size_t group;       /* query heads of a key head */
    int64_t texts;      /* after the first head */
    int64_t length;     /* the latest position of its rows, plus 1 */
    qk_moments **of[2]; /* by qk_kind: [layers * heads]; NULL: not among the settings' kinds */
    /* [layers * query heads][dim / 2]: sums of the lengths of rotary pairs of queries before RoPE, where the
     * capture's moments have them, else NaN; NULL: it keeps rows */
    double *sum_abs;
} qk_head_moments;

/* settings: the capture and its rows; `kinds`: whose moments are read; `combined`: whether key heads are asked for,
 * else heads[QK_KEY] and group are 0. stage: the stage that vectors must have, else QK_ERR_INCONSISTENT.
 * QK_ERR_NOT_FOUND: heads are missing. */
QK_API QK_MUST_CHECK qk_status qk_head_moments_read(const qk_analysis_settings *settings,
                                                    qk_stage stage, qk_head_moments **moments,
                                                    qk_error *err);
QK_API void qk_head_moments_free(qk_head_moments **moments);

/* Confidence intervals over examples; NaN where there is none. cv: the number along axes that were fitted without its
 * rows, which the interval is about; NaN: the interval is about the number itself. docs/how-sure.md */
typedef struct qk_interval {
    double lo, hi, cv;
} qk_interval;

typedef struct qk_head_intervals {
    qk_interval r_q, r_k; /* of the first component */
    qk_interval r_q_a, r_k_a, alpha_q, alpha_k, bias_strength, separation_strength;
    qk_interval ap_overall, ap_drop;
    qk_interval key_share, bias_over_context;
} qk_head_intervals;

/* The numbers with intervals, computed without the texts of one group each, for differences over the same texts
 * (repeats.csv). */
enum { QK_REPEATED = 11, QK_NESTED = 5 };
typedef struct qk_repeat {
    int64_t group;               /* the last bits of the texts' ids */
    int64_t texts;               /* a hash of the texts; 0: not known */
    double degrees;              /* of freedom, of errors over all groups */
    double without[QK_REPEATED]; /* from the other texts, along axes fitted to them */
    double nested[QK_NESTED];    /* numbers along a, cross-fitted */
} qk_repeat;
typedef struct qk_head_repeats {
    size_t count;
    qk_repeat *items;
} qk_head_repeats;

/* How long texts are, in tokens: up to the last known position of each; and which positions were read. NaN: not known. */
typedef struct qk_text_lengths {
    double median, least, most;
    double position_least, position_mean, position_most;
} qk_text_lengths;

/* The same in words, without a full stop; returns text. */
enum { QK_LENGTHS_SIZE = 160 };
QK_API const char *qk_text_lengths_say(const qk_text_lengths *lengths,
                                       char text[QK_LENGTHS_SIZE]);

/* A head's combined PCA of the rows below a position. */
enum { QK_MOST_LENGTHS = 32 };
typedef struct qk_at_length {
    int64_t length; /* the position */
    int category;   /* a qk_category; -1: too few rows */
    double r_q, r_k, ev0;
    int64_t n_q, n_k; /* rows */
} qk_at_length;
typedef struct qk_head_lengths {
    size_t count;
    qk_at_length *items;
} qk_head_lengths;

/* One head's outcome. An analysis that failed or was not asked for is NULL. */
typedef struct qk_head_results {
    qk_head_id id;
    int k_head;              /* combined only, else -1 */
    int64_t rows_q, rows_k;  /* read; 0: none, or of the other kind alone */
    size_t texts_q, texts_k; /* of these rows, counted up to 65,535; 0: the files do not say */
    qk_text_lengths lengths; /* of these texts, from rows; zeros without rows */
    bool key_missing;        /* the key head is not in the capture: skipped */
    qk_status status;        /* QK_OK, or the status of the first analysis that failed */
    char *message;           /* NULL when QK_OK */
    qk_pca *pca;
    qk_certainty certainty;                 /* of pca */
    qk_multiple_correlation told_q, told_k; /* position from all dimensions; of pca */
    qk_first_tokens first_tokens;           /* of pca */
    qk_head_lengths *at_lengths;            /* NULL unless asked for */
    qk_rotation *rotation;
    qk_plasticity *plasticity;
    qk_attention *attention;
    qk_head_tokens *tokens;       /* with plasticity, of captures with token strings */
    qk_head_intervals *intervals; /* NULL unless asked for */
    qk_head_repeats *repeats;     /* NULL unless asked for */
    /* of qk_stages_run, whose results own it; else NULL */
    const struct qk_head_stages *stages;
} qk_head_results;

/* Means over the heads of a run; NaN where no head has the number. */
typedef struct qk_model_plasticity {
    size_t heads;
    double fifths[QK_FIFTHS], tenths[QK_TENTHS];
    double ap_overall, ap_drop, ap_mean;
    /* as in qk_plasticity. The standard error that the choice of keys adds to ap_overall here is at most this:
     * that of a mean is no larger than that of its parts on average */
    int64_t reservoir;
    double ap_overall_se;
    double bucket_width; /* tokens, of all heads; NaN: they differ */
} qk_model_plasticity;

/* The components, and heads with such a component, that have |r| at or above the threshold of the settings; negative:
 * those with r below 0. */
typedef struct qk_high_correlations {
    size_t components, heads; /* all that were fitted */
    size_t high, high_negative;
    size_t heads_high, heads_high_negative;
} qk_high_correlations;

/* The most files that a run writes. */
enum { QK_MAX_OUTPUTS = 16 };

typedef struct qk_analysis_results {
    char *capture; /* folder read */
    char *model;
    qk_group group;
    int num_layers; /* of the model (qk_capture_num_layers) */
    size_t num_heads;
    /* by layer and head; single-kind: keys before queries of the same number */
    qk_head_results *heads;
    size_t num_failed;
    size_t num_missing; /* query heads skipped because their key head is missing */
    size_t num_rows;    /* rows read, every head counted once */
    int64_t bytes_read; /* size of the files read */
    int threads;
    double seconds;
    qk_model_plasticity plasticity; /* heads is 0 without that analysis */
    qk_high_correlations high;      /* single-kind PCA, else zeros */
    /* of the texts of all heads, from the capture's examples.csv, else from its rows */
    qk_text_lengths lengths;
    unsigned contents;                   /* the tables it has, for qk_results_table */
    size_t num_outputs;                  /* 0 without an output folder */
    const char *outputs[QK_MAX_OUTPUTS]; /* names of the files written into the folder */
} qk_analysis_results;

/* Runs the analyses, reading each file once (with --lda or --complement alone, twice), and writes their tables,
 * schema.json and manifest.json into settings->output, unless that is NULL. Tables of other analyses of the same
 * capture stay there; a folder of another capture, or one that another run is writing into, is QK_ERR_EXISTS.
 * docs/formats.md#results-folder Returns QK_OK; QK_ERR_PARTIAL when some heads failed or miss their key head (*results
 * are set and the other heads' tables are written); any other status when nothing could be done (*results stay NULL).
 * err then holds the first failure in table order. */
QK_API QK_MUST_CHECK qk_status qk_analysis_run(const qk_analysis_settings *settings,
                                               qk_analysis_results **results, qk_error *err);
QK_API void qk_analysis_results_free(qk_analysis_results **results);

/* What a run finds over all its heads; counts are 0 and means NaN where no head has the number. By depth: in tenths of
 * the way from layer 0 to the last layer of the model, or of the results' heads where that is larger. */
enum { QK_DEPTHS = 10 };

/* A head whose category is less probable is uncertain. A wider interval of r_q, and fewer texts than QK_FEW_TEXTS,
 * give a warning. */
#define QK_CERTAIN       0.95
#define QK_WIDE_INTERVAL 0.2
/* A content-focused head whose queries or keys predict position better carries it off PC0. */
#define QK_TELLS_POSITION 0.7
enum { QK_FEW_ROWS = 100 };

typedef struct qk_analysis_totals {
    /* rows of a head and kind, and texts of heads whose files tell texts: the fewest and the median, NaN where
     * there are none */
    double rows_least, rows_median, texts_least, texts_median;
    size_t few_rows;  /* heads with fewer than QK_FEW_ROWS rows of a kind */
    size_t few_texts; /* heads with fewer than QK_FEW_TEXTS texts of a kind */
    size_t no_texts;  /* heads whose files do not tell texts */
    size_t judged,
        uncertain;     /* heads whose category has a probability; those below QK_CERTAIN */
    size_t not_judged; /* heads with a category but no probability */
    size_t wide_r_q;   /* heads with an interval of r_q above QK_WIDE_INTERVAL */
    double widest_r_q;
    const qk_head_results *widest; /* NULL: there is no interval */
    size_t other_without_first;    /* heads with another category without their first tokens */
    /* combined PCA: heads of each qk_category, means of the first component's r; content-focused heads for
     * which it is known whether they carry position off PC0, and those that do */
    size_t categories[QK_NUM_CATEGORIES];
    size_t content_told, position_off_pc0;
    size_t key_heads[QK_NUM_CATEGORIES]; /* shared by the heads of each category */
    double r_q[QK_DEPTHS], r_k[QK_DEPTHS], abs_r_k[QK_DEPTHS];
    /* rotation: heads with a drift axis, those with bias_strength > 0, those without an axis; means along it */
    size_t rotated, bias_positive, degenerate;
    size_t bias_told,
        bias_certain; /* heads with an interval of it, and those whose interval lies above 0 */
    double abs_r_q_a, abs_r_k_a, plane_var_fraction;
    double abs_r_q_a_by_depth[QK_DEPTHS], abs_r_k_a_by_depth[QK_DEPTHS];
    /* plasticity */
    double ap[QK_DEPTHS];
    /* attention: heads, those with a certain qk_attention_name, by name; means */
    size_t attended, named[QK_NUM_HEAD_NAMES];
    double sink_mass, distance_share;
} qk_analysis_totals;

/* The totals point into the results. */
QK_API void qk_analysis_totals_of(const qk_analysis_results *results,
                                  qk_analysis_totals *totals);

/* ==== before and after RoPE =============================================================== */

/* What rotary position embedding (RoPE) does to each head, from captures of the same rows
 * before and after it: position correlations, what each rotary pair holds, and how the mean
 * score depends on distance, predicted from mean vectors and measured. docs/methods.md#before-and-after-rope
 *
 *     qk_stages_settings settings;
 *     qk_stages_results *results;
 *     qk_settings_default(&qk_stages_settings_table, &settings);
 *     settings.before = "capture/pre";
 *     settings.after = "capture/post";
 *     settings.input.output = "results";
 *     qk_status status = qk_stages_run(&settings, &results, &err);
 *
 * writes results/stages.csv, results/rope_pairs.csv, results/score_by_distance.csv,
 * results/schema.json and results/manifest.json. With output = NULL nothing is written; qk_results_table
 * (qkscope/results.h) has the tables of results->run. */

typedef struct qk_stages_settings {
    const char *before, *after; /* captures before and after RoPE; after NULL: `before` holds
                                   both, in folders pre and post */
    qk_analysis_settings input; /* revision, layers, heads, group size, max_samples, pca
                                   thresholds, output, context, ... as in an analysis;
                                   its capture, prefix and analyses are not used */
} qk_stages_settings;

extern QK_API const qk_settings_table qk_stages_settings_table;

/* A head's combined PCA on one side. */
typedef struct qk_stage_numbers {
    double r_q, r_k, explained_variance; /* of the first component */
    qk_category category;
} qk_stage_numbers;

/* One rotary pair: z is the complex number of its two coordinates before RoPE, means are over rows. NaN where the
 * divisor is 0. */
typedef struct qk_rope_pair {
    double frequency, wavelength;            /* radians per token, tokens; 0 and infinite
                                                where the pair does not turn */
    double energy_q, energy_k;               /* mean |z|^2, as a share of all dimensions */
    double concentration_q, concentration_k; /* |mean z|^2 / mean |z|^2, 0..1 */
    double mean_q, mean_k;                   /* |mean z| */
    double phase;                            /* arg(mean z_q) - arg(mean z_k), -pi..pi */
    double score_share; /* of the variance over distance of the predicted score; sum 1 */
} qk_rope_pair;

/* Pairs of a query and a key of one text, the key `first` to `last` tokens before the query. */
typedef struct qk_score_bin {
    int number; /* counted from distance 0, with bins without pairs */
    int64_t first, last;
    double distance;            /* mean */
    double measured, predicted; /* mean of q.k, without a factor 1/sqrt(d) */
    double standard_error;      /* of measured, over texts; NaN with one text */
    int64_t pairs;
    size_t texts;
} qk_score_bin;

/* Bins with fewer pairs are in no number of a head. */
enum { QK_SCORE_BIN_PAIRS = 30 };

typedef struct qk_head_stages {
    qk_stage_numbers before, after;
    size_t num_pairs, num_bins;
    qk_rope_pair *pairs; /* [num_pairs] in the model's order, the fastest first */
    qk_score_bin *bins;  /* [num_bins] those with pairs, by distance */
    /* Over bins, with equal weight. */
    /* 1 - the share of the measured curve's variance that the predicted curve leaves, both about their means;
     * NaN below 3 bins */
    double r_squared_predicted;
    double curve_r;      /* Pearson correlation of the two */
    double chance_share; /* mean squared standard error / variance of the measured */
    double measured_mean, measured_sd, predicted_mean, predicted_sd;
    /* Slow pairs turn less than once in the context, which is as long as the positions of the rows reach. */
    int64_t context;
    size_t slow_pairs;
    double slow_energy_q, slow_energy_k, slow_score_share;
    /* The pair with the largest score_share; NaN: none has any. */
    double top_pair, top_wavelength, top_share;
    /* Largest difference between a rotated row and the row after RoPE, over the length of that
     * row; RoPE may also scale: mean factors. */
    double rotation_deviation, scale_q, scale_k;
    int64_t rows_q, rows_k, row_pairs;
    size_t texts; /* with pairs */
} qk_head_stages;

typedef struct qk_stages_results {
    /* heads, failures, files, times; its capture is the one after RoPE */
    qk_analysis_results *run;
    char *before;           /* folder read */
    size_t num_unrotated;   /* heads in layers without frequencies: no numbers, no failure */
    qk_head_stages **heads; /* [run->num_heads]; NULL where there are no numbers */
} qk_stages_results;

/* Returns as qk_analysis_run does. QK_ERR_INCONSISTENT: captures of two models, or swapped; for a single head, rows
 * that differ between the two sides, and rows that frequencies and pairing of capture.json do not turn into those
 * after RoPE, to 2 % of their length (for the whole run where this holds for all of the up to three key heads that are
 * tried first). QK_ERR_NOT_FOUND: no capture.json, or no rope_frequencies in it. Failures of heads are told at the
 * end, each reason once. */
QK_API QK_MUST_CHECK qk_status qk_stages_run(const qk_stages_settings *settings,
                                             qk_stages_results **results, qk_error *err);
QK_API void qk_stages_results_free(qk_stages_results **results);

/* What the heads with numbers have in common. NaN where no head has the number. */
typedef struct qk_stages_totals {
    size_t heads;                /* with numbers */
    size_t predicted, explained; /* those with r_squared_predicted, and with one >= 0 */
    size_t before[QK_NUM_CATEGORIES], after[QK_NUM_CATEGORIES]; /* heads of each category */
    double r_squared_median;
    double slow_energy_q, slow_energy_k, slow_score_share; /* means */
    double rotation_deviation;                             /* largest */
} qk_stages_totals;

QK_API void qk_stages_totals_of(const qk_stages_results *results, qk_stages_totals *totals);

QK_END_DECLS

#endif
