/* SPDX-License-Identifier: Apache-2.0 */
/* The front ends of the original tool of attention plasticity: its configuration files, and
 * tables and a figure with the names it gives them. docs/config.md has the keys.
 *
 *     qk_published *file;
 *     qk_heads_settings settings;
 *     qk_published_load_heads(&file, "model.yaml", &settings, &err);
 *     qk_heads_run(&settings, &results, &err);
 *     qk_published_free(&file); */
#ifndef QKSCOPE_PUBLISHED_H
#define QKSCOPE_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/analysis.h>
#include <qkscope/common.h>
#include <qkscope/report.h>

QK_BEGIN_DECLS

/* A file that was read: what the strings of the settings point into. */
typedef struct qk_published qk_published;
QK_API void qk_published_free(qk_published **file);

/* ---- analyze-heads ---------------------------------------------------------------------- */

/* Keys of the file, and flags, have the names of the members; max_workers and download_max_workers are threads
 * and hub_jobs of the context. */
typedef struct qk_heads_settings {
    const char *model_dir;                    /* folder in the dataset that holds the heads */
    const char *dataset_name;                 /* on the Hugging Face Hub */
    const char *dataset_cache_dir;            /* that cache; NULL = the usual one */
    const char *dataset_local_root;           /* a folder instead of it; NULL = none */
    int num_layers, num_q_heads, num_k_heads; /* 0 = not given */
    int64_t max_tokens_per_head;              /* 0 = all */
    int normality_max_dims;
    double p_alpha;
    const char *output_csv, *bucket_csv, *component_csv;
    int64_t seed;
    /* of the run: as in qk_analysis_settings; dataset_cache_dir takes the place of hub_cache */
    const char *command_line;
    qk_context context;
} qk_heads_settings;

/* 50,000 tokens, 64 dimensions, alpha 0.01, seed 0; the three tables in the current folder. */
extern QK_API const qk_settings_table qk_heads_settings_table;
QK_API void qk_heads_settings_default(qk_heads_settings *settings);

/* Defaults, then what the file says. QK_ERR_ARGUMENT names file, line and key. */
QK_API QK_MUST_CHECK qk_status qk_published_load_heads(qk_published **file, const char *path,
                                                       qk_heads_settings *settings,
                                                       qk_error *err);

/* Writes the three tables with the original's columns, and manifest.json beside the first, by
 * the published convention with the capture's own buckets. Returns as qk_analysis_run does;
 * QK_ERR_ARGUMENT too where a required setting is missing. *results have no more heads than the
 * capture, so perhaps less than num_layers * num_q_heads. */
QK_API QK_MUST_CHECK qk_status qk_heads_run(const qk_heads_settings *settings,
                                            qk_analysis_results **results, qk_error *err);

/* ---- plot-plasticity -------------------------------------------------------------------- */

/* Where bucket b lies, in times bucket_min_size. */
typedef enum qk_bucket_type {
    QK_BUCKETS_UNIFORM, /* b + 1/2 */
    QK_BUCKETS_LOG,     /* 2^(b + 1/2) */
} qk_bucket_type;

typedef struct qk_plot_settings {
    const char *bucket_csv; /* NULL = not given */
    const char *output;     /* a picture: .png, .svg or .pdf */
    double alpha;           /* opacity of the lines of heads, 0..1 */
    double line_width;      /* of them, points */
    qk_bucket_type bucket_type;
    double bucket_min_size;
    const char *model_name;           /* in the title; NULL = none */
    bool color_by_layer, color_trend; /* not both */
    double trend_threshold;           /* slope from which a head rises or falls */
    const char *cmap;                 /* of the layers: viridis, magma, Blues, Reds or YlOrRd */
    qk_figure_theme theme;
    const char *gnuplot; /* NULL = "gnuplot" */
} qk_plot_settings;

/* plasticity.png, alpha 0.25, lines 0.8 wide, uniform buckets of size 1, one colour. */
extern QK_API const qk_settings_table qk_plot_settings_table;
QK_API void qk_plot_settings_default(qk_plot_settings *settings);
QK_API QK_MUST_CHECK qk_status qk_published_load_plot(qk_published **file, const char *path,
                                                      qk_plot_settings *settings,
                                                      qk_error *err);

/* Draws a line for every head, the mean over its key buckets against the query bucket, and the
 * mean over all heads. Leaves a script and its numbers beside the picture. */
QK_API QK_MUST_CHECK qk_status qk_plot_run(const qk_plot_settings *settings, size_t *num_heads,
                                           qk_error *err);

QK_END_DECLS

#endif
