/* SPDX-License-Identifier: Apache-2.0 */
/* What changed from one model to another, head by head: two checkpoints, two sets of texts, two
 * models of one architecture. docs/howto/compare.md */
#ifndef QKSCOPE_COMPARE_H
#define QKSCOPE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/common.h>
#include <qkscope/report.h>
#include <qkscope/results.h>
#include <qkscope/settings.h>

QK_BEGIN_DECLS

/*     qk_compare_settings settings;
 *     qk_compare_outcome *outcome;
 *     qk_settings_default(&qk_compare_settings_table, &settings);
 *     settings.a = "results/step-20";
 *     settings.b = "results/step-2004";
 *     settings.output = "changes";
 *     qk_status status = qk_compare_run(&settings, &outcome, &err);
 *
 * writes changes/compare.csv, compare_heads.csv, compare_summary.json, compare.html, figures/ and
 * manifest.json. */

typedef struct qk_compare_settings {
    const char *a, *b;  /* each a folder of results, or FOLDER:MODEL for one of its models */
    const char *output; /* folder, which holds only the comparison */
    bool force;         /* replaces another comparison; also compares tables that were edited */
    double ci; /* level of the intervals in percent; the tables' intervals must have it, too */
    /* changes are tested also where texts of a and b differ in length by more than a tenth */
    bool any_length;
    bool html;                  /* false: neither figures nor compare.html */
    qk_figure_settings figures; /* formats beside SVG */
    const char *command_line;   /* for the manifest; NULL = not known */
    qk_context context;         /* progress: "figures" */
} qk_compare_settings;

extern QK_API const qk_settings_table qk_compare_settings_table;

/* One metric over the heads that both have. NaN where it is not defined. */
typedef struct qk_compare_metric {
    const char *name; /* of the column */
    bool main;        /* shown where there is little room */
    size_t heads;
    double mean_a, mean_b;
    /* Mean of the differences b - a over key heads, each with the mean of its query heads, since these
     * are not independent; its interval and corrected p-value over key heads or over layers, whichever is less
     * certain. NaN with fewer than 3 layers. */
    double mean, low, high, p_corrected;
    size_t tested, supported; /* heads with a p-value, and with a corrected one below 0.05 */
} qk_compare_metric;

/* The largest change of a head. */
typedef struct qk_compare_mover {
    int layer, q_head;
    const char *metric;
    double a, b, difference, low, high;
    double size; /* in standard deviations of the metric over heads */
    double p_corrected;
} qk_compare_mover;

typedef struct qk_compare_outcome {
    char *names[2]; /* names of a and b */
    qk_text_lengths lengths[2];
    double tokens[2]; /* of these, what tells a from b: the median, or the longest text; NaN */
    /* medians or longest texts differ by more than a tenth; without any_length nothing is tested then, and no
     * categories are compared */
    bool unlike;
    size_t paired, only_a, only_b;
    size_t num_metrics, num_movers, num_warnings;
    qk_compare_metric *metrics;
    /* one a head, supported changes first, then by |size|; at most 20 */
    qk_compare_mover *movers;
    size_t tested, supported; /* all metrics of all heads */
    /* heads of another comparison that was in the folder before; 0: none was */
    size_t replaced;
    /* Heads by category in a (rows) and in b. */
    size_t categories[QK_NUM_CATEGORIES][QK_NUM_CATEGORIES];
    char **warnings; /* about a and b, and their analyses */
    char *summary;   /* compare_summary.json */
    size_t num_figures, num_outputs;
    char **outputs; /* files written into the folder, without figures */
    double seconds;
} qk_compare_outcome;

/* QK_OK; QK_ERR_PARTIAL where figures failed (*outcome is set, the others are there). QK_ERR_INCONSISTENT: no head is
 * in both, or heads have different key heads; tables changed since they were written. QK_ERR_EXISTS: the output folder
 * has other results, or another comparison without `force`. Files appear whole or not at all. */
QK_API QK_MUST_CHECK qk_status qk_compare_run(const qk_compare_settings *settings,
                                              qk_compare_outcome **outcome, qk_error *err);
QK_API void qk_compare_outcome_free(qk_compare_outcome **outcome);

QK_END_DECLS

#endif
