/* SPDX-License-Identifier: Apache-2.0 */
/* What was found out about heads, in the files that other programs read. docs/export.md has each format, with its
 * source. */
#ifndef QKSCOPE_EXPORT_H
#define QKSCOPE_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>
#include <qkscope/settings.h>

QK_BEGIN_DECLS

/* L layers of Hq query and Hk key heads, vectors of d values. All of them have to be there, but for the last format. */
typedef enum qk_export_format {
    /* Queries before RoPE, for kvpress: model.safetensors with query_mean F32 [L][Hq][d] and query_cov F32
     * [L][Hq][d][d], of positions from 4 on; config.json. */
    QK_EXPORT_KVPRESS_STATS,
    /* How much a key head needs far keys, 0 to 1: full_attention_heads.tsv, L lines of Hk numbers; config.json. From the means of
     * a capture before RoPE, or from a folder of qk_ablation_run with window:RECENT:SINK. */
    QK_EXPORT_DUO_ATTENTION,
    /* Where queries after RoPE point: model.safetensors with q_filters F32 [L][Hk][d]; config.json. */
    QK_EXPORT_Q_FILTERS,
    /* heads.json: [[layer, query head], ...], in the order that is asked for. */
    QK_EXPORT_TRANSFORMER_LENS,
} qk_export_format;

/* The word for it on the command line; NULL beyond the last. */
QK_API const char *qk_export_format_name(int format);

/*     qk_export_settings settings;
 *     qk_export_outcome outcome;
 *     qk_export_settings_default(&settings);
 *     settings.format = QK_EXPORT_KVPRESS_STATS;
 *     settings.source = "capture/pre";
 *     settings.output = "stats";
 *     qk_status status = qk_export(&settings, &outcome, &err); */
typedef struct qk_export_settings {
    qk_export_format format;
    const char *
        source; /* a capture, or org/name of one on the Hub; a folder of an ablation; of results */
    const char *output; /* folder; made if need be */
    bool force;         /* replace files of an export that are there */

    /* of captures */
    const char *revision; /* of the dataset; NULL = main */
    const char *prefix;   /* sub-folder of the capture; NULL = find it */
    int q_per_kv_group;   /* 0 = capture.json, else inferred */
    int64_t
        from_position; /* rows of positions below it are left out; -1: 4 for kvpress, else 0 */
    const char *dataset; /* kvpress: name of the texts in config.json; NULL = "" */

    /* DuoAttention */
    const char *
        model; /* whose RoPE and shape count, not those that the source tells; a path, or a name on the Hub; NULL = none */
    int sink, recent; /* tokens that a head without far keys sees */
    int64_t length;   /* of the text that is predicted from means, tokens */

    /* heads of results: as in qk_head_query */
    const char *where, *sort;
    size_t top;

    qk_context context; /* notices: heads whose sign is not sure; progress: "heads" */
} qk_export_settings;

extern QK_API const qk_settings_table qk_export_settings_table;
QK_API void qk_export_settings_default(qk_export_settings *settings);

typedef struct qk_export_outcome {
    size_t heads;  /* that the files have numbers of */
    size_t unsure; /* Q-Filters: query heads without a clear sign */
    size_t num_files;
    const char *files[2]; /* their names in the output folder; constants */
} qk_export_outcome;

/* Writes all files of the format or none. Errors: QK_ERR_ARGUMENT (a setting, named), QK_ERR_EXISTS (such files are there, or
 * somebody else writes to the folder), QK_ERR_NOT_FOUND (a head, a change or frequencies that are not in the source),
 * QK_ERR_INCONSISTENT (a capture of the other side of RoPE, or of neither; heads that differ; numbers beyond float32),
 * QK_ERR_DEGENERATE (too few rows; no head of an ablation loses anything), those of qk_analysis_run, qk_head_list and
 * qk_model_open_shape. */
QK_API QK_MUST_CHECK qk_status qk_export(const qk_export_settings *settings,
                                         qk_export_outcome *outcome, qk_error *err);

QK_END_DECLS

#endif
