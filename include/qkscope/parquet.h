/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a Parquet file, by its footer: rows, columns, how they are stored. */
#ifndef QKSCOPE_PARQUET_H
#define QKSCOPE_PARQUET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

QK_BEGIN_DECLS

/* Physical types, with the numbers of the Parquet format. */
typedef enum qk_parquet_type {
    QK_PARQUET_BOOLEAN = 0,
    QK_PARQUET_INT32 = 1,
    QK_PARQUET_INT64 = 2,
    QK_PARQUET_INT96 = 3, /* listed, never decoded */
    QK_PARQUET_FLOAT = 4,
    QK_PARQUET_DOUBLE = 5,
    QK_PARQUET_BYTE_ARRAY = 6,
    QK_PARQUET_FIXED_LEN_BYTE_ARRAY = 7,
} qk_parquet_type;

/* The annotations that change how a value is read. */
typedef enum qk_parquet_logical {
    QK_PARQUET_PLAIN_TYPE = 0, /* none, or one that leaves the value as it is */
    QK_PARQUET_STRING,
    QK_PARQUET_FLOAT16, /* FIXED_LEN_BYTE_ARRAY of 2 */
    QK_PARQUET_NULL,    /* every value is null (Arrow's null type) */
} qk_parquet_logical;

/* One leaf column, summed over all row groups. */
typedef struct qk_parquet_column {
    const char *path; /* dotted, e.g. "vector.list.element" */
    qk_parquet_type type;
    int type_length; /* FIXED_LEN_BYTE_ARRAY only, else 0 */
    qk_parquet_logical logical;
    int max_definition; /* 0: never null */
    int max_repetition; /* 0: one value a row */
    const char *codec;  /* "ZSTD", "SNAPPY", ...; "mixed" if row groups differ */
    uint32_t encodings; /* bit i set: Parquet encoding number i is used */
    int64_t num_values; /* slots, nulls included */
    int64_t compressed_bytes, uncompressed_bytes;
    bool has_range; /* min and max hold for all rows (integer columns) */
    int64_t min, max;
    int64_t null_count; /* -1: not recorded */
} qk_parquet_column;

typedef struct qk_parquet qk_parquet;

/* Opens a file and reads its footer. The handle may be used by several threads at once.
 * Errors: QK_ERR_NOT_FOUND, QK_ERR_IO, QK_ERR_MALFORMED (not a Parquet file,
 * damaged footer, column chunks that share bytes), QK_ERR_UNSUPPORTED (encrypted),
 * QK_ERR_NOMEM. */
QK_API QK_MUST_CHECK qk_status qk_parquet_open(qk_parquet **file, const char *path,
                                               qk_error *err);

/* Releases the file and sets *file to NULL. NULL is allowed. */
QK_API void qk_parquet_close(qk_parquet **file);

QK_API int64_t qk_parquet_num_rows(const qk_parquet *file);
QK_API int qk_parquet_num_row_groups(const qk_parquet *file);
QK_API int qk_parquet_num_columns(const qk_parquet *file);

/* Leaf column i, 0 <= i < qk_parquet_num_columns(); owned by the file. */
QK_API const qk_parquet_column *qk_parquet_column_at(const qk_parquet *file, int i);

/* Index of the leaf with this dotted path, or else of the first leaf under the
 * top-level field of this name; -1 if there is neither. */
QK_API int qk_parquet_find(const qk_parquet *file, const char *name);

/* Size of the file in bytes, and the writer's name ("" if not recorded). */
QK_API int64_t qk_parquet_file_bytes(const qk_parquet *file);
QK_API const char *qk_parquet_created_by(const qk_parquet *file);

/* Name of an encoding number, e.g. 8 -> "RLE_DICTIONARY"; "unknown" otherwise. */
QK_API const char *qk_parquet_encoding_name(int encoding);

QK_END_DECLS

#endif
