/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a capture: heads, rows, positions, buckets, examples, windows and how the
 * files store them. Integer columns are read in full; vectors are not. */
#ifndef QKSCOPE_INSPECT_H
#define QKSCOPE_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/capture.h>
#include <qkscope/settings.h>
#include <qkscope/status.h>

QK_BEGIN_DECLS

/* Different values of an integer column, ascending. */
typedef struct qk_values {
    int64_t *items;
    size_t count;
} qk_values;

/* One head. Where status is not QK_OK only id, files and bytes hold. */
typedef struct qk_head_inspection {
    qk_head_id id;
    qk_status status;
    char *message; /* NULL when QK_OK */
    size_t files;
    int64_t bytes; /* on disk */
    int row_groups;
    size_t dim;
    int64_t rows;
    int64_t position_min, position_max; /* 0 without rows */
    char codec[16];     /* of the vectors: "ZSTD", ...; "mixed" if files differ */
    uint32_t encodings; /* of the vectors, as in qk_parquet_column */
    char *created_by;   /* of the first file */
    bool wide;          /* float64 vectors */
    qk_values buckets, examples, windows;     /* windows: 0 = full attention */
    bool has_bucket, has_example, has_window; /* false: no such column */
} qk_head_inspection;

typedef struct qk_inspection {
    char *path;   /* folder that holds the head folders */
    char *prefix; /* of it below the root */
    char *model;  /* from capture.json, else "" */
    bool has_manifest;
    bool complete;                  /* as qk_capture_info has it */
    int64_t num_texts, num_windows; /* likewise */
    bool has_group;                 /* false: no group size fits, or no heads of one kind */
    qk_group group;
    char *group_message; /* why there is none; NULL with has_group */
    size_t num_heads;
    qk_head_inspection *heads; /* in the order of qk_head_compare */
    size_t num_failed;
    size_t num_missing; /* of those: heads that capture.json lists and that are not there */
    char *missing;      /* the first few of them by name; NULL if there are none */

    /* over the heads that could be read */
    size_t dim; /* 0: the heads differ, or there are no rows */
    int64_t rows, bytes;
    int64_t position_min, position_max;
    size_t num_examples; /* different ids over all heads */
    qk_values buckets, windows;
} qk_inspection;

typedef struct qk_inspect_settings {
    const char *capture;  /* as in qk_analysis_settings */
    const char *revision; /* NULL = main */
    const char *prefix;   /* NULL = find it */
    int q_per_kv_group;   /* 0 = capture.json, else inferred */
    int threads;          /* 0 = all processors */
} qk_inspect_settings;

extern QK_API const qk_settings_table qk_inspect_settings_table;

/* Inspects a capture. Heads that cannot be read do not fail it: see num_failed.
 * Errors: those of qk_hub_find_dataset and qk_capture_open, QK_ERR_NOMEM. */
QK_API QK_MUST_CHECK qk_status qk_inspect_capture(const qk_inspect_settings *settings,
                                                  qk_inspection **inspection, qk_error *err);
QK_API void qk_inspection_free(qk_inspection **inspection);

QK_END_DECLS

#endif
