/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing Apache Parquet: the subset that captures use.
 *
 * Reading, from the simple call to the general one:
 *
 *     qk_parquet *file;
 *     qk_parquet_cursor *cursor;
 *     qk_parquet_open(&file, "l00h00q/data.parquet", &err);
 *     qk_parquet_cursor_open(&cursor, file, qk_parquet_find(file, "vector"), &err);
 *     do
 *         qk_parquet_read_f32(cursor, block, d, 256, &rows, &err);
 *     while (rows > 0);
 *
 * A cursor streams one leaf column through every row group. It holds one page at
 * a time (plus the chunk's dictionary), so memory follows the page size, not the
 * file size. Columns that are not asked for are not read.
 *
 * Supported: data pages v1 and v2; PLAIN, RLE, PLAIN_DICTIONARY, RLE_DICTIONARY,
 * DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, BYTE_STREAM_SPLIT; uncompressed,
 * Snappy, gzip, zstd, LZ4_RAW, Hadoop LZ4, Brotli; page CRCs are checked when
 * present. Anything else fails with QK_ERR_UNSUPPORTED naming the feature.
 * Sizes found in a file are checked against the file before memory is taken, and a small file
 * may not become large without end: the limits are in docs/parquet.md, and what is over one
 * fails with QK_ERR_UNSUPPORTED and the words "over the limit".
 *
 * Format: parquet-format 2.x of the Apache Parquet project. */
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
typedef struct qk_parquet_cursor qk_parquet_cursor;

/* Opens a file and reads its footer. The handle may be used by several threads
 * at once (each with its own cursors) and must outlive its cursors.
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

/* Fingerprint of the whole file, to see whether it changed: XXH3-128 as 32 hexadecimal
 * digits. Not made to resist forgery. */
enum { QK_FINGERPRINT_SIZE = 33 };
QK_API QK_MUST_CHECK qk_status qk_parquet_fingerprint(const qk_parquet *file,
                                                      char hash[QK_FINGERPRINT_SIZE],
                                                      qk_error *err);

/* Name of an encoding number, e.g. 8 -> "RLE_DICTIONARY"; "unknown" otherwise. */
QK_API const char *qk_parquet_encoding_name(int encoding);

/* Starts at the first row of a column. Fails for types outside the subset
 * (INT96, a nested column deeper than 255 levels) and for more values than a file of
 * this size may hold with QK_ERR_UNSUPPORTED. */
QK_API QK_MUST_CHECK qk_status qk_parquet_cursor_open(qk_parquet_cursor **cursor,
                                                      const qk_parquet *file, int column,
                                                      qk_error *err);
QK_API void qk_parquet_cursor_close(qk_parquet_cursor **cursor);

/* Reads up to max_rows rows of a column with one integer (or boolean) a row.
 * values[i] is 0 and valid[i] is 0 where the row is null; with valid == NULL a
 * null is QK_ERR_INCONSISTENT. *rows is 0 at the end of the column, else as many
 * as asked for unless the column ends first. A column of Null type reads as all null
 * whatever its physical type. With `valid`, FLOAT and DOUBLE are read, too: NaN as null, what
 * is not a whole number as QK_ERR_INCONSISTENT. */
QK_API QK_MUST_CHECK qk_status qk_parquet_read_i64(qk_parquet_cursor *cursor, int64_t *values,
                                                   uint8_t *valid, size_t max_rows,
                                                   size_t *rows, qk_error *err);

/* Number of values in the row that is read next, without consuming it: the head
 * dimension of a vector column. 0 at the end of the column. */
QK_API QK_MUST_CHECK qk_status qk_parquet_next_width(qk_parquet_cursor *cursor, size_t *width,
                                                     qk_error *err);

/* Reads up to max_rows rows of exactly `width` numbers each into
 * values[rows][width]: FLOAT, DOUBLE, FLOAT16, INT32 or INT64, in a list, a
 * repeated field, or (width 1) a plain column. A null or a row of another length is
 * QK_ERR_INCONSISTENT and names the row. NaN and infinities pass through.
 * *rows as in qk_parquet_read_i64. read_f32 rounds wider types to float32. */
QK_API QK_MUST_CHECK qk_status qk_parquet_read_f32(qk_parquet_cursor *cursor, float *values,
                                                   size_t width, size_t max_rows, size_t *rows,
                                                   qk_error *err);
QK_API QK_MUST_CHECK qk_status qk_parquet_read_f64(qk_parquet_cursor *cursor, double *values,
                                                   size_t width, size_t max_rows, size_t *rows,
                                                   qk_error *err);

/* One byte string; points into the cursor until its next call. */
typedef struct qk_parquet_bytes {
    const uint8_t *data;
    size_t size;
} qk_parquet_bytes;

/* The general call: up to max_slots slots of any supported column as Dremel
 * triples. definition[] and repetition[] get one level a slot (pass NULL where the
 * column's maximum is 0). values gets the *num_values values whose definition level
 * is the maximum, packed, as the physical type stores them:
 * BOOLEAN uint8_t, INT32 int32_t, INT64 int64_t, FLOAT float, DOUBLE double,
 * BYTE_ARRAY and FIXED_LEN_BYTE_ARRAY qk_parquet_bytes.
 * May return fewer slots than asked for; *num_slots is 0 only at the end. */
QK_API QK_MUST_CHECK qk_status qk_parquet_read_slots(qk_parquet_cursor *cursor,
                                                     size_t max_slots, uint8_t *definition,
                                                     uint8_t *repetition, void *values,
                                                     size_t *num_slots, size_t *num_values,
                                                     qk_error *err);

/* ---- writing ---------------------------------------------------------------------------- */

typedef enum qk_parquet_codec {
    QK_PARQUET_UNCOMPRESSED = 0,
    QK_PARQUET_SNAPPY = 1,
    QK_PARQUET_GZIP = 2,
    QK_PARQUET_BROTLI = 4,
    QK_PARQUET_ZSTD = 6,
    QK_PARQUET_LZ4_RAW = 7,
} qk_parquet_codec;

typedef enum qk_parquet_field_kind {
    QK_FIELD_INT32, /* from int64_t values that fit */
    QK_FIELD_INT64,
    QK_FIELD_STRING, /* from NUL-terminated UTF-8 */
    QK_FIELD_VECTOR, /* 3-level LIST of FLOAT, `width` values a row */
} qk_parquet_field_kind;

typedef struct qk_parquet_field {
    const char *name;
    qk_parquet_field_kind kind;
    size_t width; /* vectors only */
} qk_parquet_field;

/* Encoding of the values of vectors. AUTO writes, for each row group, the
 * smaller of dictionary and byte-stream-split after compression. */
typedef enum qk_parquet_vector_encoding {
    QK_VECTOR_AUTO,
    QK_VECTOR_PLAIN,
    QK_VECTOR_DICTIONARY,
    QK_VECTOR_BYTE_STREAM_SPLIT,
} qk_parquet_vector_encoding;

typedef struct qk_parquet_writer_settings {
    qk_parquet_codec codec;
    int level;             /* of the codec; 0 = its default */
    size_t row_group_rows; /* rows are buffered up to this many */
    size_t page_bytes;     /* aim for uncompressed data pages */
    int data_page_version; /* 1 or 2 */
    bool checksum;         /* write page CRCs */
    qk_parquet_vector_encoding vector_encoding;
} qk_parquet_writer_settings;

/* zstd, its default level, 65,536 rows a group, 1 MiB pages, version 1,
 * checksums on, AUTO. */
QK_API void qk_parquet_writer_settings_default(qk_parquet_writer_settings *settings);

/* Values of one field for the rows being added. */
typedef struct qk_parquet_values {
    const int64_t *i64;         /* INT32, INT64 */
    const char *const *strings; /* STRING */
    const float *f32;           /* VECTOR: rows x width, row-major */
    const uint8_t *valid;       /* one a row, 0 = null; NULL = all valid.
                                   Not for vectors. */
} qk_parquet_values;

typedef struct qk_parquet_writer qk_parquet_writer;

/* Starts a file beside `path`; nothing appears at `path` before finish. Every field is
 * optional (nullable) in the schema, as pyarrow writes it. settings NULL = defaults. */
QK_API QK_MUST_CHECK qk_status qk_parquet_writer_open(
    qk_parquet_writer **writer, const char *path, const qk_parquet_field *fields,
    size_t num_fields, const qk_parquet_writer_settings *settings, qk_error *err);

/* Appends rows; values[f] belongs to fields[f]. QK_ERR_ARGUMENT for an INT32
 * value out of range. */
QK_API QK_MUST_CHECK qk_status qk_parquet_writer_add(qk_parquet_writer *writer,
                                                     const qk_parquet_values *values,
                                                     size_t rows, qk_error *err);

/* Writes what is buffered and the footer, syncs, renames to `path`, frees the
 * writer and sets *writer to NULL, on failure too (nothing then appears at `path`). */
QK_API QK_MUST_CHECK qk_status qk_parquet_writer_finish(qk_parquet_writer **writer,
                                                        qk_error *err);

/* Drops the unfinished file. NULL is allowed. */
QK_API void qk_parquet_writer_abort(qk_parquet_writer **writer);

QK_END_DECLS

#endif
