/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: folders of Parquet files with the queries and keys of a model's heads. Opening them, reading their rows,
 * writing them, and inspecting them. */
#ifndef QKSCOPE_CAPTURE_H
#define QKSCOPE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>
#include <qkscope/parquet.h>
#include <qkscope/settings.h>

QK_BEGIN_DECLS

/* ==== captures ============================================================================ */

/* A capture: the query and key vectors of one model on one workload, one folder
 * per head, `l{LL}h{HH}{q|k}/data.parquet`, or packed, one folder per layer and kind,
 * `l{LL}{q|k}/data.parquet`, under any prefix of a root folder.
 *
 *     qk_capture *capture;
 *     qk_rows *rows;
 *     qk_block block;
 *     qk_capture_open(&capture, "examples/kjv-tiny-capture", NULL, &err);
 *     const qk_head *head = qk_capture_find(capture, (qk_head_id){0, 2, QK_QUERY});
 *     qk_rows_open(&rows, head, QK_COLUMN_VECTOR | QK_COLUMN_POSITION, 0, &err);
 *     while (qk_rows_next(rows, 1024, &block, &err) == QK_OK && block.rows > 0)
 *         ... */

typedef enum qk_kind {
    QK_QUERY = 0,
    QK_KEY = 1,
} qk_kind;

/* Queries, keys or both. */
typedef enum qk_kinds {
    QK_KINDS_Q = 1,
    QK_KINDS_K = 2,
    QK_KINDS_BOTH = 3,
} qk_kinds;

/* For QK_KEY `head` counts key heads, for QK_QUERY query heads. */
typedef struct qk_head_id {
    int layer;
    int head;
    qk_kind kind;
} qk_head_id;

/* Large enough for qk_head_name of any head. */
#define QK_HEAD_NAME_SIZE 32

/* Writes the folder name of a head, e.g. "l00h12q", into name. */
QK_API void qk_head_name(qk_head_id id, char name[QK_HEAD_NAME_SIZE]);

/* Parses such a name; false if it is not one. */
QK_API bool qk_head_parse(const char *name, qk_head_id *id);

/* Where a packed file, which several heads share, has the rows of one head. */
typedef struct qk_head_part {
    int first_group, num_groups; /* row groups of the file */
    int64_t rows, bytes;         /* in them */
} qk_head_part;

/* One head on disk; owned by its capture. Files are in order of their names. */
typedef struct qk_head {
    qk_head_id id;
    const char *const *files;
    size_t num_files;
    size_t index; /* its i in qk_capture_head */
    int64_t rows; /* that capture.json lists, 0 = not listed; other numbers are an error */
    bool missing; /* capture.json lists it, but there are no files: files[0] would be it */
    const qk_head_part *parts; /* [num_files]; NULL: the files are the head's own */
    /* why its packed file cannot be read, as reading reports it; or NULL */
    const qk_error *failure;

    /* The file of its layer's moments; NULL: the capture keeps none. Where it keeps no rows num_files is 0, and
     * files[0] is this file, for messages. */
    const char *moments;
    int64_t summed; /* rows behind the moments that capture.json lists, 0 = not listed */
} qk_head;

typedef struct qk_capture qk_capture;

/* Finds the heads under root. `prefix` picks one sub-folder when the root holds several captures; NULL looks for the
 * only one. Of packed files the footers are read, which list their heads (docs/formats.md); no other Parquet file is
 * opened. Heads that a capture.json beside the heads lists, and that are not there, are `missing`; those whose packed
 * file cannot be read have a `failure`. Errors: QK_ERR_NOT_FOUND (no such folder, no heads in it), QK_ERR_INCONSISTENT
 * (several prefixes hold heads and none was chosen: the message lists them; the same head in two places),
 * QK_ERR_MALFORMED (a capture.json that cannot be read), those of a packed file that cannot be read and whose heads
 * capture.json does not list. */
QK_API QK_MUST_CHECK qk_status qk_capture_open(qk_capture **capture, const char *root,
                                               const char *prefix, qk_error *err);
QK_API void qk_capture_close(qk_capture **capture);

/* Folder that holds the folders of heads, root and prefix included. */
QK_API const char *qk_capture_path(const qk_capture *capture);

/* Path of the prefix relative to the root, "" if none. */
QK_API const char *qk_capture_prefix(const qk_capture *capture);

/* Heads in the order of every table: by layer, head, kind (queries before keys). */
QK_API size_t qk_capture_num_heads(const qk_capture *capture);
QK_API const qk_head *qk_capture_head(const qk_capture *capture, size_t i);
QK_API const qk_head *qk_capture_find(const qk_capture *capture, qk_head_id id);

/* Whether vectors have been rotated, which capture.json may say. */
typedef enum qk_stage {
    QK_STAGE_UNKNOWN,
    QK_STAGE_PRE_ROPE,
    QK_STAGE_POST_ROPE,
} qk_stage;

/* Which of its rows a capture keeps. */
typedef enum qk_kept_rows {
    QK_ROWS_ALL,
    QK_ROWS_NONE,
    QK_ROWS_RESERVOIR, /* some of each bucket and text */
} qk_kept_rows;

/* The most positions whose rows can have moments of their own. */
enum { QK_MOST_FIRST = 16 };

/* What capture.json says: "" / 0 / false where it says nothing or is missing. `complete` is false only when a manifest
 * says that the capture was not finished. */
typedef struct qk_capture_info {
    const char *model;
    const char *fingerprint;    /* of what decided its bytes: model, texts, settings */
    char model_fingerprint[17]; /* of the model, where this library ran it; else "" */
    char texts[33];             /* a hash of all texts; "": not told */
    char sampler[16];           /* which positions were kept, by its name; "": not told */
    int q_per_kv_group;
    int num_layers; /* of the model */
    bool complete;
    bool has_manifest;
    int64_t num_texts,
        num_windows; /* windows that long texts were split into; 0 = not recorded */
    qk_stage stage;
    bool rope_interleaved;  /* dimensions 2j and 2j + 1 turn together, not j and j + pairs */
    double attention_scale; /* of the model, on q.k before the softmax; 0 = not told */
    qk_kept_rows kept;
    int reservoir;      /* rows of a bucket and text in the reservoir, at most */
    bool has_moments;   /* in moments/l{LL}.safetensors */
    int groups;         /* groups of texts whose sums are apart, at most */
    int first;          /* rows at positions below it have moments of their own; 0: none */
    bool has_attention; /* in attention/l{LL}.safetensors */
    int num_q_heads, num_k_heads; /* of a layer of the model; 0 = not recorded */
    double rope_factor; /* RoPE multiplies vectors by it when it turns them; 0 = not told */
} qk_capture_info;
QK_API const qk_capture_info *qk_capture_get_info(const qk_capture *capture);

/* Layers of the model: capture.json, else up to the largest layer of a head. */
QK_API int qk_capture_num_layers(const qk_capture *capture);

/* Rotation frequencies (radians per token, one a plane) of a layer, from "rope_frequencies" in capture.json: a list
 * for all layers or an object of lists by layer; 0: a plane that does not turn. NULL and *count 0 where there are
 * none. The array belongs to the capture. */
QK_API const double *qk_capture_rope_frequencies(const qk_capture *capture, int layer,
                                                 size_t *count);
/* The same from the "frequencies" of "rope", by which the model turns these rows from before RoPE. */
QK_API const double *qk_capture_frequencies_to_come(const qk_capture *capture, int layer,
                                                    size_t *count);

/* ---- grouped-query attention ------------------------------------------------------------ */

typedef enum qk_group_source {
    QK_GROUP_GIVEN,
    QK_GROUP_MANIFEST, /* capture.json */
    QK_GROUP_INFERRED,
} qk_group_source;

typedef struct qk_group {
    int size; /* query heads per key head: key head = query head / size */
    qk_group_source source;
    bool consistent; /* with the heads present */
    int alternative; /* the smallest consistent size that pairs queries with other keys; 0: none */
    int num_consistent; /* how many sizes fit the heads present; sizes with the same pairs count once */
} qk_group;

/* Finds the group size: `given` (from the command line or a config; 0 = not given), else capture.json, else the
 * smallest size consistent with the heads present, which is a guess where num_consistent is above 1. Where every layer
 * has query heads 0 to H - 1 and key heads 0 to K - 1, and K divides H, only H / K is consistent. Else a size is
 * consistent when in every layer {q / size} equals the set of key heads or, with all key heads from 0 to the last in
 * every layer, is a subset of it. Errors: QK_ERR_INCONSISTENT (nothing given and no size fits), QK_ERR_ARGUMENT (given
 * < 0), QK_ERR_NOT_FOUND (no Q or no K heads at all). */
QK_API QK_MUST_CHECK qk_status qk_capture_group(const qk_capture *capture, int given,
                                                qk_group *group, qk_error *err);

/* ---- rows ------------------------------------------------------------------------------- */

/* Columns to read; the others are not touched. */
typedef enum qk_column {
    QK_COLUMN_VECTOR = 1 << 0,
    QK_COLUMN_POSITION = 1 << 1,
    QK_COLUMN_BUCKET = 1 << 2,
    QK_COLUMN_EXAMPLE = 1 << 3,
    QK_COLUMN_WINDOW = 1 << 4,
    QK_OPTIONAL_EXAMPLE = 1 << 5, /* example_id, unless a file has no such integers */
    /* No column: in rows read with position and example, a text and position that occurred before is an error.
     * Rows without a text are not checked. */
    QK_REFUSE_REPEATS = 1 << 6,
} qk_column;

/* Gives a head's rows in blocks. What a block points to belongs to the qk_rows, until its next call. Columns that were
 * not asked for are NULL. */
typedef struct qk_rows qk_rows;

/* Starts reading a head; `columns` is a sum of qk_column. max_rows > 0 stops
 * after that many rows. Every error names the file and column.
 * Errors: those of qk_parquet_open; QK_ERR_INCONSISTENT (missing column, wrong
 * type, files of different dimension, ragged vectors, nulls). */
QK_API QK_MUST_CHECK qk_status qk_rows_open(qk_rows **rows, const qk_head *head,
                                            unsigned columns, int64_t max_rows, qk_error *err);

/* Next block of at most max_rows rows (fewer where it would pass 1 GiB); block->rows == 0
 * at the end. Blocks are not split at the end of a file or row group. */
QK_API QK_MUST_CHECK qk_status qk_rows_next(qk_rows *rows, size_t max_rows, qk_block *block,
                                            qk_error *err);
QK_API void qk_rows_close(qk_rows **rows);

/* Makes the arrays of the last block the caller's, each to be released with free(), also after qk_rows_close. The next
 * block gets new memory. */
QK_API void qk_rows_detach(qk_rows *rows);

/* Head dimension d (0 for a head with no rows or no vector asked for), and the number of rows that will be read, from
 * the footers; where rows are left out, an upper limit. */
QK_API size_t qk_rows_dim(const qk_rows *rows);
QK_API int64_t qk_rows_total(const qk_rows *rows);

/* ---- writing a capture ------------------------------------------------------------------ */

typedef struct qk_capture_writer qk_capture_writer;
typedef struct qk_head_writer qk_head_writer;

/* How the heads lie in files. */
typedef enum qk_layout {
    QK_LAYOUT_HEADS,  /* a file a head, l00h00q/data.parquet */
    QK_LAYOUT_PACKED, /* a file a layer and kind, l00q/data.parquet, with a column `head` */
} qk_layout;

typedef struct qk_capture_meta {
    const char *model;      /* name shown in tables and the card; NULL = "" */
    int q_per_kv_group;     /* 0 = unknown */
    const char *source;     /* what produced it, e.g. "qkscope capture" */
    const char *extra_json; /* a JSON object merged into capture.json; NULL = none */
    const char *card;       /* lines for the card's list of facts, Markdown; NULL = none */
    qk_layout layout;
} qk_capture_meta;

/* Starts a capture in `dir`, which is created; QK_ERR_EXISTS if it is there and not
 * empty. capture.json is written with "complete": false at once. meta NULL = nothing known. */
QK_API QK_MUST_CHECK qk_status qk_capture_writer_open(qk_capture_writer **writer,
                                                      const char *dir,
                                                      const qk_capture_meta *meta,
                                                      qk_error *err);

/* Starts one head of dimension dim. Head writers of one capture are independent: several threads may each use their
 * own. strings adds token_str. group_rows: rows of a row group, which is in memory; 0 = 65,536. In a packed capture
 * the heads of a layer and kind go into one file, one after the other in ascending order, with dim, strings and
 * group_rows of the first: so one thread writes all heads of a layer and kind. A head out of turn is QK_ERR_ARGUMENT. */
QK_API QK_MUST_CHECK qk_status qk_head_writer_open(qk_head_writer **head,
                                                   qk_capture_writer *writer, qk_head_id id,
                                                   size_t dim, bool strings, size_t group_rows,
                                                   qk_error *err);

/* Appends block->rows rows. All of f32, position, bucket and example must be set;
 * window NULL or 0 is written as null. token_str: one string a row if `strings`. */
QK_API QK_MUST_CHECK qk_status qk_head_writer_add(qk_head_writer *head, const qk_block *block,
                                                  const char *const *token_str, qk_error *err);

/* Completes the head, and its file unless that is packed; frees the writer and sets *head to NULL
 * in any case. */
QK_API QK_MUST_CHECK qk_status qk_head_writer_finish(qk_head_writer **head, qk_error *err);

/* Drops the head. A packed file that already has rows of the head is lost: its end fails. */
QK_API void qk_head_writer_abort(qk_head_writer **head);

/* In a packed capture: no further head of this layer and kind follows, and their file takes its place. Other files are
 * completed by qk_capture_writer_finish; until then their buffers (a row group) stay in memory. Not packed: nothing. */
QK_API QK_MUST_CHECK qk_status qk_capture_writer_end_layer(qk_capture_writer *writer, int layer,
                                                           qk_kind kind, qk_error *err);

/* Writes the dataset card (README.md with `configs:` front matter) and capture.json
 * with "complete": true; frees the writer and sets *writer to NULL in any case. */
QK_API QK_MUST_CHECK qk_status qk_capture_writer_finish(qk_capture_writer **writer,
                                                        qk_error *err);
QK_API void qk_capture_writer_abort(qk_capture_writer **writer);

/* ==== what is in a capture ================================================================ */

/* What is in a capture: heads, rows, positions, buckets, examples, windows and how the
 * files store them. Integer columns are read in full; vectors are not. */

/* Different values of an integer column, ascending. */
typedef struct qk_values {
    int64_t *items;
    size_t count;
} qk_values;

/* A head. Where status is not QK_OK only id, files and bytes are valid. */
typedef struct qk_head_inspection {
    qk_head_id id;
    qk_status status;
    char *message; /* NULL when QK_OK */
    size_t files;
    int64_t bytes; /* on disk; of a packed file its row groups */
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
    int64_t summed;                           /* rows behind its moments, 0 = there are none */
    int64_t texts;                            /* texts of these rows */
    bool has_positions; /* false: they are not known, from footers alone or without rows */
} qk_head_inspection;

typedef struct qk_inspection {
    char *path;   /* folder that holds the head folders */
    char *prefix; /* of that folder below the root */
    char *model;  /* from capture.json, else "" */
    bool has_manifest;
    bool complete;                  /* as in qk_capture_info */
    int64_t num_texts, num_windows; /* as in qk_capture_info */
    bool has_group;                 /* false: no group size fits, or no heads of one kind */
    qk_group group;
    char *group_message; /* why there is none; NULL with has_group */
    size_t num_heads;
    qk_head_inspection *heads; /* in the order of qk_capture_head */
    size_t num_failed;
    size_t num_missing; /* heads that capture.json lists and that are missing */
    char *missing;      /* the first few names; NULL if there are none */

    /* over the heads that could be read */
    size_t dim; /* 0: the heads differ, or there are no rows */
    int64_t rows, bytes;
    int64_t position_min, position_max;
    bool has_positions;
    /* different ids over all heads; without rows: texts of the head with most texts */
    size_t num_examples;
    qk_values buckets, windows;

    size_t num_files; /* different Parquet files */
    bool packed;      /* heads share files */

    /* what it keeps besides rows, or in place of rows, as in qk_capture_info */
    qk_kept_rows kept;
    bool has_moments, has_attention;
    int reservoir, groups;
    int64_t summed; /* rows behind the moments, over the heads that could be read */
    size_t moments_files;
    int64_t moments_bytes;
} qk_inspection;

typedef struct qk_inspect_settings {
    const char *capture;  /* as in qk_analysis_settings */
    const char *revision; /* NULL = main */
    const char *prefix;   /* NULL = find it */
    int q_per_kv_group;   /* 0 = capture.json, else inferred */
    /* notices: what the Hub is asked for; progress: "files" looked at there */
    qk_context context;
} qk_inspect_settings;

extern QK_API const qk_settings_table qk_inspect_settings_table;

/* Inspects a capture. Heads that cannot be read do not fail it: num_failed counts them. Errors: those of qk_hub_get
 * and qk_capture_open, QK_ERR_NOMEM. */
QK_API QK_MUST_CHECK qk_status qk_inspect_capture(const qk_inspect_settings *settings,
                                                  qk_inspection **inspection, qk_error *err);
QK_API void qk_inspection_free(qk_inspection **inspection);

QK_END_DECLS

#endif
